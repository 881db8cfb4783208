/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "http/http.h"

/* Lines and words of a head, for the files of this component. */

bool http_is_token_char(char c);
bool http_is_token(struct http_slice slice);
/* Without white space at both ends. */
struct http_slice http_trim(struct http_slice slice);
/* The line at `*place` without CR LF; moves `*place` behind it. */
enum http_result http_next_line(const char *text, size_t size, size_t *place,
				struct http_slice *ret, const char **ret_why);
/* False: `*ret_why` is set. */
bool http_read_field(struct http_slice line, struct http_field *ret, const char **ret_why);
