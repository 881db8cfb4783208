/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/audit.h"
#include "base/json.h"
#include "eventlog/eventlog.h"

/*
 * One line of the event log, and the event log itself, for the files of this component
 *
 * json = eventlog_begin(...); json_str(json, ...); eventlog_commit(eventlog);
 */

struct changed;
struct eventlog_tally;
struct file_hashes;
struct waiting;

/* Numbers of a step so far. */
struct eventlog_counts {
	uint32_t step;
	uint64_t denials, connections;
};

#define EVENTLOG_STEPS_MAX  128
#define EVENTLOG_FLUSH_SIZE (64 << 10) /* waiting bytes that are written at once */

struct eventlog {
	struct audit_log *log;
	const struct spec *spec; /* NULL after eventlog_continue() */
	char id[ATOLL_ID_SIZE];
	struct eventlog_hooks hooks;
	int64_t opened_ns;   /* since 1970: a file with a later ctime was made by the run */
	uint32_t only_step;  /* of a run; 0 in a sandbox */
	uint32_t first_step; /* of a sandbox: the number of steps before this holder */
	int64_t flush_ns;    /* when waiting lines are written; INT64_MAX: none wait */
	int64_t seal_ns;     /* when the next head is signed; INT64_MAX: no line since the last */
	int64_t retry_ns;    /* when a stuck log is tried again */
	bool is_stuck;
	bool has_events;	    /* among the waiting lines are events of the inside */
	bool is_counted;	    /* the line that was begun is not for the file */
	int64_t stuck_ns;	    /* since when it is stuck */
	uint64_t n_dropped;	    /* lines that were lost: no memory, or a log that is stuck */
	struct atoll_error problem; /* why the log is stuck */
	struct eventlog_counts counts[EVENTLOG_STEPS_MAX];
	int32_t unseen_pid;	    /* the process whose execution could not be read last */
	struct file_hashes *hashes; /* NULL until a program is executed */
	struct waiting *waiting;    /* executions whose file is still being read */
	size_t n_waiting;
	struct changed *changed;      /* files changed directly; NULL: none */
	struct eventlog_tally *tally; /* counted events; NULL: none */
};

/* The number of a notice's step in the log. */
static inline uint32_t eventlog_step_of(const struct eventlog *eventlog,
					const struct notice *notice)
{
	return notice->step ? notice->step + eventlog->first_step : eventlog->only_step;
}

/* Begin a line; eventlog_commit() ends it and sends it to the hooks. `time_ns` 0: now. */
struct json *eventlog_begin(struct eventlog *eventlog, const char *kind, uint64_t time_ns,
			    uint32_t step);
void eventlog_commit(struct eventlog *eventlog);
/* Write a line with the number of lost lines, if there are any and the log has room. */
void eventlog_write_dropped(struct eventlog *eventlog);
/* Send the last line of the log to the hooks. */
void eventlog_emit_last(struct eventlog *eventlog);

struct eventlog_counts *eventlog_counts(struct eventlog *eventlog, uint32_t step);
void eventlog_add_hash(struct json *json, const char *key, const unsigned char *hash);
void eventlog_add_redacted(struct json *json, const char *key, const char *text,
			   const char *previous);
/* The caller's user id and name on the host. */
void eventlog_add_who(struct json *json);
