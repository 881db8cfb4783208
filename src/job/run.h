/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/rest.h"
#include "eventlog/eventlog.h"
#include "eventlog/notices.h"
#include "eventlog/watching.h"
#include "init/init.h"
#include "isolate/isolate.h"
#include "job/job-layer.h"
#include "job/run-relay.h"
#include "job/terminal.h"
#include "netctl/netctl.h"

#include <signal.h>

/*
 * One run, for the files that supervise it
 *
 *   run.c        prepare, start, the loop, report
 *   run-signals.c    the caller's signals and terminal, and asking everything inside to end
 *   run-questions.c  asking the caller about the network
 *   run-eventlog.c what is written down of it
 *   run-watch.c  who watches, and what they have stopped
 */
struct run {
	const struct spec *spec;
	const struct buf *recipe; /* what the job was made of */
	const struct backend *backend;
	struct cell *cell;
	bool is_started;
	struct cell_handle handle;
	struct relay *relay;
	const struct atoll_run_options *options;
	struct atoll_result *result;
	struct atoll_error failure; /* told by the first process */
	bool has_failed;
	bool is_step; /* in a sandbox in which more may run */
	bool has_started;
	bool has_ended; /* `result` says how */
	bool is_done;	/* and nothing is waited for any more */
	bool is_alone;	/* the first process has said that nobody else lives, and will end soon */
	uint64_t cpu_us, peak_kib; /* and this, of everybody */
	int64_t start_ns, deadline_ns;
	int64_t kill_ns;     /* when it will be killed, having been asked to end; else INT64_MAX */
	bool is_terminal[3]; /* which of its standard streams are the command's own terminal */
	struct terminal terminal; /* the caller's */
	uint64_t counted_ns;
	struct rest rest;
	struct netctl net;
	bool has_net_failed; /* no other back end would help */
	struct run_layer layer;
	struct notices notices;
	char *const *env;
	struct eventlog *recorder; /* NULL: nothing is recorded, or the holder does */
	struct eventlog_output output;
	bool is_stuck; /* the record cannot be written: everything inside stands still */
	int64_t stuck_ns;
	struct watching *watch; /* NULL: nobody watches */
	bool is_paused;		/* by a rule or a monitor: everything inside stands still */
	int64_t paused_ns, pause_until_ns;
};

/* ---- run.c ---- */
void run_end_by_limit(struct run *run, enum atoll_end end, const char *limit, uint64_t value,
		      uint64_t used);

/* For steps, which are supervised likewise: exec.c. The first says what gets a terminal, the second
 * starts what was prepared in run->cell, and waits for its end. */
int run_choose_terminal(struct run *run, struct atoll_error *err);
int run_cell(struct run *run, struct atoll_error *err);
void run_hold_sigpipe(sigset_t *ret_old);
void run_release_sigpipe(const sigset_t *old);

/* ---- run-signals.c ---- */
void run_order(struct run *run, enum init_order_type type, int number);
/* The wall limit is reached. */
void run_time_out(struct run *run);
/* What had to be killed counts as ended by the signal that asked. */
void run_kill(struct run *run);
/* Is the caller's terminal ours, and may its input be read? */
void run_look_at_terminal(struct run *run);
void run_suspend(struct run *run, bool by_command);
void run_take_signals(struct run *run);

/* ---- run-eventlog.c ---- */

#define RUN_STEP 1 /* a run is one */

/* Everything that is known before the start is written down. */
int run_eventlog_begin(struct run *run, struct atoll_error *err);
/* A record that cannot be written stops everything, until it can. */
void run_eventlog_check(struct run *run);
/* When a run whose record cannot be written is ended; INT64_MAX: it can. */
int64_t run_eventlog_deadline_ns(const struct run *run);
/* The same, where somebody else writes it. */
void run_eventlog_held(struct run *run, const struct atoll_error *problem);
/* All has ended; `r` is what became of it. Waits for space on the disk, if need be. */
void run_eventlog_end(struct run *run, int r, const struct atoll_error *err);
void run_eventlog_connection(void *data, const struct atoll_connection *connection);
void run_eventlog_answer(void *data, const struct netctl_question *question,
			 enum atoll_answer_type answer);

/* ---- run-watch.c ---- */

/* With `record: off`: is somebody to watch all the same? */
int run_watch_refuse(const struct run *run, struct atoll_error *err);
/* Once there is a log, before anything is in it but its first line. */
int run_watch_begin(struct run *run, struct atoll_error *err);
/* What rules and monitor have said, and what follows. */
void run_watch_check(struct run *run);
/* Somebody says that it may go on. */
void run_watch_resume(struct run *run, const char *who);
int64_t run_watch_deadline_ns(const struct run *run);
/* The last words, before the end is written down; and the end of those who watch. */
void run_watch_end(struct run *run);
void run_watch_close(struct run *run);

/* ---- run-questions.c ---- */

/* One descriptor that is readable when any of these has happened: a signal for us, the end of the
 * sandbox, the end of egress. */
int run_make_stop_fd(const struct run *run);

/* Pass one question on to the caller, if there is one. */
void run_ask(struct run *run);
