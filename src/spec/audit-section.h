/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct atoll_error;
struct buf;
struct json;
struct spec;
struct tree;

/*
 * Who watches a run: the `audit` section's `rules`, `monitor` and `hold`
 *
 * Rules are built in (src/audit/event-rules.h), and a monitor is somebody's service that is sent
 * events and answers. Both only see what is recorded, and can say one of five things about it.
 */

enum rule_id {
	RULE_CREDENTIALS,
	RULE_DOWNLOAD,
	RULE_DELETION,
	RULE_ENCODED,
	RULE_MINER,
	RULE_COUNT,
};

/* What follows, weakest first. */
enum rule_verdict {
	RULE_OFF, /* a monitor says "allow" */
	RULE_FLAG,
	RULE_ASK,
	RULE_PAUSE,
	RULE_KILL,
	RULE_VERDICTS,
};

struct spec_monitor {
	char *url; /* NULL: there is none */
	char *model;
	char *prompt; /* NULL: the usual one */
	char *key;    /* name of the caller's variable that holds it, or NULL */
	char *origin;
	uint32_t batch; /* events at most in one question */
	uint64_t interval_ms, timeout_ms;
	enum rule_verdict on_failure; /* RULE_OFF: allow */
};

struct spec_watch {
	enum rule_verdict rules[RULE_COUNT];
	char *rule_origins[RULE_COUNT]; /* NULL: default */
	struct spec_monitor monitor;
	uint64_t hold_ms; /* how long a pause waits for somebody */
	char *hold_origin;
	uint64_t log_bytes; /* so much of the log tells what happens inside */
	char *log_origin;   /* NULL: default */
};

/* ---- audit-words.c ---- */

/* "credentials", ...; one line on each; "flag", "pause", ... And the way back, or -1. */
const char *rule_name(enum rule_id rule);
const char *rule_summary(enum rule_id rule);
int rule_find(const char *name);
const char *rule_verdict_word(enum rule_verdict verdict);
int rule_find_verdict(const char *word);

void spec_watch_init(struct spec_watch *watch);
void spec_watch_done(struct spec_watch *watch);
/* "NAME=WHAT", as a flag; NAME may be "all". */
int spec_add_rule_verdict(struct spec *spec, const char *text, const char *origin,
			  struct atoll_error *err);
int spec_set_hold(struct spec *spec, const char *text, const char *origin, struct atoll_error *err);
int spec_set_log_size(struct spec *spec, const char *text, const char *origin,
		      struct atoll_error *err);
#define SPEC_LOG_BYTES (UINT64_C(16) << 20) /* unless said */
bool spec_watch_has_rules(const struct spec_watch *watch);

/* ---- audit-load.c: of a job file, whose shape has been looked at ---- */
int spec_watch_load(struct spec *spec, const char *name, const struct tree *audit,
		    struct atoll_error *err);

/* ---- audit-explain.c ---- */

/* Into the object "audit" of the canonical form: those keys that stand before "output", and
 * behind "record". */
void spec_watch_canonical_before(const struct spec_watch *watch, struct json *json);
void spec_watch_canonical_after(const struct spec_watch *watch, struct json *json);
void spec_watch_explain_text(const struct spec_watch *watch, struct buf *out);
/* The first thing in which this is less than the default, or leads out, as "clause text (origin)";
 * NULL if nothing is. `is_of_interest` says whose lines count. */
char *spec_watch_widens(const struct spec_watch *watch,
			bool (*is_of_interest)(const void *data, const char *origin),
			const void *data);
