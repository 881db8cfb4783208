/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "http/http.h"

struct connection;
struct exchange;

/* The request of an exchange, and the data that a handler attaches to it. Strings that are returned
 * belong to the exchange. */

const struct http_head *exchange_head(const struct exchange *exchange);
bool exchange_is_secure(const struct exchange *exchange); /* the client uses TLS */
/* "127.0.0.1:4711", or "unix". */
const char *exchange_peer(const struct exchange *exchange);
/* The value of a header field, or NULL. */
const char *exchange_field(struct exchange *exchange, const char *name);
/* The first parameter of that name in the query, form-decoded, or NULL. An invalid escape and "%00"
 * stay as written. */
const char *exchange_query(struct exchange *exchange, const char *name);
/* The n-th segment of the path, percent-decoded, or NULL. "/a/b%2Fc" has "a" and "b/c", "/" has
 * none, "/a/" has "a" and "". ".." is a segment like any other: compare segments, do not join them
 * to a path. */
const char *exchange_segment(struct exchange *exchange, size_t n);

/* Call it before the body is read: a body with Content-Encoding: gzip is then unpacked. More than
 * `max` bytes are answered by 413. False: another coding was answered by 415. */
bool exchange_inflate(struct exchange *exchange, uint64_t max);

/* Called when the exchange has ended: free what belongs to it. The server calls it exactly once for
 * each exchange, from the event loop: after the last byte was handed to the kernel, and also after
 * exchange_cut() and exchange_detach_socket(). `is_broken`: the client closed the connection, or
 * made the server answer by itself (413, 408, ...). One callback for each exchange; set it early.
 */
void exchange_on_over(struct exchange *exchange,
		      void (*over)(struct exchange *exchange, bool is_broken, void *own),
		      void *own);

/* A pointer for the handler. */
void exchange_set_own(struct exchange *exchange, void *own);
void *exchange_own(const struct exchange *exchange);

/* ---- for the server's files ---- */

/* Of server->head, whose text is copied. NULL: out of memory. */
struct exchange *exchange_new(struct connection *connection, const char *text);
/* Calls `over`, and frees the exchange. */
void exchange_close(struct exchange *exchange, bool is_broken);
