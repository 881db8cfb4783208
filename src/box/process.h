/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box-types.h"

#include <atoll/error.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Processes in a box
 *
 * Each is a step of the sandbox (atoll/step.h) that depends on nobody: not on who started it, and
 * not on the daemon. What it prints is kept in two streams (one for a terminal), which are counted
 * in bytes from its start; the latest PROCESS_WINDOW bytes of each can be read again, from any
 * offset, as long as it is known: while it lives, and PROCESS_FORGET_S after.
 */

struct atoll_step;
struct process_own;

#define PROCESS_WINDOW	 (16U << 20)
#define PROCESS_FORGET_S 30

enum process_stream {
	PROCESS_OUT, /* and a terminal's */
	PROCESS_ERR,
	PROCESS_STREAMS,
};

struct process_request {
	char *const *argv; /* argv[0] is looked up in the PATH inside */
	struct box_pairs environment;
	const char *cwd;  /* NULL: the user's home */
	const char *user; /* NULL: the box's default */
	const char *tag;  /* NULL; unique among the living ones, or EEXIST */
	const char *key; /* for exactly once: a second request with it gets the first one's; NULL */
	bool has_stdin;	 /* a pipe; else /dev/null */
	bool has_terminal;
	uint16_t columns, rows;
	uint64_t timeout_ms; /* killed then; 0: never */
	const char *trace;   /* becomes TRACEPARENT, unless `environment` has it; NULL or "" */
};

/* How it ended. */
struct process_end {
	bool has_exited; /* by itself, with `code`; else by signal `code` */
	int code;
	enum box_cause cause; /* of a limit or a rule; else NONE */
	char text[192];	      /* "exit status 3", "signal: killed", or what the limit was */
	uint64_t cpu_ms, memory_peak;
};

struct process {
	struct box *box;
	uint64_t number; /* of the step in its sandbox: names it for ever */
	int32_t pid;	 /* as seen inside */
	char **argv, **environment;
	char *cwd, *tag, *user;
	char *key; /* of the request, also after the daemon was started again; NULL: none */
	bool has_stdin, has_terminal, has_ended;
	struct process_end end;
	int64_t start_ms, end_ms;
	struct process *next;
};

/* Somebody who reads along. Embedded; called whenever there is more than `at` of a stream, or it
 * has ended and all was read. Called in a turn of its tenant (base/loop.h), so that thousands of
 * readers keep nobody else waiting: `ready` moves one piece, and is called again by itself if
 * there is more. */
struct process_reader {
	struct process *process; /* NULL: none */
	uint64_t at[PROCESS_STREAMS];
	void (*ready)(struct process_reader *reader);
	/* What it has not read is not overwritten: while it is half a window behind, the process's
	 * output is left in its pipes, until it reads on or is detached (who sets this looks
	 * after that: a reader that stands still must not hold it for ever). */
	bool holds;	       /* set it before process_attach(), later process_set_holds() */
	struct loop_turn turn; /* `ready` is called in a turn of the tenant's lane */
	bool is_resting;       /* see process_idle() */
	struct process_reader *next, **link;
};

typedef void process_started(struct process *process, const struct atoll_error *err, void *data);

struct process *process_find_pid(struct box *box, int32_t pid);
struct process *process_find_tag(struct box *box, const char *tag);
struct process *process_find_number(struct box *box, uint64_t number);

/* Somebody who waits for that; embedded. `process` is NULL once it is gone. */
struct process_input {
	struct process *process;
	void (*moved)(struct process_input *input);
	struct process_input *next;
};

/* To all of its session if it kills. -ESRCH: it has ended. */
int process_signal(struct process *process, int number);
int process_resize(struct process *process, uint16_t columns, uint16_t rows); /* -ENOTTY */
/* The box is gone, or the daemon ends: readers are told no more, structs are freed, processes are
 * left as they are. */
void process_forget_all(struct box *box);
/* From a step whose words have come; it is taken over, and watched from now on. NULL without
 * memory: then it is still the caller's. */
struct process *process_make(struct box *box, struct atoll_step *step);
/* What the step has told: its end, or more output. */
void process_read_news(struct process_own *own);
