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
 * `atoll report`: an event log as one HTML page
 *
 *   report.c          the request, one pass over the log, the file
 *   report-model.c    gathers the data of the page from events
 *   report-steps.c    of it: steps, their ends, their resources
 *   report-tree.c     of it: processes
 *   report-changes.c  of it: changed files with their texts, from the layer if it still exists
 *   report-proof.c    of it: whether the log verifies
 *   report-page.c     the HTML around it
 *   report/           its style and its script
 *
 * The page contains the data as one JSON object, "data". Its script builds the page with
 * textContent and never with markup, so text from the sandbox is never parsed as HTML. Long lists
 * are cut, and the page shows how many entries are missing.
 */

/* Limits of the data in a page. */
#define REPORT_EVENTS_MAX      25000 /* rows in the list of events */
#define REPORT_PLAIN_MAX       15000 /* executions and changes among them */
#define REPORT_TIMES_MAX       1000000
#define REPORT_PROCESSES_MAX   15000
#define REPORT_ACTS_MAX	       15000
#define REPORT_CONNECTIONS_MAX 5000
#define REPORT_DENIALS_MAX     5000 /* different ones */
#define REPORT_CHANGES_MAX     5000
#define REPORT_DIFF_MAX	       ((size_t)128 << 10) /* of one file */
#define REPORT_DIFFS_MAX       ((size_t)6 << 20)   /* of all */

struct report {
	char run[64];  /* the id in the log */
	char *title;   /* the command of the first step */
	char *verdict; /* the end of the last step */
	bool is_good;
	json_t *data;
	/* private */
	json_t *kinds, *steps, *events, *lanes, *connections, *denials, *changes, *approvals,
		*flags, *heads;
	json_t *denial_index; /* the entries of `denials`, by their content */
	struct processes *processes;
	struct description words;
	uint64_t first_ns, last_ns, lane_ns[16];
	uint64_t n_events, n_plain, n_times, n_changes, n_connections, n_denials_left;
	uint64_t totals[32]; /* by index in event_kinds; the last one: other kinds */
};

extern const char report_style[], report_script[];
