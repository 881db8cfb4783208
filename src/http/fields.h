/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "http/http.h"

/* What the fields of a head mean, for the files of this component. */

/* The number of fields of that name; `*ret` is the value of the last one. */
size_t http_count(const struct http_head *head, const char *name, struct http_slice *ret);
/* Set the members of `head` about the body and about the connection. NULL, or the mistake. */
const char *http_read_framing(struct http_head *head);
const char *http_read_connection(struct http_head *head);
