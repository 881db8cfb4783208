/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "spec/audit-section.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct atoll_error;
struct atoll_result;
struct plan;
struct eventlog;
struct spec;

/*
 * Who gets the lines of an event log while a run goes on
 *
 * Readers of the caller (watchers.h), the built-in event rules (audit/event-rules.h), and the
 * program that asks a monitor (src/monitor). Verdicts of rules and monitor become lines of the
 * event log, and the supervisor acts on them (job/run-watch.c).
 *
 *   watching.c       sends lines to all of them, writes their verdicts
 *   watch-monitor.c  starts the monitor's program, reads its answers, ends it
 *   watchers.c       readers
 */
struct watching;

/* The verdict of an event rule or the monitor about events. */
struct watch_verdict {
	enum rule_verdict verdict;
	uint32_t step;
	uint64_t about[8]; /* numbers of the lines */
	size_t n_about;
	char by[32];
	char why[240];
};

/* `events` as in atoll_run_options. `result`, if not NULL, gets the verdicts. Sets `*ret` to NULL
 * if there are no rules, readers or monitor. Called before the first step. */
int watching_open(const struct spec *spec, const char *const *events, struct eventlog *recorder,
		  struct atoll_result *result, struct watching **ret, struct atoll_error *err);
/* Should the supervisor stop reading notices, because a reader is slow? Takes NULL. */
bool watching_should_pause(struct watching *watch);
/* Write the new verdicts into the event log. Sets `*ret` to the gravest one; false if there is
 * none. Takes NULL. */
bool watching_settle(struct watching *watch, struct watch_verdict *ret);
/* Send all lines, and wait for the monitor's last answer. */
void watching_finish(struct watching *watch);
/* After the last line. Takes NULL. */
void watching_close(struct watching *watch);

/* The lines of the plan about event rules and the monitor. */
void watching_describe(const struct spec *spec, struct plan *plan);

/* ---- watch-monitor.c ---- */

struct watch_monitor {
	int fd; /* -1: none; watchers_close() closes it */
	int32_t pid;
	char answer[512]; /* the first `got` bytes of an answer */
	size_t got;
	bool has_ended, has_failed;
};

/* Fails if the program, or the variable with the key, is missing. */
int watch_monitor_check(const struct spec *spec, struct atoll_error *err);
/* Start the program and send its configuration. */
int watch_monitor_open(const struct spec *spec, struct watch_monitor *monitor,
		       struct atoll_error *err);
/* Read an answer: 1, or 2 for an ordinary "allow"; 0 if there is none; -EPIPE if the program has
 * ended. */
int watch_monitor_read(struct watch_monitor *monitor, struct watch_verdict *ret);
void watch_monitor_reap(struct watch_monitor *monitor);
