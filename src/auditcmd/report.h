/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "auditcmd/describe.h"

#include <jansson.h>
#include <stdint.h>

struct atoll_error;
struct buf;
struct event;
struct events;
struct processes;

/*
 * `atoll report` from within
 *
 *   report.c          the request, one pass over the log, the file
 *   report-model.c    what the page shows, gathered from events
 *   report-steps.c    of it: steps, how they ended, what they used
 *   report-tree.c     of it: processes
 *   report-changes.c  of it: changed files with their texts, from the layer if it is there
 *   report-proof.c    of it: whether the log verifies
 *   report-page.c     the page around it
 *   report/           its style and its script
 *
 * The page gets all as one JSON object, "data", and its script makes the rest of it, with
 * textContent and never with markup: nothing that a stranger wrote is parsed as anything but text.
 * Long lists have a bound, and what was left out is counted and said.
 */

/* Bounds of what goes into a page. */
#define REPORT_EVENTS_MAX      25000 /* lines of the list of events */
#define REPORT_PLAIN_MAX       15000 /* of these, executions and changes */
#define REPORT_TIMES_MAX       1000000
#define REPORT_PROCESSES_MAX   15000
#define REPORT_ACTS_MAX	       15000
#define REPORT_CONNECTIONS_MAX 5000
#define REPORT_DENIALS_MAX     5000 /* different ones */
#define REPORT_CHANGES_MAX     5000
#define REPORT_DIFF_MAX	       ((size_t)128 << 10) /* of one file */
#define REPORT_DIFFS_MAX       ((size_t)6 << 20)   /* of all */

struct report {
	char run[64];  /* as the log names it */
	char *title;   /* the first step's command */
	char *verdict; /* how the last one ended */
	bool is_good;
	json_t *data;
	/* private */
	json_t *kinds, *steps, *events, *lanes, *connections, *denials, *changes, *approvals,
		*flags, *heads;
	json_t *denial_index; /* what is in `denials` already, by its content */
	struct processes *processes;
	struct description words;
	uint64_t first_ns, last_ns, lane_ns[16];
	uint64_t n_events, n_plain, n_times, n_changes, n_connections, n_denials_left;
	uint64_t totals[32]; /* by place in event_kinds; the last: others */
};

/* ---- report-model.c ---- */

int report_init(struct report *report, struct atoll_error *err);
void report_done(struct report *report);
int report_add(struct report *report, const struct event *event, struct atoll_error *err);
int report_finish(struct report *report, const struct events *events, struct atoll_error *err);

/* ms since the beginning */
json_t *report_time(const struct report *report, uint64_t time_ns);
/* A text of an event as people see it; null if there is none. */
json_t *report_text(const json_t *object, const char *key);
/* What a buffer holds, as a text; the buffer is empty then. */
json_t *report_move_text(struct buf *text);

/* ---- report-steps.c ---- */

int report_add_step(struct report *report, const struct event *event);
int report_end_step(struct report *report, const struct event *event);

/* ---- report-tree.c ---- */

json_t *report_tree(const struct report *report);

/* ---- report-changes.c ---- */

/* Adds the texts of changed files to the list that the log has made, or makes one. Returns a
 * sentence about where they come from, or why there are none. */
json_t *report_diffs(struct report *report, const struct events *events);

/* ---- report-proof.c ---- */

json_t *report_proof(const struct report *report, const struct events *events);

/* ---- report-page.c ---- */

int report_page(const struct report *report, struct buf *out, struct atoll_error *err);

extern const char report_style[], report_script[];
