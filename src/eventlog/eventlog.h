/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/hash.h"
#include "eventlog/notices.h"

#include <atoll/layer.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct layer_changes;
struct plan;
struct spec;

/*
 * Writing the record
 *
 * Whoever supervises a run, or holds a sandbox, has a recorder and tells it what happens. It makes
 * lines of that (doc/events.md), redacted, and has them written: at once before a command is let
 * go; else when something has waited for 100 ms, or 64 KiB have come together. Each step's end is
 * signed, and so is what has come in ten seconds.
 *
 *   eventlog.c         the log: opened, written, signed, and what if it cannot be
 *   eventlog-start.c   the beginning of a step
 *   eventlog-recipe.c  what its job was made of, where a receipt is wanted
 *   eventlog-event.c   what happens in it
 *   eventlog-change.c  files that were changed, in a layer or directly
 *   eventlog-hash.c    what executed files contain: a cache, and a process that reads them
 *   eventlog-output.c  the hash of what was said, and its content
 *   apply-discard.c         what somebody decided later: apply, undo, discard
 *
 * All functions take NULL for a contract that says `record: off`, and do nothing.
 *
 * Nothing is done unrecorded: when lines cannot be written (the disk is full) eventlog_is_stuck(),
 * and everything inside has to stand still until it is not.
 */
struct eventlog;

/* For whoever watches: called for each line, without its end, in the order of the log. */
struct eventlog_hooks {
	void (*emitted)(const char *line, size_t size, void *data);
	/* More descriptors for the supervisor's loop: EVENTLOG_EXTRA entries, all to be filled in
	 * (fd -1 for none); and when to be called at the latest. May be NULL. */
	void (*want)(struct pollfd *fds, void *data);
	void (*move)(const struct pollfd *fds, void *data);
	int64_t (*deadline_ns)(void *data);
	void *data;
};

#define EVENTLOG_EXTRA	 4
#define EVENTLOG_WATCHED (1 + EVENTLOG_EXTRA) /* entries that eventlog_want() fills in */

/* ---- eventlog.c ---- */

/* A new log, with its first line. `id` may be "": then it gets one. Of a fork `parent` says of
 * what, as ID/CHECKPOINT; else NULL. NULL in `*ret` where the contract wants none. */
int eventlog_open(const struct spec *spec, char id[ATOLL_ID_SIZE], bool is_sandbox,
		  const char *parent, struct eventlog **ret, struct atoll_error *err);
/* Go on with a sandbox's; one that has none gets one. */
int eventlog_reopen(const struct spec *spec, const char *id, struct eventlog **ret,
		    struct atoll_error *err);
/* Go on with the log of a record, whatever its contract; -ENOENT if it has none. */
int eventlog_continue(const char *id, struct eventlog **ret, struct atoll_error *err);
void eventlog_watch(struct eventlog *recorder, const struct eventlog_hooks *hooks);
const char *eventlog_id(const struct eventlog *recorder); /* "" without one */
/* The command runs, and we wait: what the next run can use. Takes NULL. */
void eventlog_prepare_next(const struct eventlog *recorder);
bool eventlog_wants_notices(const struct eventlog *recorder);
/* The log's number of the n-th step of its holder. */
uint32_t eventlog_step(const struct eventlog *recorder, uint32_t n);

/* In the supervisor's loop. */
void eventlog_want(const struct eventlog *recorder, struct pollfd *fds);
void eventlog_move(struct eventlog *recorder, const struct pollfd *fds);
/* Nothing has happened for a while: a process that is only kept for what comes next ends. */
void eventlog_idle(struct eventlog *recorder);
int64_t eventlog_deadline_ns(const struct eventlog *recorder);

/* Write all that waits, now. */
int eventlog_flush(struct eventlog *recorder, struct atoll_error *err);
/* Lines could not be written, and wait. `*ret_problem`, if not NULL, gets why, in words. */
bool eventlog_is_stuck(const struct eventlog *recorder, const struct atoll_error **ret_problem);
/* A log that could not be written for so long ends what runs. */
#define EVENTLOG_STUCK	  "record" /* the limit that is named then */
#define EVENTLOG_STUCK_NS (30 * INT64_C(1000000000))
/* Is it still? Tried twice a second at most. */
bool eventlog_try_again(struct eventlog *recorder);
/* Sign what there is. `is_last`: nothing will follow; `took_long`: worth waiting for the disk. */
int eventlog_seal(struct eventlog *recorder, bool is_last, bool took_long, struct atoll_error *err);
/* What that does and needs no more facts, for a moment in which somebody else is waited for.
 * Nothing inside may be started any more: the private key is in memory from here on. */
void eventlog_prepare_seal(struct eventlog *recorder);
/* Takes NULL. What was not written is lost. */
void eventlog_close(struct eventlog *recorder);
/* The same of a log that has not begun: nothing is left of it. */
void eventlog_abandon(struct eventlog *recorder);

