/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "auditcmd/describe.h"

#include <stdint.h>

struct atoll_error;
struct event;

/*
 * Who started whom
 *
 * The log tells of executions, each with its process and that one's parent, and of what processes
 * did. A process that only forked is not known: what its children and it did is entered with the
 * nearest ancestor that is, which is found by the name that it has inherited. Numbers of processes
 * are used again; an execution by another parent's child, or under another name than the last one
 * left behind, is a new process.
 *
 * At the top there is an item for each step.
 */

#define PROCESS_NONE UINT32_MAX

/* Something that a process did, in words. */
struct process_act {
	uint32_t next; /* PROCESS_NONE: the last */
	enum tone tone;
	bool is_denial;
	uint64_t time_ns, seq;
	const char *kind;   /* "exec" (a further one), "connection", "denial", "limit", "flag" */
	char *text, *allow; /* `allow` may be NULL */
};

struct process {
	uint64_t pid, parent_pid; /* 0: a step */
	uint32_t step;
	uint32_t up, first, last, next; /* items; PROCESS_NONE */
	uint32_t first_act, last_act;
	uint32_t n_below; /* processes beneath it, at any depth */
	uint32_t n_denials, n_connections;
	uint64_t time_ns, seq;
	/* One of them is what the kernel calls it: the name may have been a link. */
	char name[20], other_name[20];
	char *text;	  /* what it executed first */
	bool is_indirect; /* processes that never executed anything stand between it and `up` */
};

struct processes {
	struct process *items;
	uint32_t n;
	struct process_act *acts;
	uint32_t n_acts;
	uint64_t n_left_out; /* beyond PROCESSES_MAX */
	/* private */
	uint32_t room, acts_room, last_step;
	uint32_t *by_pid;
	uint64_t n_pids;
	struct description words;
};

#define PROCESSES_MAX 1000000

struct processes *processes_new(void);
/* Takes NULL. */
void processes_free(struct processes *processes);
/* One event after the other. -ENOMEM. */
int processes_add(struct processes *processes, const struct event *event);
/* When all are in: fills in `n_below`. */
void processes_finish(struct processes *processes);
