/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/connection-read.h"

#include "httpd/connection.h"
#include "httpd/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Reading from a connection
 *
 * connection.c calls connection_read() when the socket is readable. The bytes go to server->scratch
 * and to request.c, which serves the first request in them; bytes that it could not use are copied
 * to connection->unread.
 *
 * A client may send more requests before it has the answer. Each of those waits in the lane of its
 * tenant, or in the lane of strangers that all connections without a tenant share. The event loop
 * runs one piece of one lane in each round (base/loop.h). So one client, with a key or without,
 * delays another one by at most one request. A connection that waits in a lane reads no more.
 */

#define HEAD_PIECE (16 * 1024) /* read at a time while a head is expected */

bool connection_reads_body(const struct connection *connection)
{
	const struct exchange *exchange = connection->exchange;

	return exchange &&
	       (exchange->reading == READING_WHOLE || exchange->reading == READING_PIECES);
}

static ssize_t receive(struct connection *connection, char *data, size_t size)
{
	size_t done = 0;
	ssize_t n;

	if (!connection->ssl) {
		do
			n = recv(connection->watch.fd, data, size, 0);
		while (n < 0 && errno == EINTR);
		return n < 0 ? -errno : n;
	}
	/* SSL_read() returns one record at a time. */
	do {
		n = secure_read(connection->ssl, data + done, size - done,
				&connection->read_wants_write);
		done += n > 0 ? (size_t)n : 0;
	} while (n > 0 && done < size);
	connection->has_buffered = n > 0;
	return done > 0 ? (ssize_t)done : n;
}

void connection_keep_unread(struct connection *connection, const char *data, size_t size)
{
	char *unread = NULL;

	if (size > 0 && !connection_is_over(connection)) {
		unread = malloc(size);
		if (!unread)
			connection_break(connection);
		else
			memcpy(unread, data, size);
	}
	free(connection->unread);
	connection->unread = unread;
	connection->n_unread = unread ? size : 0;
}

static void feed(struct connection *connection, size_t size)
{
	const char *data = connection->server->scratch;
	bool was_between = !connection->exchange && connection->body.is_done;
	size_t used = request_feed(connection, data, size);

	/* The time-out of a head begins with its first byte. */
	if (was_between && (connection->n_unread == 0 || used > 0))
		connection->head_since_ns = connection->server->now_ns;
	if (connection->phase == CONNECTION_NEW)
		connection_move(connection, CONNECTION_OPEN);
	connection_keep_unread(connection, data + used, size - used);
}

/* May `unread` contain a complete head? */
static bool has_next_request(const struct connection *connection)
{
	return !connection->exchange && connection->body.is_done && connection->content == 0 &&
	       connection->n_unread > 0 && connection->may_have_head &&
	       connection->phase <= CONNECTION_OPEN;
}

/* Has the lane reached the connection? False: it was queued. */
static bool may_serve_next(struct connection *connection)
{
	struct server *server = connection->server;

	if (connection->piece_is_due) {
		connection->piece_is_due = false;
		return true;
	}
	loop_queue(server->loop, connection->lane ? connection->lane : &server->strangers,
		   &connection->piece);
	return false;
}

bool connection_feed_unread(struct connection *connection)
{
	size_t before = connection->n_unread;
	const struct exchange *exchange = connection->exchange;

	if (!request_wants(connection) || connection->phase >= CONNECTION_LINGERING ||
	    (before == 0 && !(exchange && connection->body.is_done)))
		return false;
	if (has_next_request(connection) && !may_serve_next(connection))
		return false;
	if (before > 0)
		memcpy(connection->server->scratch, connection->unread, before);
	feed(connection, before);
	return connection->n_unread < before || connection->exchange != exchange;
}

static void end_input(struct connection *connection)
{
	connection->input = INPUT_ENDED;
	if (!connection->exchange || !connection->body.is_done ||
	    connection->phase == CONNECTION_LINGERING)
		connection_break(connection);
}

bool connection_wants_more(const struct connection *connection)
{
	return request_wants(connection) && !connection->piece.lane;
}

void connection_read(struct connection *connection)
{
	size_t before = connection->n_unread, room = SERVER_SCRATCH_SIZE - before;
	char *data = connection->server->scratch + before;
	ssize_t n;

	/* An incomplete head is copied and parsed again with each read: read little. */
	if (!connection->exchange && connection->body.is_done && room > HEAD_PIECE)
		room = HEAD_PIECE;
	if (!connection_wants_more(connection) || before == SERVER_SCRATCH_SIZE) {
		/* The bytes wait in the socket. */
		connection->ignores_input = true;
		return;
	}
	n = receive(connection, data, room);
	if (n == -EAGAIN)
		return;
	if (n < 0) {
		connection_break(connection);
		return;
	}
	if (n == 0) {
		end_input(connection);
		return;
	}
	if (before > 0)
		memcpy(connection->server->scratch, connection->unread, before);
	if (before == 0 || memchr(data, '\n', (size_t)n))
		connection->may_have_head = true;
	connection->since_ns = connection->server->now_ns;
	feed(connection, before + (size_t)n);
}

void connection_handshake(struct connection *connection)
{
	int r = secure_handshake(connection->ssl, &connection->read_wants_write);

	if (r < 0)
		connection_break(connection);
	if (r > 0) {
		connection_move(connection, CONNECTION_NEW);
		connection->head_since_ns = connection->server->now_ns;
		connection_read(connection);
	}
}

/* A head is read at once: its tenant is not known yet. */
void connection_read_or_queue(struct connection *connection)
{
	if (!connection->lane || !connection_reads_body(connection)) {
		connection_read(connection);
		return;
	}
	loop_queue(connection->server->loop, connection->lane, &connection->piece);
	connection->ignores_input = true;
}
