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
 * Whoever watches a run
 *
 * The record's lines go to three: readers of the caller's (watchers.h), the built-in rules
 * (audit/event-rules.h), and the program that asks a monitor (src/monitor). What the latter two say
 * becomes lines of the record itself, and what follows is the supervisor's: run-watch.c.
 *
 *   watching.c        the lines to all of them, and what they say as lines
 *   watch-monitor.c  the monitor's program: started, asked, ended
 *   watchers.c       readers
 */
struct watching;

/* Somebody's word about an event. */
struct watch_said {
	enum rule_verdict verdict;
	uint32_t step;
	uint64_t about[8];
	size_t n_about;
	char by[32];
	char why[240];
};

/* `events` as in atoll_run_options; `result`, if not NULL, gets what is said. `*ret` is NULL where
 * nobody watches. Called before the first step; lines that were there before are sent, too. */
int watching_open(const struct spec *spec, const char *const *events, struct eventlog *recorder,
		  struct atoll_result *result, struct watching **ret, struct atoll_error *err);
/* Should events inside wait, because a reader is slow? Takes NULL. */
bool watching_holds(struct watching *watch);
/* Write down what was said. Returns the gravest of it, in `*ret`, which is the caller's; false if
 * nothing was. Takes NULL. */
bool watching_settle(struct watching *watch, struct watch_said *ret);
/* What is known so far has been sent, and the monitor has its last word. */
void watching_finish(struct watching *watch);
/* After the last line. Takes NULL. */
void watching_close(struct watching *watch);

/* Into the plan: who sees what happens, and what may follow. */
void watching_describe(const struct spec *spec, struct plan *plan);

/* ---- watch-monitor.c ---- */

struct watch_monitor {
	int fd; /* -1: there is none any more; belongs to the readers */
	int32_t pid;
	char answer[512]; /* as far as it has come */
	size_t got;
	bool has_ended, has_failed;
};

/* Is the program there, and the variable that holds the key? */
int watch_monitor_check(const struct spec *spec, struct atoll_error *err);
/* Started, and told what it needs. */
int watch_monitor_open(const struct spec *spec, struct watch_monitor *monitor,
		       struct atoll_error *err);
/* One answer, if one is there: 1; 0 if not; -EPIPE once it is gone. */
int watch_monitor_take(struct watch_monitor *monitor, struct watch_said *ret);
void watch_monitor_reap(struct watch_monitor *monitor);
