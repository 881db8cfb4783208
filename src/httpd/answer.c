/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/answer.h"

#include "base/json.h"
#include "httpd/connection.h"
#include "httpd/http-status.h"
#include "httpd/server.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Sending answers
 *
 * exchange_begin() writes the head and exchange_send() the content into connection->out; nothing is
 * written to the socket there. connection_settle() calls answer_flush(), which writes the bytes,
 * and then the file of exchange_send_file() in pieces of the tenant's lane.
 */

#define FILE_PIECE (256U << 10) /* bytes of a file in one piece of a lane */
#define TLS_PIECE  (64 * 1024)	/* bytes of a file that are encrypted in one piece */

/* ---- heads ---- */

static bool is_invalid_field(const char *text, bool is_name)
{
	if (is_name && !*text)
		return true;
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if ((c < 0x20 && c != '\t') || c == 0x7f || (is_name && (c <= ' ' || c == ':')))
			return true;
	}
	return false;
}

void exchange_add(struct exchange *exchange, const char *name, const char *value)
{
	if (exchange->stage != STAGE_OPEN || is_invalid_field(name, true) ||
	    is_invalid_field(value, false))
		return;
	buf_add_str(&exchange->fields, name);
	buf_add_str(&exchange->fields, ": ");
	buf_add_str(&exchange->fields, value);
	buf_add_str(&exchange->fields, "\r\n");
}

void exchange_add_if_missing(struct exchange *exchange, const char *name, const char *value)
{
	char field[64];
	int n = snprintf(field, sizeof field, "%s: ", name);

	if (exchange->fields.used == 0 ||
	    !memmem(exchange->fields.data, exchange->fields.used, field, (size_t)n))
		exchange_add(exchange, name, value);
}

/* Is too much of the request unread for the connection to go on? */
static bool has_too_much_left(const struct connection *connection, const struct exchange *exchange)
{
	const struct body *body = &connection->body;

	return exchange->expects_continue ||
	       (body->framing == HTTP_LENGTH && body->left > SERVER_DROPPED_MAX);
}

/* The client has half-closed, and there is no other request in the bytes that were read. */
static bool client_is_done(const struct connection *connection)
{
	const struct server *server = connection->server;

	return connection->input == INPUT_ENDED && connection->n_unread == 0 &&
	       !(server->behind_of == connection && server->behind.size > 0);
}

static void write_head(struct exchange *exchange, unsigned status, const char *type,
		       uint64_t length)
{
	struct connection *connection = exchange->connection;
	struct buf *out = &connection->out;

	if (has_too_much_left(connection, exchange) || client_is_done(connection) ||
	    connection->server->is_stopping || exchange->is_to_end)
		connection_close_after(connection);
	buf_addf(out, "HTTP/1.1 %u %s\r\nDate: %s\r\n", status, server_reason(status),
		 server_date(connection->server));
	if (type && !is_invalid_field(type, false))
		buf_addf(out, "Content-Type: %s\r\n", type);
	if (exchange->fields.used > 0)
		buf_add(out, exchange->fields.data, exchange->fields.used);
	if (exchange->is_chunked)
		buf_add_str(out, "Transfer-Encoding: chunked\r\n");
	else if (length != UINT64_MAX && status >= 200 && status != 204 && status != 304)
		buf_addf(out, "Content-Length: %llu\r\n", (unsigned long long)length);
	if (connection->phase >= CONNECTION_CLOSING)
		buf_add_str(out, "Connection: close\r\n\r\n");
	else
		buf_addf(out, "Keep-Alive: timeout=%u\r\n\r\n",
			 connection->server->announced_idle_s);
}

static void begin_answer(struct exchange *exchange, unsigned status, const char *type,
			 uint64_t length)
{
	exchange->stage = STAGE_BEGUN;
	exchange->has_no_body = exchange->is_head || status < 200 || status == 204 || status == 304;
	if (length == UINT64_MAX && status >= 200 && status != 204 && status != 304) {
		exchange->is_chunked = exchange->head->minor == 1;
		exchange->is_to_end = !exchange->is_chunked;
	}
	exchange->left = length;
	write_head(exchange, status, type, length);
	connection_touch(exchange->connection);
}

void exchange_begin(struct exchange *exchange, unsigned status, const char *type, uint64_t length)
{
	if (exchange->stage == STAGE_OPEN)
		begin_answer(exchange, status, type, length);
}

void exchange_answer(struct exchange *exchange, unsigned status, const char *type, const void *data,
		     size_t size)
{
	if (exchange->stage != STAGE_OPEN)
		return;
	if (!type)
		size = 0;
	begin_answer(exchange, status, type, size);
	exchange_send(exchange, data, size);
	exchange_end(exchange);
}

