/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the first process has seen
 *
 * Where the contract asks for a full record, the first process tells its supervisor what the guard
 * gets to see: programs that are executed, what is refused, files of the host's that are changed.
 * Notices go through a socket of their own (SOCK_SEQPACKET), many in one packet: they are gathered
 * until the packet is full, 20 ms have passed, or the run ends. When the supervisor does not read,
 * the first process waits, and with it whoever asked it for something: nothing happens unrecorded.
 *
 * What is told is what the guard has read from the caller's memory. A program with threads can
 * change that between the guard's look and the kernel's: the record of an execution is evidence
 * about programs that do not mean to deceive it, and nothing is ever decided by it.
 */

enum notice_type {
	NOTICE_EXEC = 1, /* texts: path, then each argument */
	NOTICE_DENIAL,	 /* texts: action, rule, object, how to allow it ("" if nothing does) */
	NOTICE_CHANGE,	 /* in direct mode; texts: action, path, and of a rename the path before */
	NOTICE_LOST,	 /* `value` notices could not be told */
};

/* A file as it was looked at: enough to know it again as long as nobody changes it. */
struct notice_file {
	uint64_t dev, ino, size;
	int64_t mtime_ns, ctime_ns;
};

/* In front of its texts, each of which ends with NUL; `size` is that of all, a multiple of 8. */
struct notice {
	uint32_t size;
	uint16_t type;
	uint16_t n_texts;
	int32_t pid, parent; /* inside; 0 if it is not known */
	uint32_t step;	     /* of a service; 0: not known, or no service */
	uint32_t flags;	     /* NOTICE_... */
	uint64_t time_ns;    /* since 1970 */
	uint64_t value;	     /* NOTICE_EXEC: how many arguments there were; DENIAL: how often it has
			      * happened since the last notice about the same; LOST: how many */
	struct notice_file file;
	unsigned char
		before[32]; /* NOTICE_CHANGE: SHA-256 of what was there, if NOTICE_HAS_BEFORE */
	char program[16];
	char texts[];
};

enum {
	NOTICE_IS_CUT = 1, /* arguments or a path were too long to be told whole */
	NOTICE_HAS_FD = 2, /* with the packet comes a descriptor of this file, for its hash: the
			    * first of the packet that has none yet */
	NOTICE_HAS_BEFORE = 4,
	NOTICE_WAS_NEW = 8,	/* NOTICE_CHANGE: there was nothing */
	NOTICE_IS_SCRIPT = 16,	/* NOTICE_EXEC: begins with "#!" */
	NOTICE_ASKS_HOST = 32,	/* NOTICE_DENIAL: counts only if the host has the object, which is
				 * not to be seen from inside; the reader looks */
	NOTICE_ASKS_ABOVE = 64, /* likewise, if the host has the directory that it would be in */
};

#define NOTICE_PACKET_MAX (64 * 1024)
#define NOTICE_FDS_MAX	  16
#define NOTICE_ARGV_MAX	  (8 * 1024)  /* bytes of all arguments that are told */
#define NOTICE_MAX	  (20 * 1024) /* one, with all its texts */

/*
 * The packet that is being gathered, in memory that the first process shares with its supervisor:
 * when the first process is killed, what it had not sent yet is still there. It is sent whole; then
 * `size` becomes 0, then `number` one more. So whoever has received fewer than `number` packets has
 * not seen what stands here.
 */
struct notice_packet {
	uint64_t number; /* from 1 */
	uint32_t size;
	uint32_t unused;
	unsigned char data[NOTICE_PACKET_MAX];
};

/* The first or next notice of a packet; NULL at its end, and for one that makes no sense.
 * `ret_texts` gets `n_texts` pointers, at most `max`. */
const struct notice *notice_next(const void *packet, size_t size, size_t *offset,
				 const char **ret_texts, size_t max);
