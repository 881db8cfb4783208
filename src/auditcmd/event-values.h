/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct buf;

/* Values of an event. */

/* A text; NULL if there is none. */
const char *event_text(const json_t *object, const char *key);
/* An integer that is not negative, or `otherwise`. */
uint64_t event_number(const json_t *object, const char *key, uint64_t otherwise);
/* Is there a value that is neither null nor false? */
bool event_has(const json_t *object, const char *key);
/* "2026-11-16T10:45:39.123456789Z" as ns since 1970; false if `text` is not such a time. */
bool event_read_time(const char *text, uint64_t *ret_ns);

/* A text escaped for a terminal, as print_escaped() does (ui/print.h): control characters,
 * characters that change the direction of writing, and bytes that are not UTF-8 become \n, \t or
 * \xNN. */
void event_show(const char *text, struct buf *out);
/* A value as JSON in the form of the log: bytes are U+DC80..U+DCFF again. */
bool event_json(const json_t *value, struct buf *out);
