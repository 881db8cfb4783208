/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/intake.h"

#include "base/clock.h"
#include "httpd/answer.h"
#include "httpd/connection.h"
#include "httpd/inflate.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

/*
 * Reading bodies
 *
 * The bytes of a body are content or framing. body_step() of http/ finds a run of content;
 * connection->content is the number of its bytes that were not used yet, because the handler may
 * pause, and gzip comes out in pieces. This content is at the front of connection->unread.
 */

#define INFLATED_SIZE (64 * 1024)
#define SMALL_BODY    4096

/* ---- passing content to the handler ---- */

/* The bodies of this party have too many bytes together. */
static void refuse_held(struct exchange *exchange)
{
	exchange_add(exchange, "Retry-After", "1");
	exchange_fail(exchange, 429,
		      "this tenant has too many bytes of requests in memory; retry later");
}

static void add_to_whole(struct exchange *exchange, const char *data, size_t size)
{
	/* A small body is always read: it may be the request that ends the others. */
	if (exchange->held && exchange->whole.used + size > SMALL_BODY &&
	    *exchange->held + size > exchange->held_max) {
		refuse_held(exchange);
		return;
	}
	buf_add(&exchange->whole, data, size);
	if (exchange->held) {
		*exchange->held += size;
		exchange->counted += size;
	}
	if (buf_error(&exchange->whole) == -E2BIG)
		exchange_fail(exchange, 413, "the body is larger than the limit");
	else if (buf_error(&exchange->whole) < 0)
		exchange_fail(exchange, 503, "no memory for the body");
}

static void stop_counting(struct exchange *exchange)
{
	if (exchange->held)
		*exchange->held -= exchange->counted;
	exchange->counted = 0;
}

void intake_drop(struct exchange *exchange)
{
	stop_counting(exchange);
	buf_done(&exchange->whole);
}

char *exchange_detach_whole(struct exchange *exchange)
{
	stop_counting(exchange);
	return buf_take(&exchange->whole);
}

/* Returns the number of bytes that were used. */
static size_t pass(struct exchange *exchange, const char *data, size_t size)
{
	size_t n_unread;

	if (exchange->reading == READING_WHOLE)
		add_to_whole(exchange, data, size);
	else if (exchange->reading == READING_PIECES)
		exchange->on_content(exchange, data, size, exchange->on_content_own);
	n_unread = exchange->n_unread;
	exchange->n_unread = 0;
	return size - (n_unread < size ? n_unread : size);
}

static void pass_end(struct exchange *exchange)
{
	bool is_whole = exchange->reading == READING_WHOLE;

	if (exchange->inflater && !inflate_is_complete(exchange->inflater)) {
		exchange_fail(exchange, 400, "the gzip body breaks off");
		return;
	}
	exchange->reading = READING_OVER;
	exchange->on_content(exchange, is_whole && exchange->whole.data ? exchange->whole.data : "",
			     is_whole ? exchange->whole.used : 0, exchange->on_content_own);
}

static bool is_reading(const struct exchange *exchange)
{
	return exchange->stage < STAGE_ENDED && !exchange->is_paused &&
	       (exchange->reading == READING_WHOLE || exchange->reading == READING_PIECES);
}

/* The body is dropped: the answer has ended, or there is no exchange. */
static bool is_unwanted(const struct exchange *exchange)
{
	return !exchange || exchange->stage >= STAGE_ENDED;
}

/* ---- gzip ---- */

/* Bytes that the handler does not use are copied to exchange->again. */
static void pass_unpacked(struct exchange *exchange, const char *data, size_t size)
{
	size_t taken = pass(exchange, data, size);

	if (taken == size)
		return;
	buf_add(&exchange->again, data + taken, size - taken);
	if (buf_error(&exchange->again) < 0)
		exchange_fail(exchange, 503, "no memory for the body");
}

static void pass_again(struct exchange *exchange)
{
	struct buf again = exchange->again;

	exchange->again = (struct buf)BUF_INIT(SIZE_MAX);
	pass_unpacked(exchange, again.data, again.used);
	buf_done(&again);
}

static size_t unpack(struct exchange *exchange, const char *data, size_t size)
{
	struct server *server = exchange->server;
	size_t used = 0;

	if (exchange->again.used > 0 && is_reading(exchange))
		pass_again(exchange);

	if (!server->inflated && !(server->inflated = malloc(INFLATED_SIZE))) {
		exchange_fail(exchange, 503, "no memory for the body");
		return 0;
	}
	while (is_reading(exchange)) {
		size_t step = 0;
		ssize_t n = inflate_step(exchange->inflater, data + used, size - used, &step,
					 server->inflated, INFLATED_SIZE);

		used += step;
		if (n == -E2BIG)
			exchange_fail(exchange, 413, "the body is larger than the limit");
		else if (n == -ENOMEM)
			exchange_fail(exchange, 503, "no memory for the body");
		else if (n < 0)
			exchange_fail(exchange, 400, "the body is no gzip");
		else if (n > 0)
			pass_unpacked(exchange, server->inflated, (size_t)n);
		else if (used == size)
			break;
	}
	return used;
}

/* Returns the number of bytes that were used. */
static size_t pass_content(struct connection *connection, const char *data, size_t size)
{
	struct exchange *exchange = connection->exchange;

	if (is_unwanted(exchange)) {
		connection->dropped += size;
		if (connection->dropped > SERVER_DROPPED_MAX)
			connection_close_after(connection);
		return size;
	}
	if (!is_reading(exchange))
		return 0;
	if (exchange->inflater)
		return unpack(exchange, data, size);
	return pass(exchange, data, size);
}

