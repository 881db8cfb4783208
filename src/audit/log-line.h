/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/audit-base.h"

#include <atoll/audit.h>
#include <stdbool.h>
#include <stdint.h>

#define AUDIT_LINE_MAX ((size_t)1 << 20) /* without the newline */

/* The members that begin every line of a log. */
struct audit_line {
	unsigned char prev[HASH_SIZE];
	uint64_t seq;
	char time[AUDIT_TIME_SIZE];
	char run[ATOLL_ID_SIZE];
	uint32_t step; /* 0: none */
	char kind[24];
	const char *members; /* the text after the kind, from its comma or closing brace on */
	size_t members_size;
};

/* Has `text` the form of a run's id? */
bool audit_is_id(const char *text);
void audit_time_format(uint64_t time_ns, char ret[AUDIT_TIME_SIZE]);
/* Writes the line up to the end of the kind, without a closing brace. */
void audit_line_format(const struct audit_line *line, struct buf *out);
/* Reads exactly what audit_line_format() writes. NULL, or a sentence that names the mistake. */
const char *audit_line_parse(const char *text, size_t size, struct audit_line *ret);
/* Is `text` one complete JSON value in UTF-8 without blanks? */
bool audit_json_is_valid(const char *text, size_t size);
/* Copies a member after the kind that is a string: its size, -ENOENT, -EBADMSG or -E2BIG. */
int audit_line_string(const struct audit_line *line, const char *key, char *ret, size_t room);

/* Finds the value of a member in an object that is valid JSON. -ENOENT, -EBADMSG. */
int audit_json_member(const char *text, size_t size, const char *key, const char **ret,
		      size_t *ret_size);
/* Decodes a JSON string, with the escapes that base/json.h writes: its size, -EBADMSG or -E2BIG. */
int audit_json_string(const char *text, size_t size, char *ret, size_t room);
