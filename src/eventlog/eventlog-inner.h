/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/audit.h"
#include "base/json.h"
#include "eventlog/eventlog.h"

/* The recorder, for its files: see eventlog.h */

struct file_hashes;
struct waiting;
struct changed;
struct eventlog_tally;

/* What a step has come to so far. */
struct eventlog_counts {
	uint32_t step;
	uint64_t denials, connections;
};

#define EVENTLOG_STEPS_MAX 128

struct eventlog {
	struct audit_log *log;
	const struct spec *spec;
	char id[ATOLL_ID_SIZE];
	struct eventlog_hooks hooks;
	int64_t opened_ns;  /* since 1970; what was made later is the run's own */
	uint32_t only_step; /* of a run; 0 in a sandbox */
	uint32_t
		first_step; /* of a sandbox: how many there were before its holder began to count */
	int64_t flush_ns;   /* what waits is written then; INT64_MAX: nothing waits */
	int64_t seal_ns;  /* what came since the last head is signed then; INT64_MAX: nothing did */
	int64_t retry_ns; /* when it is tried again */
	bool is_stuck;
	bool has_events;	    /* of what waits, something tells what happens inside */
	bool is_counted;	    /* the line at hand is not for the log */
	int64_t stuck_ns;	    /* since when it is stuck */
	uint64_t n_dropped;	    /* lines that could not be kept until there is room */
	struct atoll_error problem; /* why it is; or what made a line impossible */
	struct eventlog_counts counts[EVENTLOG_STEPS_MAX];
	int32_t unseen_pid;	    /* whose execution could not be read, just now */
	struct file_hashes *hashes; /* NULL until something is executed */
	struct waiting *waiting;    /* executions whose file is still being read */
	size_t n_waiting;
	struct changed *changed;      /* directly; NULL: nothing */
	struct eventlog_tally *tally; /* NULL: all is in the log */
};

/* Of a notice, as the log counts them. */
static inline uint32_t eventlog_step_of(const struct eventlog *recorder,
					const struct notice *notice)
{
	return notice->step ? notice->step + recorder->first_step : recorder->only_step;
}

/* ---- eventlog-count.c ---- */

/* One line about what happens inside: eventlog_commit() behind it. Where the log has its size it is
 * only counted, by `kind` and `rule`. */
struct eventlog_event {
	const char *kind;
	uint64_t time_ns;
	uint32_t step;
	const char *rule, *object; /* or NULL */
	const char *verdict;	   /* of a connection: a constant; else NULL */
	uint64_t count;
};
struct json *eventlog_begin_event(struct eventlog *recorder, const struct eventlog_event *event);
/* At the end of a step; 0: of all. Once told they are forgotten. */
void eventlog_write_counted(struct eventlog *recorder, uint32_t step);
/* Now and then. */
void eventlog_write_repeated(struct eventlog *recorder);
void eventlog_forget_counted(struct eventlog *recorder);
/* -ENOSPC if lines about what happens inside wait, and the disk's floor is reached. */
int eventlog_check_floor(struct eventlog *recorder, struct atoll_error *err);

/* ---- eventlog.c ---- */

/* One line; eventlog_commit() behind it. */
struct json *eventlog_begin(struct eventlog *recorder, const char *kind, uint64_t time_ns,
			    uint32_t step);
void eventlog_commit(struct eventlog *recorder);
struct eventlog_counts *eventlog_counts(struct eventlog *recorder, uint32_t step);
void eventlog_add_hash(struct json *json, const char *key, const unsigned char *hash);
void eventlog_add_redacted(struct json *json, const char *key, const char *text,
			   const char *previous);
/* Whoever runs this: the host's number and name. */
void eventlog_add_who(struct json *json);

/* ---- eventlog-event.c ---- */

/* Tell of executions whose hash has become known. */
void eventlog_write_hashed(struct eventlog *recorder);
/* And wait for the others. */
void eventlog_wait_for_hashes(struct eventlog *recorder);
void eventlog_forget_waiting(struct eventlog *recorder);

/* ---- eventlog-change.c ---- */

void eventlog_note_change(struct eventlog *recorder, const struct notices_told *told);
void eventlog_forget_changed(struct eventlog *recorder);

/* ---- eventlog-hash.c ---- */

struct file_hashes *file_hashes_new(void);
void file_hashes_free(struct file_hashes *hashes);
/* 1 and the hash; 0 if it will be known later, to be asked again after file_hashes_move(); or a
 * negative errno. `fd` may be -1, and stays the caller's. */
int file_hashes_find(struct file_hashes *hashes, const struct notice_file *file, int fd,
		     unsigned char ret[HASH_SIZE]);
/* The process that reads files ends, unless it is at work. There is another one if need be. */
void file_hashes_rest(struct file_hashes *hashes);
int file_hashes_fd(const struct file_hashes *hashes); /* to be polled for reading, or -1 */
/* Take what has become known; with `waits`, wait for something. False if there is nothing to wait
 * for. */
bool file_hashes_move(struct file_hashes *hashes, bool waits);
