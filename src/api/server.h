/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "http/http.h"
#include "base/loop.h"

#include <atoll/error.h>

/*
 * An HTTP/1.1 server
 *
 * One thread, one loop. A connection carries one request after the other; a request and its answer
 * are an exchange. When its head is there, the handler is called; it says what is to become of the
 * body, and answers now or later. Nothing is buffered without bound: a body comes in pieces that
 * wait in the socket until they are wanted, and who writes looks at what still waits to be sent.
 *
 *   server.c      listening: TCP, unix sockets, TLS, what systemd hands over; how many connections
 *   connection.c  one connection: reading heads and bodies, keeping it alive, its end
 *   answer.c      what is sent: heads, pieces, files
 *   secure.c      TLS, by OpenSSL
 *   multipart.c   forms
 *   query.c       what stands behind the question mark
 *   inflate.c     Content-Encoding: gzip of a request
 */

struct server;
struct exchange;

/* Called when a request's head has been read; exchange_head() is it, until the exchange ends. Has
 * to lead to an answer, sooner or later. */
typedef void server_handler(struct exchange *exchange, void *data);

struct server_options {
	struct loop *loop;
	server_handler *handle;
	void *data;
	size_t max_connections;	 /* 0: 20,000; beyond that connections wait */
	unsigned head_timeout_s; /* 0: 30 */
	unsigned idle_timeout_s; /* between requests; 0: 75 */
};

int server_new(const struct server_options *options, struct server **ret, struct atoll_error *err);
/* "127.0.0.1:PORT" ("0" takes a free one), "[::1]:PORT", "unix:PATH", or "fd:N". With `certificate`
 * and `key` (PEM files) it speaks TLS. */
int server_listen(struct server *server, const char *where, const char *certificate,
		  const char *key, char ret_where[128], struct atoll_error *err);
/* No new ones; `done` when the last exchange has ended, or at `until_ns`. */
void server_stop(struct server *server, int64_t until_ns, void (*done)(void *data), void *data);
void server_free(struct server *server);
size_t server_connections(const struct server *server);

/* What stands behind a status in an answer's first line. */
const char *server_reason(unsigned status);

/* ---- the request ---- */

const struct http_head *exchange_head(const struct exchange *exchange);
/* "127.0.0.1:4711", or "unix". */
const char *exchange_peer(const struct exchange *exchange);
/* A field's value, or NULL; the exchange's, NUL at its end. */
const char *exchange_field(struct exchange *exchange, const char *name);
/* A parameter of the query, decoded; NULL if it is not there. */
const char *exchange_query(struct exchange *exchange, const char *name);
/* The path, percent-decoded segment by segment: the n-th, or NULL. "/a/b%2Fc" has "a" and "b/c". */
const char *exchange_segment(struct exchange *exchange, size_t n);

/* The body as a whole, if it has at most `max` bytes (else it is answered by 413, and `whole` is
 * not called). Called at once if there is none. */
void exchange_read_whole(struct exchange *exchange, size_t max,
			 void (*whole)(struct exchange *exchange, const char *data, size_t size,
				       void *own),
			 void *own);
/* The body piece by piece: `piece` takes it all, or says with exchange_hold() that it wants no more
 * for now; size 0 is the end. */
void exchange_read(struct exchange *exchange,
		   void (*piece)(struct exchange *exchange, const char *data, size_t size,
				 void *own),
		   void *own);
void exchange_hold(struct exchange *exchange);
void exchange_go_on(struct exchange *exchange);
/* An answer before the body was read: what comes is dropped, up to 1 MiB, or the connection ends.
 */

/* ---- the answer ---- */

/* Added to the head that is sent; before exchange_begin() or exchange_answer(). */
void exchange_add(struct exchange *exchange, const char *name, const char *value);
/* All of it. `type` NULL: no body, Content-Length: 0 (or none, for 204). */
void exchange_answer(struct exchange *exchange, unsigned status, const char *type, const void *data,
		     size_t size);
/* The head; then pieces. `length` UINT64_MAX: chunked. */
void exchange_begin(struct exchange *exchange, unsigned status, const char *type, uint64_t length);
/* Copied, and sent as soon as it can be. */
void exchange_send(struct exchange *exchange, const void *data, size_t size);
/* Bytes that wait; `drained` is called when there are fewer than 64 KiB again. */
size_t exchange_waiting(const struct exchange *exchange);
void exchange_on_drained(struct exchange *exchange,
			 void (*drained)(struct exchange *exchange, void *own), void *own);
/* `size` bytes of a plain file, from `offset`; the descriptor is the exchange's from then on. Ends
 * the answer. */
void exchange_send_file(struct exchange *exchange, int fd, uint64_t offset, uint64_t size);
void exchange_end(struct exchange *exchange);
/* In the middle, so that the client notices. The exchange is gone. */
void exchange_cut(struct exchange *exchange);

/* Called when it is over, one way or the other, and nothing may be said any more: free what is
 * yours. `is_broken`: the client went away. One for each exchange; set early. */
void exchange_on_over(struct exchange *exchange,
		      void (*over)(struct exchange *exchange, bool is_broken, void *own),
		      void *own);

/* What was set by exchange_set_own(): whatever serves it keeps there what belongs to it. */
void exchange_set_own(struct exchange *exchange, void *own);
void *exchange_own(const struct exchange *exchange);

/* The connection itself, for WebSockets and the like: what was read already is in `ret_rest` (the
 * caller's to free), and with TLS what comes is a socket pair whose other end the server serves.
 * The exchange is gone; -1 on failure. */
int exchange_take_socket(struct exchange *exchange, char **ret_rest, size_t *ret_size);
