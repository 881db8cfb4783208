/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ui/ui.h"

#include <stdbool.h>
#include <stdint.h>

struct atoll_error;
struct event;
struct events;

/* `atoll log` from within. */

#define LOG_KINDS_MAX 32

/* What was asked. */
struct log_request {
	const char *kinds[LOG_KINDS_MAX]; /* as far as `n_kinds`; none: all */
	unsigned n_kinds;
	uint32_t step;	   /* 0: all */
	uint64_t since_ns; /* 0: from the beginning */
	bool is_denials, is_json, is_following;
	char kinds_text[512];
};

bool log_wants(const struct log_request *request, const struct event *event);
/* "2026-11-16T10:45:00Z", "2026-11-16 10:45", "10:45", "5m": ns since 1970. */
int log_read_since(const char *text, uint64_t *ret_ns, struct atoll_error *err);

/* ---- log-text.c ---- */

/* Lines for people, one after the other. */
struct log_text;
struct log_text *log_text_new(struct pager *pager, bool is_denials);
void log_text_free(struct log_text *text);
void log_text_line(struct log_text *text, const struct event *event);

/* ---- log-follow.c ---- */

/* Wait until there may be more. 1, or 0 if nobody writes any more. */
struct log_wait;
struct log_wait *log_wait_new(const struct events *events, bool is_sandbox);
void log_wait_free(struct log_wait *wait);
int log_wait_more(struct log_wait *wait);

/* ---- others ---- */

int log_tree(struct events *events, const struct log_request *request, struct pager *pager,
	     struct atoll_error *err);
int log_list(bool is_json, struct atoll_error *err);

/* events.schema.json, embedded */
extern const char log_schema[];
