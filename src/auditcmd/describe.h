/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct event;

/*
 * An event as one line of text
 *
 * All text from the sandbox goes through event_show(), and long values are cut; `atoll log --json`
 * has them in full. `atoll log` and `atoll report` use the same texts.
 */

enum tone {
	TONE_PLAIN,
	TONE_QUIET, /* about the event log itself */
	TONE_MAIN,  /* a step starts */
	TONE_GOOD,
	TONE_BAD,   /* refused, failed */
	TONE_ALARM, /* the host would execute or trust the file; a monitor objects */
	TONE_NET,
	TONE_CHANGE,
};

struct description {
	struct buf who;	  /* "12 sh", or "" */
	struct buf what;  /* never "" */
	struct buf allow; /* the option that would allow it, or "" */
	enum tone tone;
};

#define DESCRIPTION_INIT                                                                           \
	{                                                                                          \
		.who = BUF_INIT(1 << 20), .what = BUF_INIT(8 << 20), .allow = BUF_INIT(1 << 20)    \
	}

/* Fills in `ret`, and replaces its earlier texts. Texts end with NUL and are never NULL. */
void describe(const struct event *event, struct description *ret);
void description_done(struct description *description);
#define cleanup_description cleanup_with(description_done)

/* Was something refused, or stopped at a limit? */
bool event_is_denial(const struct event *event);

/* The kinds of doc/events.md; ends with NULL. */
extern const char *const event_kinds[];
