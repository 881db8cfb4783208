/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What http.c and http-fields.c share: lines and words, and what the fields of a head say. */

#include "http/http.h"

/* ---- http.c ---- */

bool http_is_token(struct http_slice slice);
struct http_slice http_trim(struct http_slice slice); /* white space around it */

/* The line at `*place`, without its end; the place moves behind it. */
enum http_result http_next_line(const char *text, size_t size, size_t *place,
				struct http_slice *ret, const char **ret_why);
bool http_read_field(struct http_slice line, struct http_field *ret, const char **ret_why);

/* ---- http-fields.c ---- */

/* How many there are; `*ret` is the last. */
size_t http_count(const struct http_head *head, const char *name, struct http_slice *ret);
/* Fill in what the fields say about the body and the connection. NULL, or what is wrong. */
const char *http_read_framing(struct http_head *head);
const char *http_read_connection(struct http_head *head);
