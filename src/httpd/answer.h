/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct connection;
struct exchange;
struct loop_lane;

/* Sending the answer of an exchange. */

/* Adds a field to the head of the answer; call it before exchange_begin() or exchange_answer(). Not
 * for fields about the connection or the length, which the server writes. A name or value with a
 * control character is left out. */
void exchange_add(struct exchange *exchange, const char *name, const char *value);
/* Does nothing if a field of that name was added before. */
void exchange_add_if_missing(struct exchange *exchange, const char *name, const char *value);
/* The whole answer. `type` NULL: no body, Content-Length: 0 (no length for 204). */
void exchange_answer(struct exchange *exchange, unsigned status, const char *type, const void *data,
		     size_t size);
/* The head; exchange_send() and exchange_end() follow. `length` UINT64_MAX: chunked. `type` may be
 * NULL. For HEAD, 204 and 304 the content is dropped. */
void exchange_begin(struct exchange *exchange, unsigned status, const char *type, uint64_t length);
/* The party that an exchange is charged to: a tenant. Long answers are sent in pieces of `lane`.
 * `waiting` counts the bytes of all exchanges of the party that wait to be sent. `held` counts the
 * bytes of bodies that are read as a whole; a body that makes it exceed `held_max` is answered by
 * 429. The pointers have to outlive the exchange. */
struct exchange_party {
	struct loop_lane *lane;
	size_t *waiting, *held;
	size_t held_max;
};
void exchange_set_party(struct exchange *exchange, const struct exchange_party *party);
/* The answer goes on for long, and the client may stop reading: the kernel buffers at most `unsent`
 * bytes that do not fit into the client's window (TCP_NOTSENT_LOWAT). */
void exchange_set_stream(struct exchange *exchange, int unsent);
/* Copies the data. More than the announced length, or more while 64 MiB wait, resets the
 * connection. */
void exchange_send(struct exchange *exchange, const void *data, size_t size);
/* The number of bytes that wait to be sent. */
size_t exchange_waiting(const struct exchange *exchange);
/* `drained` is called when bytes were sent and fewer than 32 KiB wait. */
void exchange_on_drained(struct exchange *exchange,
			 void (*drained)(struct exchange *exchange, void *own), void *own);
/* Sends `size` bytes of a regular file, from `offset`, and ends the answer. Closes the
 * descriptor, now or later. */
void exchange_send_file(struct exchange *exchange, int fd, uint64_t offset, uint64_t size);
void exchange_end(struct exchange *exchange);
/* Ends the answer in the middle, so that the client notices. `over` follows. */
void exchange_cut(struct exchange *exchange);

/* ---- for the server's files ---- */

/* Writes waiting bytes to the socket. 0; -EAGAIN if some still wait; or another negative errno. */
int answer_flush(struct connection *connection);
bool answer_waits(const struct connection *connection);
/* Updates the count of waiting bytes of the party. */
void answer_count(struct connection *connection);
/* Answers without an exchange, by {"code":..,"message":..}; the connection ends after it. */
void answer_refusal(struct connection *connection, unsigned status, const char *message);
/* Sends 100 Continue if the client waits for it. */
void answer_interim(struct exchange *exchange);
/* The exchange fails because of the client: answers by `status` if no answer was begun, else resets
 * the connection. */
void exchange_fail(struct exchange *exchange, unsigned status, const char *message);
