/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Which system calls a sandboxed process may make
 *
 * One table (filter.c) says for every call of this kernel generation what happens: allowed, refused
 * with an errno that makes programs fall back, checked by its arguments, or handed to the guard. A
 * number that the table does not know is answered with ENOSYS, so a new kernel brings no new
 * surface.
 *
 * The program is built at run time from the table: a binary search over ranges of equal answers, a
 * hundred-odd instructions, built in microseconds and cheap to load, where a list of three hundred
 * rules costs four times as much at every start. It is made in the caller's memory without
 * allocation.
 */
struct filter_options {
	bool keeps_affinity;   /* sched_setaffinity is refused: the cpus limit rests on it */
	bool is_bare;	       /* no namespaces: what they would keep apart is refused */
	bool has_proxy;	       /* with that: TCP sockets all the same, to connect with */
	bool guards_reading;   /* every open goes to the guard, also to read */
	bool leaves_files;     /* the kernel alone decides about files: nothing of the host's can be
				* written; see must_guard_files() */
	bool may_have_devices; /* descriptors come from outside: ioctl() of drivers is allowed */
	bool sees;	   /* for the record, the guard is told of programs that are executed, of
			    * files that are opened or changed by name, and of what is refused */
	bool sees_sending; /* with that: also of datagrams with an address; there is no network */
	bool is_first;	   /* for pid 1 itself: it makes calls, and hands none to anybody. All that
			    * a template and its steps may do is allowed, as they inherit it */
	bool forks_templates; /* with that: it will fork some; else it refuses more */
};

/* In the upper half of landlock_restrict_self()'s flags, which the kernel ignores: a call of ours.
 * A program that says the same only keeps the guard from knowing of rules that it gives itself. */
#define FILTER_OWN_RULES 0x61746f6cU

#define FILTER_MAX 1024 /* instructions; far more than are needed */

/* Returns how many instructions were written. Cannot fail: a table that does not fit is a bug that
 * the unit test finds. */
size_t filter_build(const struct filter_options *options, struct sock_filter program[FILTER_MAX]);
