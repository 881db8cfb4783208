/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scope.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct atoll_error;
struct buf;

/*
 * Reads one event log, line by line
 *
 * The log may be in the store or a copy anywhere. It is not checked here: `atoll verify` does that.
 * A line is a JSON object (doc/events.md). Unknown keys and kinds are accepted. A line is an error
 * if it is too long, is not an object, or lacks a member that every line has.
 *
 * Names of files are bytes, and JSON has no bytes. The writer writes a byte that is not UTF-8 as a
 * lone U+DC80..U+DCFF, which jansson refuses, as it refuses NUL. The reader replaces them by
 * U+10DC80..U+10DCFF and U+10DC00, of a private plane. event_bytes() turns them into bytes again,
 * and event_show() shows them as \xNN. If a name contains such a character itself, its bytes are
 * treated in the same manner, so the form is unambiguous.
 *
 * No file here includes base/json.h: it and <jansson.h> both define json_null().
 */

#define EVENTS_LINE_MAX ((size_t)4 << 20)

struct events {
	char id[16]; /* of the run or sandbox, if the log is in the store; else "" */
	char path[PATH_MAX];
	int fd;
	uint64_t n_lines; /* read so far */
	bool is_cut;	  /* the file ends with an incomplete line */
	/* private */
	char *data;
	size_t used, room, at;
	bool is_skipping; /* to the end of a line that is too long */
	char *patched;
};

struct event {
	const char *line; /* as in the log, without its newline; valid until the next call */
	size_t size;
	json_t *object; /* the next call frees it; json_incref() keeps it */
	const char *kind;
	uint64_t seq, time_ns;
	uint32_t step; /* 0: none */
};

/*
 * Opens the event log of a run. `word` is its id, an unambiguous beginning of the id, the name of a
 * sandbox, a path (with a slash, or ending in ".jsonl"), or NULL for the latest log whose workspace
 * contains the current directory.
 */
int events_open(const char *word, struct events **ret, struct atoll_error *err);
/* Opens the log at `path`; `id` may be "". */
int events_open_path(const char *id, const char *path, struct events **ret,
		     struct atoll_error *err);
/* NULL is allowed. */
void events_close(struct events *events);

/* Reads the next line. 1; 0 at the present end of the file, which may grow; -EBADMSG with a message
 * for a line that is not an event, and the next call goes on after it; or another negative errno.
 * The caller zeroes `event` before the first call and calls event_done() after the last one. */
int events_next(struct events *events, struct event *event, struct atoll_error *err);
void event_done(struct event *event);

#define cleanup_events cleanup_with(events_scope_close)
static inline void events_scope_close(struct events **events)
{
	events_close(*events);
}
#define cleanup_event cleanup_with(event_done)

/* The bytes that a text stands for. */
void event_bytes(const char *text, size_t size, struct buf *out);
