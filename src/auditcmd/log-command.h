/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct event;

/* `atoll log`: the request, and the selection of events. */

#define LOG_KINDS_MAX 32

struct log_request {
	const char *kinds[LOG_KINDS_MAX]; /* `n_kinds` of them; none: all */
	unsigned n_kinds;
	uint32_t step;	   /* 0: all */
	uint64_t since_ns; /* 0: from the beginning */
	bool is_denials, is_json, is_following;
	char kinds_text[512];
};

/* Does the request select this event? */
bool log_wants(const struct log_request *request, const struct event *event);

/* events.schema.json, embedded */
extern const char log_schema[];
