/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "eventlog/eventlog-change.h"
#include "eventlog/eventlog-event.h"
#include "eventlog/eventlog-output.h"
#include "eventlog/eventlog-recipe.h"
#include "eventlog/eventlog-start.h"
#include "eventlog/notices.h"
#include "eventlog/watching.h"

#include <atoll/layer.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct spec;

/*
 * The event log of one run or sandbox
 *
 * The supervisor of a run, or the holder of a sandbox, opens an event log and calls a function for
 * each event. The functions build the line (doc/events.md), redact it, and append it by `audit`.
 * Lines are written to the file before a command starts, and later when a line has waited for 100
 * ms or 64 KiB wait. A head is signed at the end of each step and ten seconds after an event.
 *
 *   eventlog.c         open, write, sign, close; a log that cannot be written
 *   eventlog-line.c    begin and commit one line; parts that several kinds of lines have
 *   eventlog-count.c   the size limit of the log: events beyond it are counted
 *   eventlog-start.c   the beginning of a step, and what the plan says
 *   eventlog-recipe.c  what the job was made of, where a receipt is wanted
 *   eventlog-event.c   events: executions, denials, connections, decisions, ends
 *   eventlog-change.c  changed files, in a layer or directly
 *   eventlog-hash.c    hashes of executed files: a cache, and a process that reads files
 *   eventlog-output.c  hash and content of the command's output
 *   notices.c          reads the packets of pid 1
 *   watching.c, watchers.c, watch-monitor.c   event rules, readers of events, the monitor
 *
 * All functions do nothing if `eventlog` is NULL, which is how `record: off` is kept.
 *
 * No work goes unrecorded: while lines cannot be written (the disk is full), eventlog_is_stuck() is
 * true, and the caller freezes everything inside.
 */
struct eventlog;

/* Functions that watching.c hooks into an event log. Each may be NULL. */
struct eventlog_hooks {
	/* For each line, without its newline, in the order of the log. */
	void (*emitted)(const char *line, size_t size, void *data);
	/* For the caller's poll(): fill all EVENTLOG_EXTRA entries (fd -1: unused). */
	void (*want)(struct pollfd *fds, void *data);
	void (*move)(const struct pollfd *fds, void *data);
	/* The latest time for the next call of `move`. */
	int64_t (*deadline_ns)(void *data);
	void *data;
};

#define EVENTLOG_EXTRA	 4
#define EVENTLOG_WATCHED (1 + EVENTLOG_EXTRA) /* entries that eventlog_want() fills in */

/* Create an event log with its first line. An `id` of "" is replaced by a new one. `parent` is
 * ID/CHECKPOINT for a fork, else NULL. Sets `*ret` to NULL if the contract says `record: off`. */
int eventlog_open(const struct spec *spec, char id[ATOLL_ID_SIZE], bool is_sandbox,
		  const char *parent, struct eventlog **ret, struct atoll_error *err);
/* Continue the event log of a sandbox; create one if the sandbox has none. */
int eventlog_reopen(const struct spec *spec, const char *id, struct eventlog **ret,
		    struct atoll_error *err);
/* Continue the event log of a record, whatever its contract says; -ENOENT if it has none. */
int eventlog_continue(const char *id, struct eventlog **ret, struct atoll_error *err);
/* Set the hooks, and send them the line that was written last. */
void eventlog_watch(struct eventlog *eventlog, const struct eventlog_hooks *hooks);
const char *eventlog_id(const struct eventlog *eventlog); /* "" if `eventlog` is NULL */
/* Create a spare log file, which the next run takes. Called while the supervisor has nothing to
 * do. */
void eventlog_prepare_next(const struct eventlog *eventlog);
bool eventlog_wants_notices(const struct eventlog *eventlog);
/* The number in the log of the n-th step of this holder. */
uint32_t eventlog_step(const struct eventlog *eventlog, uint32_t n);

/* For the caller's loop: EVENTLOG_WATCHED entries, and the latest time for eventlog_move(). */
void eventlog_want(const struct eventlog *eventlog, struct pollfd *fds);
void eventlog_move(struct eventlog *eventlog, const struct pollfd *fds);
int64_t eventlog_deadline_ns(const struct eventlog *eventlog);
/* No event for a while: end the process that reads files. */
void eventlog_idle(struct eventlog *eventlog);

/* Write all waiting lines now. */
int eventlog_flush(struct eventlog *eventlog, struct atoll_error *err);
/* True while lines wait that could not be written. `ret_problem` may be NULL. */
bool eventlog_is_stuck(const struct eventlog *eventlog, const struct atoll_error **ret_problem);
/* An event log that is stuck for this long ends the run. */
#define EVENTLOG_STUCK	  "record" /* the name of this limit in results and logs */
#define EVENTLOG_STUCK_NS (30 * INT64_C(1000000000))
/* Retry a write, at most twice a second. Returns whether the log is still stuck. */
bool eventlog_try_again(struct eventlog *eventlog);
/* Sign a head over all lines. `is_last`: no line follows. `took_long`: wait for the disk. */
int eventlog_seal(struct eventlog *eventlog, bool is_last, bool took_long, struct atoll_error *err);
/* Do the part of eventlog_seal() that needs no more facts, while the caller waits for something
 * else. The private key is in memory from here on: start nothing inside afterwards. */
void eventlog_prepare_seal(struct eventlog *eventlog);
/* Lines that were not written are lost. */
void eventlog_close(struct eventlog *eventlog);
/* Close, and remove the file of a log whose run did not begin. */
void eventlog_abandon(struct eventlog *eventlog);
