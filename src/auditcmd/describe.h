/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct event;

/*
 * An event in words
 *
 * One line for people: who did it, and what. All that comes from strangers is shown by
 * event_show(), long things are cut; `atoll log --json` has them whole. The page of `atoll report`
 * uses the same words.
 */

enum tone {
	TONE_PLAIN,
	TONE_QUIET, /* the record about itself */
	TONE_MAIN,  /* a step begins */
	TONE_GOOD,
	TONE_BAD,   /* refused, failed */
	TONE_ALARM, /* the host would execute or trust it; a monitor objects */
	TONE_NET,
	TONE_CHANGE,
};

struct description {
	struct buf who;	  /* "12 sh", or "" */
	struct buf what;  /* never "" */
	struct buf allow; /* what would allow it, or "" */
	enum tone tone;
};

#define DESCRIPTION_INIT                                                                           \
	{                                                                                          \
		.who = BUF_INIT(1 << 20), .what = BUF_INIT(8 << 20), .allow = BUF_INIT(1 << 20)    \
	}

/* Replaces what `ret` held. Texts are NUL-terminated, never NULL. */
void describe(const struct event *event, struct description *ret);
void description_done(struct description *description);
#define cleanup_description cleanup_with(description_done)

/* Is it something that was refused, or that a limit ended? */
bool event_is_denial(const struct event *event);

/* The kinds of doc/events.md, NULL-terminated. */
extern const char *const event_kinds[];

/* ---- pieces ---- */

/* A command line as one would type it, cut where it gets long. */
void describe_argv(const json_t *argv, bool is_cut, struct buf *out);
/* "120 ms", "1.2 s", "2 min 5 s". */
void describe_ms(uint64_t ms, struct buf *out);
void describe_size(uint64_t bytes, struct buf *out);
/* Any value: texts as they are, everything else as JSON. */
void describe_value(const json_t *value, struct buf *out);
/* "example.org:443 (192.0.2.7)". */
void describe_target(const json_t *object, struct buf *out);
/* What would allow it: as the event says, or a flag for a connection that was refused for want of
 * one; nothing if nothing would. */
void describe_allow(const json_t *object, struct buf *out);
/* "exited with 0", "ended by signal 9 (KILL)", "stopped at the time limit". */
void describe_end(const json_t *object, struct buf *out);
