/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/atoll.h>
#include <stdbool.h>
#include <stdint.h>

struct eventlog;
struct parsed_notice;

/* A notice of pid 1. */
void eventlog_notice(struct eventlog *eventlog, const struct parsed_notice *parsed);
void eventlog_denial(struct eventlog *eventlog, uint32_t step, const struct atoll_denial *denial);
/* `connection` NULL: egress ended before it had reported all connections. */
void eventlog_connection(struct eventlog *eventlog, uint32_t step,
			 const struct atoll_connection *connection);
/* A decision of a person or a program. `answer` and `scope` may be NULL. */
void eventlog_approval(struct eventlog *eventlog, uint32_t step, const char *about,
		       const char *object, const char *answer, const char *scope);
/* A decision about a whole record: "apply", "undo", "discard", "remove". */
void eventlog_decision(struct eventlog *eventlog, const char *about, const char *object);

/* The outcome of such a decision. */
struct eventlog_outcome {
	char about[16];	 /* "apply", "undo", "discard" */
	char result[16]; /* "applied", "undone", "discarded", "conflict", "failed" */
	bool is_counted; /* the numbers are known */
	bool is_late;	 /* a later command finished an apply that was interrupted */
	uint64_t files, merged, held, conflicts;
	char why[400]; /* the reason of "conflict" or "failed"; else "" */
};
void eventlog_outcome(struct eventlog *eventlog, const struct eventlog_outcome *outcome);
/* Everything inside was frozen, or goes on. */
void eventlog_stop(struct eventlog *eventlog, uint32_t step, bool is_stopped, const char *why);
/* `kind` is "checkpoint", "rollback", "fork" or "remove". NULL and UINT64_MAX are left out. */
void eventlog_layer_change(struct eventlog *eventlog, const char *kind, const char *name,
			   uint64_t ended, const char *child);
/* The end of a step: its limit, if one was reached, and its result. Lines that wait for a hash come
 * first. */
void eventlog_end(struct eventlog *eventlog, uint32_t step, const struct atoll_result *result,
		  const char *note);

/* ---- for eventlog.c ---- */

/* Write the executions whose hash is known by now. */
void eventlog_write_hashed(struct eventlog *eventlog);
/* Wait for the other hashes, and write their executions. */
void eventlog_wait_for_hashes(struct eventlog *eventlog);
void eventlog_forget_waiting(struct eventlog *eventlog);
