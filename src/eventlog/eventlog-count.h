/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct atoll_error;
struct eventlog;
struct json;

/* An event whose number the command controls. */
struct eventlog_event {
	const char *kind;
	uint64_t time_ns;
	uint32_t step;
	const char *rule, *object; /* or NULL */
	const char *verdict;	   /* of a connection: a constant; else NULL */
	uint64_t count;
};

/* Begin a line about such an event; eventlog_commit() ends it. Beyond the size limit of the log the
 * line goes to the hooks only, and the event is counted by `kind` and `rule`. */
struct json *eventlog_begin_event(struct eventlog *eventlog, const struct eventlog_event *event);
/* Write the counts of a step and reset them; step 0: of all steps. */
void eventlog_write_counted(struct eventlog *eventlog, uint32_t step);
/* Write all counts if their sum has doubled since they were written. */
void eventlog_write_doubled(struct eventlog *eventlog);
void eventlog_forget_counted(struct eventlog *eventlog);
/* -ENOSPC if lines about events wait, and the disk has less free space than its floor. */
int eventlog_check_floor(struct eventlog *eventlog, struct atoll_error *err);
