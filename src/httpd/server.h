/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"
#include "http/http.h"

#include <atoll/error.h>

/*
 * An HTTP/1.1 server
 *
 * One thread, one loop. A connection carries one request after the other; a request and its answer
 * are an exchange. When its head is there, the handler is called; it says what is to become of the
 * body, and answers now or later. Nothing is buffered without bound: a body comes in pieces that
 * wait in the socket until they are wanted, and who writes looks at what still waits to be sent.
 *
 *   server.c      what all connections have in common: how many there are, and their end
 *   listen.c      listening: TCP, unix sockets, what systemd hands over
 *   connection.c  one connection: keeping it alive, its times, its end
 *   request.c     reading heads
 *   intake.c      reading bodies
 *   server-exchange.c    what whoever serves a request asks about it
 *   answer.c      what is sent: heads, pieces, files
 *   secure.c      TLS, by OpenSSL
 *   socket-relay.c       bytes between two sockets
 *   tunnel.c      a connection that was taken while it speaks TLS
 *   multipart.c   forms
 *   query.c       what stands behind the question mark
 *   inflate.c     Content-Encoding: gzip of a request
 *
 * When what is called. Nothing here calls back while one of these functions runs (but for a body
 * that is not there, see exchange_read_whole()): it happens later, from the loop. So an exchange
 * stays valid until its `over` has been called, even if the client is gone or it was cut: what is
 * said to it after that is dropped. What is sent in one callback leaves at the end of the loop's
 * round, in one piece.
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
	size_t max_connections;	 /* 0: 20,000; beyond that they are answered by 503 */
	unsigned head_timeout_s; /* 0: 30 */
	unsigned idle_timeout_s; /* between requests; 0: 75 */
};

int server_new(const struct server_options *options, struct server **ret, struct atoll_error *err);
/* "127.0.0.1:PORT" ("0" takes a free one), "[::1]:PORT", "unix:PATH", or "fd:N". With `certificate`
 * and `key` (PEM files) it speaks TLS; without, an address that is not on the loopback is refused.
 */
int server_listen(struct server *server, const char *where, const char *certificate,
		  const char *key, char ret_where[128], struct atoll_error *err);
/* No new ones; `done` when the last exchange has ended, or at `until_ns`. */
void server_stop(struct server *server, int64_t until_ns, void (*done)(void *data), void *data);
void server_free(struct server *server);
size_t server_connections(const struct server *server);
/* How many there may be. */
size_t server_max_connections(const struct server *server);
/* How many listening sockets systemd handed over (LISTEN_FDS), as "fd:3" and on; the variables are
 * removed. */
unsigned server_count_inherited(void);

/* What stands behind a status in an answer's first line. */
const char *server_reason(unsigned status);

/* ---- the request ---- */

const struct http_head *exchange_head(const struct exchange *exchange);
/* Whether the client speaks TLS. */
bool exchange_is_secure(const struct exchange *exchange);
/* "127.0.0.1:4711", or "unix". */
const char *exchange_peer(const struct exchange *exchange);
/* A field's value, or NULL; the exchange's, NUL at its end. */
const char *exchange_field(struct exchange *exchange, const char *name);
/* A parameter of the query, form-decoded; NULL if it is not there. Of several the first. An escape
 * that is none, and "%00", stay as written. */
const char *exchange_query(struct exchange *exchange, const char *name);
/* The path, percent-decoded segment by segment: the n-th, or NULL. "/a/b%2Fc" has "a" and "b/c",
 * "/" has none, "/a/" has "a" and "". Nothing is done about "..": compare, do not join. */
const char *exchange_segment(struct exchange *exchange, size_t n);

/* A body with Content-Encoding: gzip is handed over as what was packed; call it before one of the
 * next two. More than `max` bytes are answered by 413; another coding is answered by 415 at once,
 * and false is returned: nothing is left to do. */
bool exchange_inflate(struct exchange *exchange, uint64_t max);
/* The body as a whole, if it has at most `max` bytes (else it is answered by 413, and `whole` is
 * not called). Called at once if there is none. `data` is the server's, and ends in a NUL that does
 * not count. A body that breaks off, or is none, is answered by the server; `over` tells. */
void exchange_read_whole(struct exchange *exchange, size_t max,
			 void (*whole)(struct exchange *exchange, const char *data, size_t size,
				       void *own),
			 void *own);
/* In `whole`: the body, which is the caller's from now on, and not counted any more. NULL: it is
 * empty, or no memory. */
