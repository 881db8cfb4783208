/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct atoll_error;
struct buf;

/*
 * One log, line by line
 *
 * A log is read as it is, from the store or wherever a copy lies; whether it is whole and signed is
 * the question of `atoll verify`. A line is a JSON object (doc/events.md). Unknown keys and kinds
 * are no problem; a line that is too long, is no object, or lacks what every line has, is.
 *
 * Names of files are bytes, and JSON has none. The writer writes a byte that is not UTF-8 as
 * U+DC80..U+DCFF alone, which jansson refuses, as it does NUL. Here they become U+10DC80..U+10DCFF
 * and U+10DC00, of a private plane; event_bytes() makes bytes of them again, and event_show() shows
 * them as \xNN. Where such a character was itself part of a name its bytes are treated in the same
 * way, so nothing is ambiguous.
 *
 * Nothing here includes base/json.h: it and <jansson.h> both have a json_null().
 */

#define EVENTS_LINE_MAX ((size_t)4 << 20)

struct events {
	char id[16]; /* of the run or sandbox, if it is a log of the store's; else "" */
	char path[PATH_MAX];
	int fd;
	uint64_t n_lines; /* read so far */
	bool is_cut;	  /* what follows the last whole line is half a line */
	/* private */
	char *data;
	size_t used, room, at;
	bool is_skipping; /* a line that was too long, until its end */
	char *patched;
};

struct event {
	const char *line; /* as it stands in the log, without its newline; until the next call */
	size_t size;
	json_t *object; /* freed by the next call; json_incref() keeps it */
	const char *kind;
	uint64_t seq, time_ns;
	uint32_t step; /* 0: none */
};

/*
 * Open the log of a run: its id, an unambiguous beginning of that, a sandbox's name, a path (with
 * a slash, or ending in ".jsonl"), or NULL for the latest one whose workspace contains the current
 * directory.
 */
int events_open(const char *word, struct events **ret, struct atoll_error *err);
/* Takes NULL. */
void events_close(struct events *events);

/* The next line. 1; 0 at the end of what is there, and more may come later; -EBADMSG with the story
 * for a line that is no event, behind which one can go on; or another negative errno. `event` is
 * zeroed before the first call, and event_done() ends it. */
int events_next(struct events *events, struct event *event, struct atoll_error *err);
void event_done(struct event *event);

#define cleanup_events cleanup_with(events_scope_close)
static inline void events_scope_close(struct events **events)
{
	events_close(*events);
}
#define cleanup_event cleanup_with(event_done)

/* ---- what is in it ---- */

/* A text; NULL where there is none. */
const char *event_text(const json_t *object, const char *key);
/* A whole number that is not negative, or `otherwise`. */
uint64_t event_number(const json_t *object, const char *key, uint64_t otherwise);
/* Is there something that is neither null nor false? */
bool event_has(const json_t *object, const char *key);
/* "2026-11-16T10:45:39.123456789Z" as ns since 1970; false if it is nothing of that kind. */
bool event_read_time(const char *text, uint64_t *ret_ns);

/* The bytes that a text stands for. */
void event_bytes(const char *text, size_t size, struct buf *out);
/* The same fit for a line that people read: what a terminal would obey, what turns or hides text
 * and what is no UTF-8 becomes \n, \t or \xNN, as everywhere in atoll (ui/print.h). */
void event_show(const char *text, struct buf *out);
/* A value as JSON, as the writer of the log has it: bytes are U+DC80..U+DCFF again. */
bool event_json(const json_t *value, struct buf *out);

/* ---- find-log.c ---- */

/* A log of the store's, as its first lines tell it. */
struct events_entry {
	char id[16];
	uint64_t time_ns; /* when it was last written to */
	uint64_t size;
	char *workspace; /* NULL if no step has begun */
	json_t *start;	 /* the first step's; NULL likewise */
};
/* All of them, the latest first. With `with_start` their first lines are read. */
int events_list(bool with_start, struct events_entry **ret, size_t *ret_n, struct atoll_error *err);
void events_list_free(struct events_entry *entries, size_t n);

/* Which one `word` means, as events_open() says. `ret_id` is "" for a path. */
int events_find(const char *word, char ret_id[16], char ret_path[PATH_MAX],
		struct atoll_error *err);
/* Is there a sandbox of that id, in which there may be further steps? */
bool events_has_sandbox(const char *id);
int events_open_path(const char *id, const char *path, struct events **ret,
		     struct atoll_error *err);
