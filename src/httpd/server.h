/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"

#include <atoll/error.h>

/*
 * An HTTP/1.1 server
 *
 * One thread, one event loop. A connection carries one request after the other; a request and its
 * answer are an exchange. The server calls the handler when it has read the head of a request. The
 * handler reads the body if it wants it, and answers now or later. No buffer grows without bound:
 * the pieces of a body wait in the socket until the handler reads them, and a handler that sends
 * much asks exchange_waiting() first.
 *
 * When callbacks run: from the event loop, never inside a function of the server (but see
 * exchange_read_whole() for a request without a body). So an exchange is valid until its `over`
 * callback has run, even if the client is gone or the handler has cut the exchange; until then
 * functions on it do nothing. Everything that is sent in one callback is written to the socket
 * together, at the end of the event loop's round.
 */

struct server;
struct exchange;

/* Called when the head of a request was read; exchange_head() returns it. The handler has to lead
 * to an answer, now or later. */
typedef void server_handler(struct exchange *exchange, void *data);

struct server_options {
	struct loop *loop;
	server_handler *handle;
	void *data;
	size_t max_connections;	 /* 0: 20,000; further connections are answered by 503 */
	unsigned head_timeout_s; /* 0: 30 */
	unsigned idle_timeout_s; /* between requests; 0: 75 */
};

int server_new(const struct server_options *options, struct server **ret, struct atoll_error *err);
/* Accepts no new connection. Calls `done` when the last exchange has ended, or at `until_ns`. */
void server_stop(struct server *server, int64_t until_ns, void (*done)(void *data), void *data);
/* Ends all connections; each exchange gets its `over` callback. NULL is fine. */
void server_free(struct server *server);
size_t server_connections(const struct server *server);
size_t server_max_connections(const struct server *server);

/* ---- for the server's files ---- */

/* Every callback of the event loop calls these first and last: server_leave() settles the
 * connections that were touched. */
void server_enter(struct server *server);
void server_leave(struct server *server);
/* Starts or stops accepting, by the number of connections. */
void server_update_accepting(struct server *server);
/* The number of exchanges has become smaller: a server that stops may be done. */
void server_exchange_ended(struct server *server);
/* The time for the field Date. */
const char *server_date(struct server *server);