char *exchange_detach_whole(struct exchange *exchange);
/* The body piece by piece: `piece` takes it all, or says with exchange_pause() that it wants no
 * more for now; size 0 is the end. */
void exchange_read(struct exchange *exchange,
		   void (*piece)(struct exchange *exchange, const char *data, size_t size,
				 void *own),
		   void *own);
/* The same for a body that is only kept: pieces come when there is much of it, not at once, and
 * nobody may wait for what is done with the first of them. */
void exchange_read_bulk(struct exchange *exchange,
			void (*piece)(struct exchange *exchange, const char *data, size_t size,
				      void *own),
			void *own);
void exchange_pause(struct exchange *exchange);
/* In `piece`: the last `size` bytes of it were not taken, and come again after exchange_resume().
 * Holds. */
void exchange_unread(struct exchange *exchange, size_t size);
void exchange_resume(struct exchange *exchange);
/* An answer before the body was read: what comes is dropped, up to 1 MiB, or the connection ends.
 * Nothing is handed over any more once the answer has ended. */

/* ---- the answer ---- */

/* Added to the head that is sent; before exchange_begin() or exchange_answer(). Not for fields
 * about the connection or the length, which the server writes itself. A name or value that would
 * break the head is left out. */
void exchange_add(struct exchange *exchange, const char *name, const char *value);
/* Add a field to the answer's head unless a field of that name was added before. */
void exchange_add_if_missing(struct exchange *exchange, const char *name, const char *value);
/* All of it. `type` NULL: no body, Content-Length: 0 (or none, for 204). */
void exchange_answer(struct exchange *exchange, unsigned status, const char *type, const void *data,
		     size_t size);
/* The head; then pieces. `length` UINT64_MAX: chunked. `type` may be NULL. For HEAD, 204 and 304
 * the pieces are dropped. */
void exchange_begin(struct exchange *exchange, unsigned status, const char *type, uint64_t length);
/* Whose it is: what lasts long is sent in turns of `lane`, `waiting` counts the bytes of all
 * exchanges of that party that wait to be sent, `held` those of bodies that are read as a whole: a
 * body by which that becomes more than `held_max` is answered by 429. What these point to has to
 * outlive the exchange. */
struct exchange_party {
	struct loop_lane *lane;
	size_t *waiting, *held;
	size_t held_max;
};
void exchange_set_party(struct exchange *exchange, const struct exchange_party *party);
/* It lasts, and its client may stop reading: the kernel keeps at most `unsent` bytes that the
 * client has no room for. */
void exchange_set_stream(struct exchange *exchange, int unsent);
/* Copied, and sent as soon as it can be. */
void exchange_send(struct exchange *exchange, const void *data, size_t size);
/* Bytes that wait; `drained` is called when some have left and there are fewer than 32 KiB (again).
 * With 64 MiB waiting, more ends it as if the client had gone. */
size_t exchange_waiting(const struct exchange *exchange);
void exchange_on_drained(struct exchange *exchange,
			 void (*drained)(struct exchange *exchange, void *own), void *own);
/* `size` bytes of a plain file, from `offset`; the descriptor is the exchange's from then on. Ends
 * the answer. */
void exchange_send_file(struct exchange *exchange, int fd, uint64_t offset, uint64_t size);
void exchange_end(struct exchange *exchange);
/* In the middle, so that the client notices. Nothing may be said any more; `over` follows. */
void exchange_cut(struct exchange *exchange);

/* Called when it is over, one way or the other, and nothing may be said any more: free what is
 * yours. Exactly once for each exchange, from the loop: after the last byte was handed to the
 * kernel, after exchange_cut() and exchange_detach_socket() as well. `is_broken`: the client went
 * away, or did what made the server answer by itself (413, 408, ...). One for each exchange; set
 * early. */
void exchange_on_over(struct exchange *exchange,
		      void (*over)(struct exchange *exchange, bool is_broken, void *own),
		      void *own);

/* What was set by exchange_set_own(): whatever serves it keeps there what belongs to it. */
void exchange_set_own(struct exchange *exchange, void *own);
void *exchange_own(const struct exchange *exchange);

/* The connection itself, for WebSockets and the like: what was read already is in `ret_unread` (the
 * caller's to free), and with TLS what comes is a socket pair whose other end the server serves.
 * Before an answer was begun, and with the body read (or none). Nonblocking; the caller writes the
 * head of the answer itself. `over` follows; -1 on failure, and then nothing has changed. */
int exchange_detach_socket(struct exchange *exchange, char **ret_unread, size_t *ret_size);