/* ---- eventlog-start.c ---- */

/* What the plan says of it. */
void eventlog_describe(const struct spec *spec, struct plan *plan);

struct eventlog_start {
	uint32_t step;
	char *const *argv;
	const char *cwd;
	char *const *env;	 /* of which the names are told */
	const char *digest;	 /* of the contract; NULL: it is found out */
	const struct plan *plan; /* mechanisms; may be NULL */
	const char *input;	 /* digest of the workspace, and the commit in it; NULL mostly */
	const char *commit;
	const char *image; /* digest, likewise; NULL also where the contract has none */
};
/* Written, and on its way to the disk, when it returns 0. */
int eventlog_start(struct eventlog *recorder, const struct eventlog_start *start,
		   struct atoll_error *err);

/* ---- eventlog-recipe.c ---- */

struct buf;

/* What the job was made of, for a receipt; before its start. */
void eventlog_recipe(struct eventlog *recorder, uint32_t step, const struct buf *recipe,
		     char *const *argv);

/* ---- eventlog-event.c ---- */

/* What the first process has told. */
void eventlog_notice(struct eventlog *recorder, const struct notices_told *told);
void eventlog_denial(struct eventlog *recorder, uint32_t step, const struct atoll_denial *denial);
/* NULL: egress ended before it had told of all connections. */
void eventlog_connection(struct eventlog *recorder, uint32_t step,
			 const struct atoll_connection *connection);
/* Somebody decided. `answer` and `scope` may be NULL. */
void eventlog_approval(struct eventlog *recorder, uint32_t step, const char *about,
		       const char *object, const char *answer, const char *scope);
/* The same, of what was decided about a whole record: "apply", "undo", "discard", "remove". */
void eventlog_decision(struct eventlog *recorder, const char *about, const char *object);
/* What became of it. */
struct eventlog_outcome {
	char about[16];	 /* "apply", "undo", "discard" */
	char result[16]; /* "applied", "undone", "discarded", "conflict", "failed" */
	bool is_counted; /* the numbers are known */
	bool is_late;	 /* of one that was interrupted, by whoever went on with it */
	uint64_t files, merged, held, conflicts;
	char why[400]; /* it is none of the first three; else "" */
};
void eventlog_outcome(struct eventlog *recorder, const struct eventlog_outcome *outcome);
void eventlog_stop(struct eventlog *recorder, uint32_t step, bool is_stopped, const char *why);
/* "checkpoint", "rollback", "fork", "remove"; what is NULL or UINT64_MAX is left out. */
void eventlog_layer_change(struct eventlog *recorder, const char *kind, const char *name,
			   uint64_t ended, const char *child);
/* The end of a step: its limit, if one was hit, and its end. All that was told of it is in the log
 * before that. `result` has what became of it. */
void eventlog_end(struct eventlog *recorder, uint32_t step, const struct atoll_result *result,
		  const char *note);

/* ---- eventlog-change.c ---- */

/* All of a layer's. */
void eventlog_changes(struct eventlog *recorder, uint32_t step,
		      const struct layer_changes *changes);
/* One of them. */
void eventlog_change(struct eventlog *recorder, uint32_t step, const struct layer_changes *changes,
		     size_t i);
/* What was changed directly: told at the end of a step. */
void eventlog_direct_changes(struct eventlog *recorder, uint32_t step);

/* ---- eventlog-output.c ---- */

enum {
	EVENTLOG_STDOUT,
	EVENTLOG_STDERR,
	EVENTLOG_STREAMS,
};

/* What goes through the relay, as the command wrote it. */
struct eventlog_output {
	struct {
		struct hash hash;
		uint64_t bytes;
		int fd;		 /* where it is kept; -1: it is not */
		uint64_t offset; /* in that file, where it begins */
		bool is_begun;
	} streams[EVENTLOG_STREAMS];
	char id[ATOLL_ID_SIZE];
	bool is_on, keeps, is_terminal;
	int failure; /* of writing what is to be kept */
};

void eventlog_output_init(struct eventlog_output *output, const struct spec *spec, const char *id,
			  bool is_terminal);
void eventlog_output_add(struct eventlog_output *output, int stream, const void *data, size_t size);
void eventlog_output_done(struct eventlog_output *output);

/* What is told of it, also from one process to another. */
struct eventlog_output_end {
	struct {
		uint64_t bytes, offset;
		unsigned char hash[HASH_SIZE];
	} streams[EVENTLOG_STREAMS];
	bool keeps, is_terminal;
};
void eventlog_output_finish(struct eventlog_output *output, struct eventlog_output_end *ret);
void eventlog_output_end(struct eventlog *recorder, uint32_t step,
			 const struct eventlog_output_end *said);