void answer_interim(struct exchange *exchange)
{
	if (!exchange->expects_continue || exchange->stage != STAGE_OPEN)
		return;
	exchange->expects_continue = false;
	buf_add_str(&exchange->connection->out, "HTTP/1.1 100 Continue\r\n\r\n");
	connection_touch(exchange->connection);
}

/* ---- content ---- */

size_t exchange_waiting(const struct exchange *exchange)
{
	const struct connection *connection = exchange->connection;

	return connection ? connection->out.used - connection->out_at : 0;
}

void answer_count(struct connection *connection)
{
	size_t now = connection->out.used - connection->out_at;

	if (!connection->waiting)
		return;
	*connection->waiting += now - connection->counted;
	connection->counted = now;
}

/* Subtract the waiting bytes from the tenant that they were counted to: the next exchange on this
 * connection may be another tenant's, and counts them anew. */
static void leave_party(struct connection *connection)
{
	if (connection->waiting)
		*connection->waiting -= connection->counted;
	connection->waiting = NULL;
	connection->counted = 0;
}

void exchange_set_party(struct exchange *exchange, const struct exchange_party *party)
{
	struct connection *connection = exchange->connection;

	if (!connection)
		return;
	leave_party(connection);
	connection->lane = party->lane;
	connection->waiting = party->waiting;
	exchange->held = party->held;
	exchange->held_max = party->held_max;
	answer_count(connection);
}

