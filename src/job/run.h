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
 *   run.c            prepare, start, the loop, report
 *   run-messages.c   messages and notices of pid 1
 *   run-signals.c    the caller's signals and terminal, orders to end
 *   run-questions.c  questions to the caller about the network
 *   run-eventlog.c   the event log of the run
 *   run-watch.c      verdicts of event rules and the monitor
 */
struct run {
	const struct spec *spec;
	const struct buf *recipe; /* the words that the job was made of: recipe.c */
	const struct backend *backend;
	struct cell *cell;
	bool is_started;
	struct cell_handle handle;
	struct relay *relay;
	const struct atoll_run_options *options;
	struct atoll_result *result;
	struct atoll_error failure; /* sent by pid 1 */
	bool has_failed;
	bool is_step; /* a step: other processes may live on in the sandbox */
	bool has_started;
	bool has_ended;		   /* `result` says how */
	bool is_done;		   /* the loop ends */
	bool is_alone;		   /* pid 1 is the last process inside, and about to end */
	uint64_t cpu_us, peak_kib; /* of all processes, from the same message */
	int64_t start_ns, deadline_ns;
	int64_t kill_ns;	  /* end of the grace time; INT64_MAX: nothing was asked to end */
	bool is_terminal[3];	  /* which standard streams are the command's private terminal */
	struct terminal terminal; /* the caller's */
	uint64_t counted_ns;
	struct rest rest;
	struct netctl net;
	bool has_net_failed; /* the network failed: do not try another back end */
	struct run_layer layer;
	struct notices notices;
	char *const *env;
	struct eventlog *recorder; /* NULL: `record: off`, or the holder writes the event log */
	struct eventlog_output output;
	bool is_stuck; /* the event log cannot be written: everything inside is stopped */
	int64_t stuck_ns;
	struct watching *watch; /* NULL: no rules, readers or monitor */
	bool is_paused;		/* by a verdict: everything inside is stopped */
	int64_t paused_ns, pause_until_ns;
};

/* ---- run.c ---- */
void run_end_by_limit(struct run *run, enum atoll_end end, const char *limit, uint64_t value,
		      uint64_t used);

/* Also for steps (sandbox/exec.c). The first decides which streams are a terminal; the second
 * starts what was prepared in run->cell and waits for its end. */
int run_choose_terminal(struct run *run, struct atoll_error *err);
int run_cell(struct run *run, struct atoll_error *err);
void run_block_sigpipe(sigset_t *ret_old);
void run_restore_sigpipe(const sigset_t *old);

/* ---- run-signals.c ---- */
void run_order(struct run *run, enum init_order_type type, int number);
/* The wall limit is reached: ask everything inside to end, then kill. */
void run_time_out(struct run *run);
/* The grace time is over. The result names the signal that asked to end. */
void run_kill(struct run *run);
/* Enter raw mode and read the caller's terminal if the supervisor is in its foreground. */
void run_check_terminal(struct run *run);
void run_suspend(struct run *run, bool by_command);
void run_read_signals(struct run *run);

/* ---- run-eventlog.c ---- */

#define RUN_STEP 1 /* the number of a run's only step */

/* Open the event log and write the start. */
int run_eventlog_begin(struct run *run, struct atoll_error *err);
/* Stop everything inside while the event log cannot be written. */
void run_eventlog_check(struct run *run);
/* When the run is ended because the event log cannot be written; INT64_MAX: it can. */
int64_t run_eventlog_deadline_ns(const struct run *run);
/* For a step: the holder reports that its event log cannot be written (`problem` has a text), or
 * can again. */
void run_eventlog_pause(struct run *run, const struct atoll_error *problem);
/* Write the end and close. `r` and `err` are the result of the run. Waits for space on the disk. */
void run_eventlog_end(struct run *run, int r, const struct atoll_error *err);
void run_eventlog_connection(void *data, const struct atoll_connection *connection);
void run_eventlog_answer(void *data, const struct netctl_question *question,
			 enum atoll_answer_type answer);

/* ---- run-watch.c ---- */

/* With `record: off`: fail if the contract or the caller wants rules, readers or a monitor. */
int run_watch_refuse(const struct run *run, struct atoll_error *err);
/* After the first line of the event log. */
int run_watch_begin(struct run *run, struct atoll_error *err);
/* Act on new verdicts. */
void run_watch_check(struct run *run);
/* A person lets the run go on. */
void run_watch_resume(struct run *run, const char *who);
int64_t run_watch_deadline_ns(const struct run *run);
/* Wait for the last verdicts, before the end is written; then close rules, readers and monitor. */
void run_watch_end(struct run *run);
void run_watch_close(struct run *run);

/* ---- run-questions.c ---- */

/* A descriptor that is readable after a signal, the end of the sandbox or the end of egress. */
int run_make_stop_fd(const struct run *run);

/* Pass the next question on to the caller, if there is one. */
void run_ask(struct run *run);