static void refuse_framing(struct connection *connection)
{
	connection_close_after(connection);
	if (connection->exchange)
		exchange_fail(connection->exchange, 400, "the framing of the body is broken");
	body_init(&connection->body, HTTP_NONE, 0);
}

/* Is all content of a gzip body unpacked and used? All input may be used before that. */
static bool is_unpacked(struct exchange *exchange)
{
	if (exchange && exchange->inflater && is_reading(exchange))
		unpack(exchange, "", 0);
	return is_unwanted(exchange) || !exchange->inflater ||
	       (exchange->again.used == 0 && !inflate_has_more(exchange->inflater));
}

size_t intake_feed(struct connection *connection, const char *data, size_t size)
{
	size_t used = 0;

	while (!connection_is_over(connection)) {
		struct body_piece piece;

		if (connection->content > 0) {
			size_t n = pass_content(connection, data + used, connection->content);

			used += n;
			connection->content -= n;
			if (connection->content > 0)
				return used;
		}
		if (!is_unpacked(connection->exchange) || !intake_wants(connection))
			return used;
		if (connection->body.is_done)
			break;
		if (body_step(&connection->body, data + used, size - used, &piece) < 0) {
			refuse_framing(connection);
			return size;
		}
		/* A step uses content or framing, never both; the next round passes the content
		 * on. */
		connection->content = piece.content.size;
		used += piece.used - piece.content.size;
		if (piece.used == 0 && !connection->body.is_done)
			return used;
	}
	if (connection->exchange && is_reading(connection->exchange))
		pass_end(connection->exchange);
	return used;
}

/* ---- SO_RCVLOWAT ---- */

/*
 * A client that sends a large file in small pieces would make the daemon read and write small
 * pieces. With SO_RCVLOWAT epoll reports the socket when SERVER_BULK bytes are there. This needs
 * that so many bytes are still to come; of a chunked body only the present chunk is known. If the
 * client sends very slowly, time_out() reads the few bytes before the connection ends.
 */
static int low_water(const struct connection *connection)
{
	const struct exchange *exchange = connection->exchange;
	uint64_t left = connection->body.left;

	if (!exchange || !exchange->is_bulk || exchange->reading != READING_PIECES ||
	    exchange->stage >= STAGE_ENDED || connection->ssl || connection->is_unix)
		return 0;
	if (left < SERVER_BULK && connection->body.framing != HTTP_LENGTH)
		return 0;
	return left < SERVER_BULK ? (int)left : SERVER_BULK;
}

void intake_tune(struct connection *connection)
{
	const int window = SERVER_BULK_WINDOW, size = low_water(connection);
	int fd = connection->watch.fd, least = size > 0 ? size : 1;

	if (size == connection->low_water)
		return;
	/* The kernel sets the receive window to the value of SO_RCVLOWAT, and keeps it. */
	if (connection->low_water == 0 && size == SERVER_BULK)
		setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &window, sizeof window);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least) < 0)
		connection_break(connection);
	connection->low_water = size;
}

/* ---- functions for handlers ---- */

bool intake_wants(const struct connection *connection)
{
	return is_unwanted(connection->exchange) || is_reading(connection->exchange);
}

static void begin_reading(struct exchange *exchange, enum reading reading,
			  void (*on_content)(struct exchange *, const char *, size_t, void *),
			  void *own)
{
	struct connection *connection = exchange->connection;

	if (exchange->stage >= STAGE_ENDED || exchange->reading != READING_UNASKED)
		return;
	exchange->reading = reading;
	exchange->on_content = on_content;
	exchange->on_content_own = own;
	exchange->read_since_ns = connection->since_ns = clock_monotonic_ns();
	if (connection->body.is_done && connection->content == 0) {
		pass_end(exchange);
		return;
	}
	answer_interim(exchange);
	connection_touch(connection);
}

void exchange_read_whole(struct exchange *exchange, size_t max,
			 void (*whole)(struct exchange *exchange, const char *data, size_t size,
				       void *own),
			 void *own)
{
	exchange->whole.limit = max;
	if (exchange->stage < STAGE_ENDED && !exchange->inflater &&
	    exchange->head->framing == HTTP_LENGTH && exchange->head->length > max) {
		exchange_fail(exchange, 413, "the body is larger than the limit");
		return;
	}
	begin_reading(exchange, READING_WHOLE, whole, own);
}

void exchange_read(struct exchange *exchange,
		   void (*piece)(struct exchange *exchange, const char *data, size_t size,
				 void *own),
		   void *own)
{
	begin_reading(exchange, READING_PIECES, piece, own);
}

void exchange_read_bulk(struct exchange *exchange,
			void (*piece)(struct exchange *exchange, const char *data, size_t size,
				      void *own),
			void *own)
{
	exchange->is_bulk = true;
	begin_reading(exchange, READING_PIECES, piece, own);
}

void exchange_pause(struct exchange *exchange)
{
	exchange->is_paused = true;
}

void exchange_unread(struct exchange *exchange, size_t size)
{
	exchange->n_unread = size;
	exchange->is_paused = true;
}

void exchange_resume(struct exchange *exchange)
{
	if (!exchange->is_paused)
		return;
	exchange->is_paused = false;
	if (!exchange->connection)
		return;
	exchange->connection->since_ns = clock_monotonic_ns();
	connection_touch(exchange->connection);
}
