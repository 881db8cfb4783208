/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct connection;
struct exchange;

/* Reading the body of a request. A handler that answers before it has read the body: up to 1 MiB of
 * it is read and dropped, for more the connection ends. After the end of the answer no callback
 * gets content any more. */

/* Content of a body; `own` is what was given with the callback. */
typedef void exchange_content(struct exchange *exchange, const char *data, size_t size, void *own);

/* Reads the whole body, at most `max` bytes; more is answered by 413, and `whole` is not called.
 * `whole` is called at once if the request has no body. `data` belongs to the server and has a NUL
 * behind its end. A body that breaks off is answered by the server; then only `over` is called. */
void exchange_read_whole(struct exchange *exchange, size_t max, exchange_content *whole, void *own);
/* In `whole`: returns the body, which the caller frees; its bytes are not counted for the tenant
 * any more. NULL: the body is empty, or no memory. */
char *exchange_detach_whole(struct exchange *exchange);
/* Reads the body in pieces. Size 0 is the end. `piece` uses all of its data, or calls
 * exchange_pause() or exchange_unread(). */
void exchange_read(struct exchange *exchange, exchange_content *piece, void *own);
/* The same for a body that is only stored: pieces are large and may come late. */
void exchange_read_bulk(struct exchange *exchange, exchange_content *piece, void *own);
/* No further piece until exchange_resume(). */
void exchange_pause(struct exchange *exchange);
/* In `piece`: the last `size` bytes were not used; `piece` gets them again after
 * exchange_resume(). Pauses. */
void exchange_unread(struct exchange *exchange, size_t size);
void exchange_resume(struct exchange *exchange);

/* ---- for the server's files ---- */

/* Reads a body from `data`. Returns the number of bytes that were used; 0: none for now. */
size_t intake_feed(struct connection *connection, const char *data, size_t size);
/* Can more of the body be used now, by the handler or because nobody wants it? */
bool intake_wants(const struct connection *connection);
/* Frees the body that was read. */
void intake_drop(struct exchange *exchange);
/* Sets SO_RCVLOWAT: how many bytes have to be in the socket before epoll reports them. */
void intake_tune(struct connection *connection);
