/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

#include <stdint.h>

/*
 * Writing JSON
 *
 * The writer keeps track of commas; the caller of nesting: every json_open() has its json_close().
 * `key` is NULL inside a list and at the top. Output is compact, keys stand in the order given.
 * Bytes that are not valid UTF-8 are written as U+DC80..U+DCFF escapes (the way Python's
 * "surrogateescape" reads them), so that any file name survives and every line stays valid JSON.
 */
struct json {
	struct buf *out;
	bool needs_comma;
};

void json_open(struct json *json, const char *key, char bracket);     /* '{' or '[' */
void json_close(struct json *json, char bracket);		      /* '}' or ']' */
void json_str(struct json *json, const char *key, const char *value); /* NULL is null */
void json_strn(struct json *json, const char *key, const char *value, size_t size);
void json_uint(struct json *json, const char *key, uint64_t value);
/* In quotes, for readers whose numbers are no integers. */
void json_uint_str(struct json *json, const char *key, uint64_t value);
void json_int(struct json *json, const char *key, int64_t value);
void json_bool(struct json *json, const char *key, bool value);
void json_none(struct json *json, const char *key); /* null */
/* What is JSON already, or the beginning of it: it is put there as it is. */
void json_raw(struct json *json, const char *key, const char *text);

/* Put `text` with JSON's quotes and escapes at the end of `out`. */
void json_quote(struct buf *out, const char *text, size_t size);
