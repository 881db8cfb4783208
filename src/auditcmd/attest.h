/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

struct atoll_error;
struct buf;

/* Writes a text to a file that appears when it is complete, or to standard output (NULL). */
int receipt_write(const char *path, const struct buf *text, struct atoll_error *err);
/* Appends a JSON value as one line: compact, with sorted keys. */
int receipt_add_line(const json_t *json, struct buf *out, struct atoll_error *err);
