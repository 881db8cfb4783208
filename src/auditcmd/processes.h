/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "auditcmd/describe.h"

#include <stdint.h>

struct atoll_error;
struct event;

/*
 * The tree of processes of an event log
 *
 * The log has executions, each with its process and its parent, and events of processes. A process
 * that only forked does not appear in the log. Its events belong to its nearest ancestor in the
 * log, which is found by the name that it has inherited. Pids are reused: an execution with another
 * parent, or under another name than the last program of that pid, is a new process.
 *
 * Each step is an item at the top.
 */

#define PROCESS_NONE UINT32_MAX

/* An event of a process, as text. */
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
	uint32_t n_below; /* descendants */
	uint32_t n_denials, n_connections;
	uint64_t time_ns, seq;
	/* One of the two is the kernel's name: the executed path may be a link. */
	char name[20], other_name[20];
	char *text;	  /* its first program */
	bool is_indirect; /* processes without an execution are between it and `up` */
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
/* Adds one event. -ENOMEM. */
int processes_add(struct processes *processes, const struct event *event);
/* Fills in `n_below` after the last event. */
void processes_finish(struct processes *processes);
