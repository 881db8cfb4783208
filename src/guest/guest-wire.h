/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * What the daemon (src/box/guest.c) and the program inside (src/guest/) say to each other
 *
 * Packets over a SOCK_SEQPACKET pair, which is the program's standard input. The daemon asks, each
 * question with a number of its own, any number of them at once; the guest answers in any order:
 * perhaps with packets of entries, and at the end with one answer. A watch goes on after its
 * answer, with events under its number, until it is ended by UNWATCH, which has none.
 *
 * Both come from one build and run on one machine, so numbers are in its byte order. A packet is a
 * head, then strings or entries: `n` of them. A string is its length (16 bits), its bytes and a
 * NUL; there is no other NUL in it.
 *
 * Two kinds of descriptors travel. From the guest: a plain file, or a connection. To the guest: the
 * end of a pipe that it fills, where a file cannot be handed out (STREAM). The pipe is the daemon's
 * own because whoever has a duplicate of a descriptor can make it block; of one that came from
 * inside somebody inside may have one.
 */

#define GUEST_PACKET_MAX  65536
#define GUEST_STRING_MAX  4352 /* a path and a name; and what metadata may hold */
#define GUEST_STRINGS_MAX 1024 /* in one question */

/* A list longer than this is refused on both sides. */
#define GUEST_LIST_MAX	     250000
#define GUEST_LIST_BYTES_MAX (48U << 20)

#define GUEST_METADATA_PREFIX "user.e2b."
#define GUEST_METADATA_MAX    4096 /* of one file, with the prefixes */
#define GUEST_METADATA_PAIRS  420  /* as many as fit */

enum guest_question {
	/* Every question begins with two strings: home, and who is to own what is made (a name; ""
	 * is whoever the guest runs as). Then: */
	GUEST_ASK_STAT = 1, /* path */
	GUEST_ASK_LIST,	    /* path; number: depth */
	GUEST_ASK_MAKE_DIR, /* path */
	GUEST_ASK_MOVE,	    /* from, to */
	GUEST_ASK_REMOVE,   /* path */
	GUEST_ASK_OPEN,	    /* path; answered with a descriptor, or GUEST_NEEDS_STREAM */
	GUEST_ASK_STREAM,   /* path, and the end of a pipe */
	GUEST_ASK_WRITE,    /* path, then names and values of metadata */
	GUEST_ASK_COMPOSE,  /* to, from... */
	GUEST_ASK_CONNECT,  /* number: port */
	GUEST_ASK_WATCH,    /* path; flags */
	GUEST_ASK_UNWATCH,  /* number of the watch is the question's; no answer */
	GUEST_ASK_ALIVE,    /* answered at once */
	GUEST_QUESTIONS_END,
};

enum guest_answer {
	GUEST_SAYS_DONE = 1, /* number: errno or 0; a string: the path it is about; then entries */
	GUEST_SAYS_ENTRIES,  /* of a list; more follows */
	GUEST_SAYS_EVENT, /* number: enum guest_wire_event; a string: the name; then 0 or 1 entries
			   */
};

/* In the order of enum guest_event (box/guest.h). */
enum guest_wire_event {
	GUEST_TELL_CREATE,
	GUEST_TELL_WRITE,
	GUEST_TELL_REMOVE,
	GUEST_TELL_RENAME,
	GUEST_TELL_CHMOD,
	GUEST_TELL_LOST,
};

/* head.flags */
#define GUEST_RECURSIVE	   1U /* of WATCH */
#define GUEST_ENTRIES	   2U
#define GUEST_NEEDS_STREAM 4U /* of an answer to OPEN: it has no size, ask for a stream */

struct guest_head {
	uint64_t id;
	uint32_t size; /* of the whole packet */
	uint32_t number;
	uint16_t kind;
	uint16_t n; /* entries of an answer; strings of a question */
	uint32_t flags;
};

/* Followed by path, target, owner, group, and `n_metadata` times name and value. */
struct guest_wire_entry {
	uint64_t size;
	int64_t mtime_ns;
	uint32_t mode, permissions;
	uint8_t type, is_link;
	uint16_t n_metadata;
	uint32_t rest; /* 0 */
};

/* The least that an entry takes: five strings' worth of lengths are more. */
#define GUEST_ENTRY_MIN (sizeof(struct guest_wire_entry) + 4 * 3)

/* File systems whose plain files are none: reading may wait, or have effects, and a size means
 * nothing. The guest reads them itself; the daemon takes no descriptor of one. */
static inline bool guest_is_unreal(long magic)
{
	static const uint32_t magics[] = {
		0x9fa0,	    /* proc: of all the most dangerous, /proc/PID/mem is a plain file */
		0x62656572, /* sysfs */
		0x27e0eb,   /* cgroup */
		0x63677270, /* cgroup2 */
		0x64626720, /* debugfs */
		0x74726163, /* tracefs */
		0x73636673, /* securityfs */
		0xcafe4a11, /* bpf */
		0x62656570, /* configfs */
		0x1cd1,	    /* devpts */
		0x6e736673, /* namespaces */
		0x19800202, /* message queues */
		0x6165676c, /* pstore */
		0xf97cff8c, /* selinux */
		0xde5e81e4, /* efivarfs */
		0x42494e4d, /* binfmt_misc */
	};

	for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
		if (magics[i] == (uint32_t)magic)
			return true;
	return false;
}

/* ---- writing ---- */

static inline void guest_put_whole(struct buf *packet, const char *text, size_t size)
{
	uint16_t length = (uint16_t)(size < GUEST_STRING_MAX ? size : GUEST_STRING_MAX);
	char *at = buf_extend(packet, sizeof length + length + 1U);

	if (!at)
		return;
	memcpy(at, &length, sizeof length);
	memcpy(at + sizeof length, text, length);
	at[sizeof length + length] = '\0';
}

/* Cut at GUEST_STRING_MAX, and at a NUL. */
static inline void guest_put_bytes(struct buf *packet, const char *text, size_t size)
{
	guest_put_whole(packet, text, strnlen(text, size));
}

static inline void guest_put(struct buf *packet, const char *text)
{
	guest_put_whole(packet, text, strlen(text));
}

/* ---- reading: what comes is not believed ---- */

struct guest_cursor {
	const char *at, *end;
	bool is_bad; /* something did not fit; all further reading gives nothing */
};

static inline bool guest_get_bytes(struct guest_cursor *cursor, void *ret, size_t size)
{
	if (cursor->is_bad || (size_t)(cursor->end - cursor->at) < size) {
		cursor->is_bad = true;
		return false;
	}
	memcpy(ret, cursor->at, size);
	cursor->at += size;
	return true;
}

/* Points into the packet; "" where it is bad. */
static inline const char *guest_get(struct guest_cursor *cursor)
{
	const char *text;
	uint16_t length;

	if (!guest_get_bytes(cursor, &length, sizeof length))
		return "";
	text = cursor->at;
	if ((size_t)(cursor->end - text) <= length || length > GUEST_STRING_MAX ||
	    text[length] != '\0' || strlen(text) != length) {
		cursor->is_bad = true;
		return "";
	}
	cursor->at += length + 1;
	return text;
}

/* The head of a packet of `size` bytes, and a cursor behind it. */
static inline bool guest_get_head(const void *packet, size_t size, struct guest_head *ret,
				  struct guest_cursor *ret_cursor)
{
	*ret_cursor = (struct guest_cursor){packet, (const char *)packet + size, false};
	return guest_get_bytes(ret_cursor, ret, sizeof *ret) && ret->size == size;
}
