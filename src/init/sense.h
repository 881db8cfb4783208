/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/program.h"
#include "init/tell.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct call;
struct guard;

/*
 * What the guard sees, for the record
 *
 *   sense.c         who the caller is, and one notice about a refusal
 *   sense-files.c   is a path one that the contract refuses? By its text; the kernel decides
 *   sense-change.c  what has been changed on the host
 *   call-exec.c     a program is executed
 *   call-refused.c  calls that the filter refuses
 *
 * Nothing is decided here. Where the kernel decides alone (most calls, with a layer) the guard is
 * told only to see: it reads the path, compares it as text with the places of the contract, and
 * lets the call go on, with three system calls of its own. What looks like a refusal is looked at
 * more closely, and told if it is one.
 */

/* A caller, from its stat in /proc. */
struct sense_caller {
	pid_t pid;    /* of its process */
	pid_t parent; /* likewise */
	pid_t session;
	char program[16];
};

/* False if it is gone. */
bool sense_read_caller(pid_t tid, struct sense_caller *ret);
/* Fill in who it was. */
void sense_fill_caller(const struct guard *guard, pid_t tid, struct notice *notice);

/* ---- denials ---- */

#define SENSE_DENIALS  128
#define SENSE_OBJECT   512 /* longer ones are told each time */
#define SENSE_PLACES   4096
#define SENSE_CHANGES  8192
#define SENSE_SESSIONS 128

/* One that was told of a moment ago, and how often it has happened since. */
struct sense_denial {
	uint64_t hash; /* of action, rule and object; 0: none */
	int64_t told_ns;
	uint64_t n_more;
	uint32_t flags;
	pid_t pid, parent;
	uint32_t step;
	char program[16];
	char action[16], rule[64], allow[SENSE_OBJECT + 32];
	char object[SENSE_OBJECT];
};

struct sense_session {
	pid_t session;
	uint32_t step;
};

struct sense {
	size_t next_denial, n_changes, n_sessions;
	int64_t due_ns; /* something is to be told by then; 0: nothing */
	struct sense_session sessions[SENSE_SESSIONS]; /* of steps, the latest */
	struct sense_denial denials[SENSE_DENIALS];
	/* Hashes of paths that the contract does not refuse; from a page on, see guard_trim(). */
	PROGRAM_PAGES uint64_t places[SENSE_PLACES];
	uint64_t changes[SENSE_CHANGES]; /* of path and action, told already */
};

/* Tell of a refusal: by now, or with others alike in a second. `flags` are NOTICE_ASKS_... `path`
 * is what it would take to allow it, with `flag` in front ("--write"); NULL: nothing does. */
struct sense_refusal {
	const char *action, *rule, *object;
	const char *flag, *path;
	uint32_t flags;
};
void sense_refused(struct call *call, const struct sense_refusal *refusal);
/* The same for what the guard itself has said no to: call->action, ->rule and ->path. */
void sense_refused_here(struct call *call);
/* A second has passed, or (`is_last`) all is over: tell what has only been counted. */
void sense_catch_up(struct guard *guard, int64_t now_ns, bool is_last);

/* A step's session, by which its processes are known. */
void sense_add_step(struct guard *guard, pid_t session, uint32_t step);

/* ---- sense-files.c ---- */

enum sense_use {
	SENSE_READ,
	SENSE_CHANGE, /* what is there */
	SENSE_MAKE,   /* a name */
	SENSE_REMOVE, /* likewise */
};

/* A call that is only seen: told of if it will be refused. It goes on in any case, and is answered.
 * False if it is none of these. */
bool sense_file_call(struct call *call);
/* Only look: the same, of a call that is answered elsewhere. */
bool sense_paths(struct call *call);

/* A path that is absolute; the kernel decides about it. */
void sense_use(struct call *call, enum sense_use use, const char *action, const char *path);
/* Opening to read, from the caller's arguments; `path` as it was given. */
void sense_open_to_read(struct call *call, int dir_fd, const char *path);

uint64_t sense_hash(uint64_t hash, const char *text);

/* ---- sense-change.c ---- */

struct target;

/* What is there before the guard changes it: to be asked for before. */
struct sense_before {
	bool is_wanted;	  /* not told yet */
	bool was_new;	  /* there was nothing */
	bool has_content; /* a hash of it */
	unsigned char content[32];
};
void sense_look_before(struct call *call, const struct target *target, struct sense_before *ret);
/* It was changed. `from`: where it was before, or NULL. */
void sense_changed(struct call *call, const struct target *target, const char *from,
		   const struct sense_before *before);
/* Something was made where there was nothing. */
void sense_made(struct call *call, const struct target *target);