void exchange_set_stream(struct exchange *exchange, int unsent)
{
	struct connection *connection = exchange->connection;

	if (!connection || connection->is_stream || connection->is_unix)
		return;
	connection->is_stream = true;
	setsockopt(connection->watch.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

/* The connection is reset; the handler gets `over` from the event loop. */
static void reset_connection(struct exchange *exchange)
{
	exchange->connection->resets = true;
	connection_break(exchange->connection);
}

void exchange_send(struct exchange *exchange, const void *data, size_t size)
{
	struct connection *connection = exchange->connection;
	struct buf *out;

	if (exchange->stage != STAGE_BEGUN || size == 0 || exchange->has_no_body ||
	    connection_is_over(connection))
		return;
	if ((exchange->left != UINT64_MAX && size > exchange->left) ||
	    exchange_waiting(exchange) > SERVER_WAITING_MAX) {
		reset_connection(exchange);
		return;
	}
	out = &connection->out;
	if (exchange->left != UINT64_MAX)
		exchange->left -= size;
	if (exchange->is_chunked)
		buf_addf(out, "%zx\r\n", size);
	buf_add(out, data, size);
	if (exchange->is_chunked)
		buf_add(out, "\r\n", 2);
	answer_count(connection);
	if (buf_error(out) < 0)
		reset_connection(exchange);
	connection_touch(connection);
}

void exchange_on_drained(struct exchange *exchange,
			 void (*drained)(struct exchange *exchange, void *own), void *own)
{
	exchange->drained = drained;
	exchange->drained_own = own;
}

void exchange_send_file(struct exchange *exchange, int fd, uint64_t offset, uint64_t size)
{
	if (exchange->stage != STAGE_BEGUN || exchange->has_no_body || size == 0 ||
	    (exchange->left != UINT64_MAX && exchange->left != size)) {
		close(fd);
		exchange_end(exchange);
		return;
	}
	exchange->left = exchange->left == UINT64_MAX ? UINT64_MAX : 0;
	exchange->file_fd = fd;
	exchange->file_at = offset;
	exchange->file_left = size;
	if (exchange->is_chunked)
		buf_addf(&exchange->connection->out, "%llx\r\n", (unsigned long long)size);
	exchange->stage = STAGE_ENDED;
	connection_touch(exchange->connection);
}

void exchange_end(struct exchange *exchange)
{
	if (exchange->stage == STAGE_OPEN)
		exchange_begin(exchange, 500, NULL, 0);
	if (exchange->stage != STAGE_BEGUN)
		return;
	if (exchange->left != UINT64_MAX && exchange->left > 0 && !exchange->has_no_body)
		reset_connection(
			exchange); /* fewer bytes than announced: the client has to notice */
	else if (exchange->is_chunked && !exchange->has_no_body)
		buf_add_str(&exchange->connection->out, "0\r\n\r\n");
	exchange->stage = STAGE_ENDED;
	connection_touch(exchange->connection);
}

void exchange_cut(struct exchange *exchange)
{
	struct connection *connection = exchange->connection;

	if (exchange->stage == STAGE_GONE)
		return;
	/* A body without a length ends with the connection: only a reset shows that bytes are
	 * missing. */
	connection->resets = connection->resets || exchange->is_to_end;
	exchange->stage = STAGE_ENDED;
	connection_cut(connection);
}

/* ---- answers without a handler ---- */

static void write_refusal(struct buf *out, unsigned status, const char *message)
{
	struct json json = {.out = out};

	json_open(&json, NULL, '{');
	json_uint(&json, "code", status);
	json_str(&json, "message", message);
	json_close(&json, '}');
}

void answer_refusal(struct connection *connection, unsigned status, const char *message)
{
	struct buf body = BUF_INIT(512);

	write_refusal(&body, status, message);
	buf_addf(&connection->out,
		 "HTTP/1.1 %u %s\r\nDate: %s\r\nContent-Type: application/json\r\n"
		 "Content-Length: %zu\r\n%sConnection: close\r\n\r\n",
		 status, server_reason(status), server_date(connection->server), body.used,
		 status == 503 ? "Retry-After: 1\r\n" : "");
	buf_add(&connection->out, body.data, body.used);
	buf_done(&body);
	connection_close_after(connection);
	connection_touch(connection);
}

void exchange_fail(struct exchange *exchange, unsigned status, const char *message)
{
	struct buf body = BUF_INIT(512);

	if (exchange->stage >= STAGE_ENDED)
		return;
	exchange->is_failed = true;
	exchange->reading = READING_OVER;
	if (exchange->stage == STAGE_BEGUN) {
		reset_connection(exchange);
		return;
	}
	write_refusal(&body, status, message);
	exchange_answer(exchange, status, "application/json", body.data, body.used);
	buf_done(&body);
}

/* ---- writing to the socket ---- */

static ssize_t send_some(struct connection *connection, const void *data, size_t size,
			 bool has_more)
{
	ssize_t n;

	if (connection->ssl)
		return secure_write(connection->ssl, data, size);
	do
		n = send(connection->watch.fd, data, size,
			 MSG_NOSIGNAL | (has_more ? MSG_MORE : 0));
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static bool has_file(const struct connection *connection)
{
	return connection->exchange && connection->exchange->file_fd >= 0;
}

/* Removes the bytes that were sent, so that the buffer does not grow while some bytes always
 * wait. */
static void compact(struct connection *connection)
{
	struct buf *out = &connection->out;

	if (connection->out_at < out->used / 2)
		return;
	out->used -= connection->out_at;
	memmove(out->data, out->data + connection->out_at, out->used + 1);
	connection->out_at = 0;
}

static int flush_bytes(struct connection *connection)
{
	struct buf *out = &connection->out;

	while (connection->out_at < out->used) {
		ssize_t n = send_some(connection, out->data + connection->out_at,
				      out->used - connection->out_at, has_file(connection));

		if (n < 0) {
			compact(connection);
			return (int)n;
		}
		connection->out_at += (size_t)n;
		connection->since_ns = connection->server->now_ns;
	}
	buf_done(out);
	out->limit = SIZE_MAX;
	connection->out_at = 0;
	return 0;
}

static ssize_t copy_file(struct connection *connection, struct exchange *exchange)
{
	size_t size = exchange->file_left < TLS_PIECE ? (size_t)exchange->file_left : TLS_PIECE;
	char data[TLS_PIECE];
	ssize_t n;

	do
		n = pread(exchange->file_fd, data, size, (off_t)exchange->file_at);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	return secure_write(connection->ssl, data, (size_t)n);
}

static ssize_t send_file(struct connection *connection, struct exchange *exchange)
{
	size_t size = exchange->file_left < FILE_PIECE ? (size_t)exchange->file_left : FILE_PIECE;
	off_t at = (off_t)exchange->file_at;
	ssize_t n;

	if (connection->ssl)
		return copy_file(connection, exchange);
	do
		n = sendfile(connection->watch.fd, exchange->file_fd, &at, size);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Sends one piece of the file. -EAGAIN: the socket is full, or the connection waits in its lane. */
static int flush_file(struct connection *connection)
{
	struct exchange *exchange = connection->exchange;

	while (exchange->file_left > 0) {
		ssize_t n;

		/* A small file does not wait in the lane. */
		if (!connection->piece_is_due && connection->lane &&
		    exchange->file_left > FILE_PIECE) {
			loop_queue(connection->server->loop, connection->lane, &connection->piece);
			return -EAGAIN;
		}
		n = send_file(connection, exchange);
		connection->piece_is_due = false;
		if (n <= 0) /* 0: the file has become shorter */
			return n < 0 ? (int)n : -EPIPE;
		exchange->file_at += (uint64_t)n;
		exchange->file_left -= (uint64_t)n;
		connection->since_ns = connection->server->now_ns;
	}
	close(exchange->file_fd);
	exchange->file_fd = -1;
	if (exchange->is_chunked)
		buf_add_str(&connection->out, "\r\n0\r\n\r\n");
	return 0;
}

bool answer_waits(const struct connection *connection)
{
	return connection->out.used > connection->out_at || has_file(connection);
}

int answer_flush(struct connection *connection)
{
	int r = 0;

	while (r == 0 && answer_waits(connection)) {
		if (buf_error(&connection->out) < 0)
			return buf_error(&connection->out);
		r = flush_bytes(connection);
		if (r == 0 && has_file(connection))
			r = flush_file(connection);
	}
	return r;
}
