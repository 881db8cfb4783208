/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/connection.h"

#include "base/scope.h"
#include "httpd/answer.h"
#include "httpd/connection-read.h"
#include "httpd/intake.h"
#include "httpd/request.h"
#include "httpd/server-exchange.h"
#include "httpd/server.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * One connection
 *
 * listen.c makes it. The event loop calls on_ready() for its socket, on_deadline() for its deadline
 * and run_piece() for its lane; each of them touches the connection. connection_settle() then does
 * what is to be done, in this order: write, end the exchange, shut, parse the next request, watch
 * the socket, set the deadline. enum connection_phase lists the phases of its life.
 */

#define SECOND	      INT64_C(1000000000)
#define SETTLE_ROUNDS 16   /* pieces of a body, before the next connection is settled */
#define EVICT_SEARCH  1024 /* connections that are examined for an idle one */

/* ---- transitions ---- */

/* The only writer of `phase`, apart from connection_new(). */
void connection_move(struct connection *connection, enum connection_phase phase)
{
	assert(phase > connection->phase);
	connection->phase = phase;
}

void connection_close_after(struct connection *connection)
{
	if (connection->phase < CONNECTION_CLOSING)
		connection_move(connection, CONNECTION_CLOSING);
}

void connection_break(struct connection *connection)
{
	if (connection->phase < CONNECTION_BROKEN)
		connection_move(connection, CONNECTION_BROKEN);
	connection_touch(connection);
}

void connection_cut(struct connection *connection)
{
	if (connection->phase < CONNECTION_CUT)
		connection_move(connection, CONNECTION_CUT);
	connection_touch(connection);
}

/* ---- the deadline ---- */

static void set_deadline(struct connection *connection, int64_t at_ns)
{
	connection->deadline_ns = at_ns;
	/* A timer that fires too early is armed again: cheaper than moving it for each byte. */
	if (at_ns < INT64_MAX && (!connection->timer.place || connection->timer.at_ns > at_ns) &&
	    loop_arm(connection->server->loop, &connection->timer, at_ns) < 0)
		connection_break(connection);
}

/* The time at which the connection ends if nothing happens; INT64_MAX: never. */
static int64_t find_deadline(const struct connection *connection)
{
	const struct server_options *options = &connection->server->options;
	const struct exchange *exchange = connection->exchange;
	int64_t since = connection->since_ns;

	if (connection->phase == CONNECTION_LINGERING)
		return connection->deadline_ns;
	if (connection->writes_wait)
		return since + SERVER_STALL_TIMEOUT_S * SECOND;
	if (exchange && exchange->reading == READING_WHOLE)
		return exchange->read_since_ns + SERVER_WHOLE_TIMEOUT_S * SECOND +
		       (int64_t)(exchange->whole.used / 1024) * SECOND;
	if (exchange && exchange->reading == READING_PIECES && !exchange->is_paused)
		return since + SERVER_STALL_TIMEOUT_S * SECOND;
	if (exchange || connection->piece.lane)
		return INT64_MAX;
	if (connection->n_unread > 0 || !connection->body.is_done ||
	    connection->phase <= CONNECTION_NEW)
		return connection->head_since_ns + options->head_timeout_s * SECOND;
	return since + options->idle_timeout_s * SECOND;
}

/* Reads a piece of a body. flush() sends a piece of a file, and connection_feed_unread() serves a
 * request that was sent ahead. */
static void run_piece(struct loop_turn *piece)
{
	struct connection *connection =
		(struct connection *)((char *)piece - offsetof(struct connection, piece));
	struct server *server = connection->server;

	server_enter(server);
	connection->head_since_ns = server->now_ns;
	connection_touch(connection);
	if (connection_reads_body(connection))
		connection_read(connection);
	else
		connection->piece_is_due = true;
	server_leave(server);
}

/* With SO_RCVLOWAT, epoll does not report a few bytes: read them. Did some come? */
static bool read_few(struct connection *connection)
{
	connection_touch(connection);
	connection_read(connection);
	return connection->since_ns == connection->server->now_ns;
}

static void time_out(struct connection *connection)
{
	struct exchange *exchange = connection->exchange;

	if (connection->low_water > 0 && !connection->writes_wait && read_few(connection))
		return;
	if (connection->phase == CONNECTION_LINGERING ||
	    connection->phase == CONNECTION_HANDSHAKE || connection->writes_wait) {
		connection->resets = connection->writes_wait;
		connection_break(connection);
	} else if (exchange) {
		connection_close_after(connection);
		exchange_fail(exchange, 408, "the body came too slowly");
	} else if (connection->n_unread > 0) {
		answer_refusal(connection, 408, "the request came too slowly");
	} else {
		connection_break(connection);
	}
}

static void on_deadline(struct loop_timer *timer)
{
	struct connection *connection =
		(struct connection *)((char *)timer - offsetof(struct connection, timer));
	struct server *server = connection->server;

	server_enter(server);
	if (server->now_ns >= connection->deadline_ns)
		time_out(connection);
	else if (connection->deadline_ns < INT64_MAX)
		set_deadline(connection, connection->deadline_ns);
	server_leave(server);
}

/* ---- new and free ---- */

static void on_ready(struct loop_watch *watch, uint32_t events);

static void link_first(struct connection *connection)
{
	struct server *server = connection->server;

	connection->next = server->connections;
	if (connection->next)
		connection->next->link = &connection->next;
	else
		server->oldest = connection;
	connection->link = &server->connections;
	server->connections = connection;
}

/* The connection before it in the list, which was used later; NULL: it is the first. */
static struct connection *newer_than(const struct connection *connection)
{
	return connection->link == &connection->server->connections
		       ? NULL
		       : container_of(connection->link, struct connection, next);
}

static void unlink_connection(struct connection *connection)
{
	if (connection->server->oldest == connection)
		connection->server->oldest = newer_than(connection);
	*connection->link = connection->next;
	if (connection->next)
		connection->next->link = connection->link;
}

/* Anybody can open connections and send nothing. So at the limit an idle connection is ended for a
 * new one, if possible one that never had a tenant. */
bool connection_evict(struct server *server)
{
	struct connection *idle = NULL, *at = server->oldest;

	for (int i = 0; at && i < EVICT_SEARCH; i++, at = newer_than(at)) {
		if (at->exchange || connection_is_over(at) || answer_waits(at))
			continue;
		if (!idle)
			idle = at;
		if (!at->lane) {
			idle = at;
			break;
		}
	}
	if (idle)
		connection_break(idle);
	return idle;
}

int connection_new(struct server *server, struct listener *listener, int fd,
		   const struct sockaddr_in6 *peer)
{
	struct connection *connection = calloc(1, sizeof *connection);

	if (!connection) {
		close(fd);
		return -ENOMEM;
	}
	connection->server = server;
	connection->watch = (struct loop_watch){.fd = fd, .ready = on_ready};
	connection->timer.fire = on_deadline;
	connection->piece.run = run_piece;
	connection->out.limit = SIZE_MAX;
	connection->peer = *peer;
	connection->is_unix = listener->is_unix;
	connection->phase = listener->tls ? CONNECTION_HANDSHAKE : CONNECTION_NEW;
	connection->since_ns = connection->head_since_ns = server->now_ns;
	body_init(&connection->body, HTTP_NONE, 0);
	link_first(connection);
	server->n_connections++;
	if (listener->tls)
		connection->ssl = secure_new(listener->tls, fd);
	if ((listener->tls && !connection->ssl) ||
	    loop_watch(server->loop, &connection->watch, EPOLLIN | EPOLLRDHUP) < 0) {
		connection_free(connection);
		return -ENOMEM;
	}
	set_deadline(connection, find_deadline(connection));
	return 0;
}

static void untouch(struct connection *connection)
{
	struct server *server = connection->server;
	struct connection **at = &server->touched;

	if (!connection->is_touched)
		return;
	while (*at != connection)
		at = &(*at)->next_touched;
	*at = connection->next_touched;
	if (!*at)
		server->touched_end = at;
	connection->is_touched = false;
}

static void close_socket(struct connection *connection)
{
	const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
	int fd = connection->watch.fd;

	if (fd < 0)
		return;
	/* A process that is just being started may have a copy of the descriptor until its exec:
	 * close() alone would leave it in the epoll set. */
	loop_unwatch(connection->server->loop, &connection->watch);
	if (connection->resets)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	else if (connection->ssl && connection->phase != CONNECTION_CUT)
		secure_shut(connection->ssl);
	secure_free(connection->ssl);
	close(fd);
}

void connection_free(struct connection *connection)
{
	struct server *server = connection->server;
	struct exchange *exchange = connection->exchange;

	connection->exchange = NULL;
	if (exchange)
		exchange_close(exchange, connection->phase != CONNECTION_CUT);
	close_socket(connection);
	loop_disarm(server->loop, &connection->timer);
	loop_unqueue(&connection->piece);
	untouch(connection);
	unlink_connection(connection);
	free(connection->unread);
	buf_done(&connection->out);
	connection->out_at = 0;
	answer_count(connection);
	free(connection);
	server->n_connections--;
	server_update_accepting(server);
}

static void on_ready(struct loop_watch *watch, uint32_t events)
{
	struct connection *connection =
		(struct connection *)((char *)watch - offsetof(struct connection, watch));
	struct server *server = connection->server;

	server_enter(server);
	connection_touch(connection);
	if (events & EPOLLRDHUP && connection->input == INPUT_OPEN) {
		connection->input = INPUT_HALF_CLOSED;
		/* A client that closes after the beginning of an answer does not want the other
		 * bytes. Before that, it may only have no further request. */
		if (connection->exchange && connection->exchange->stage >= STAGE_BEGUN)
			connection_break(connection);
	}
	if (events & (EPOLLERR | EPOLLHUP))
		connection_break(connection);
	else if (connection->phase == CONNECTION_HANDSHAKE)
		connection_handshake(connection);
	else if (events & EPOLLIN || connection->read_wants_write)
		connection_read_or_queue(connection);
	server_leave(server);
}

/* ---- settling ---- */

void connection_touch(struct connection *connection)
{
	struct server *server = connection->server;

	if (connection->is_touched)
		return;
	connection->is_touched = true;
	connection->next_touched = NULL;
	*server->touched_end = connection;
	server->touched_end = &connection->next_touched;
	if (!server->is_inside && !server->settle_timer.place)
		loop_arm(server->loop, &server->settle_timer, 0);
}

static void flush(struct connection *connection)
{
	struct exchange *exchange = connection->exchange;
	bool waited = answer_waits(connection);
	int r = waited ? answer_flush(connection) : 0;

	answer_count(connection);
	/* The time-out begins now, not with the last byte that was sent. */
	if (r == -EAGAIN && !connection->writes_wait)
		connection->since_ns = connection->server->now_ns;
	connection->writes_wait = r == -EAGAIN;
	if (r < 0 && r != -EAGAIN) {
		connection_break(connection);
		return;
	}
	if (waited && exchange && exchange->drained && exchange->stage == STAGE_BEGUN &&
	    exchange_waiting(exchange) < SERVER_DRAINED)
		exchange->drained(exchange, exchange->drained_own);
}

static void end_exchange(struct connection *connection)
{
	struct exchange *exchange = connection->exchange;

	connection->exchange = NULL;
	connection->since_ns = connection->head_since_ns = connection->server->now_ns;
	unlink_connection(connection);
	link_first(connection);
	exchange_close(exchange, false);
}

/* Shuts our side and gives the client time to read: close() while the client still sends makes the
 * kernel reset the connection, and the client loses the answer. */
static void linger(struct connection *connection)
{
	if (connection->input != INPUT_OPEN) {
		connection_break(connection);
		return;
	}
	if (connection->ssl)
		secure_shut(connection->ssl);
	shutdown(connection->watch.fd, SHUT_WR);
	connection_move(connection, CONNECTION_LINGERING);
	set_deadline(connection, connection->server->now_ns + SERVER_LINGER_TIMEOUT_S * SECOND);
}

static void watch_socket(struct connection *connection)
{
	uint32_t events = 0;

	if (connection->ignores_input && connection_wants_more(connection))
		connection->ignores_input = false;
	if (connection->input != INPUT_ENDED && !connection->ignores_input)
		events |= EPOLLIN;
	if (connection->input == INPUT_OPEN)
		events |= EPOLLRDHUP;
	/* A connection that waits in its lane cannot write: EPOLLOUT would come again and again. */
	if ((connection->writes_wait && !connection->piece.lane) || connection->read_wants_write)
		events |= EPOLLOUT;
	intake_tune(connection);
	if (loop_watch(connection->server->loop, &connection->watch, events) < 0)
		connection_break(connection);
}

/* True: bytes were used, and there may be more to do. */
static bool settle_once(struct connection *connection)
{
	if (connection_is_over(connection))
		return false;
	flush(connection);
	if (connection->exchange && connection->exchange->stage == STAGE_ENDED &&
	    !answer_waits(connection))
		end_exchange(connection);
	if (!connection->exchange && connection->phase == CONNECTION_CLOSING &&
	    !answer_waits(connection))
		linger(connection);
	return !connection_is_over(connection) && connection_feed_unread(connection);
}

void connection_settle(struct connection *connection)
{
	unsigned rounds = 0;

	while (settle_once(connection) && ++rounds < SETTLE_ROUNDS)
		;
	if (connection->phase == CONNECTION_CUT && !connection->resets && connection->watch.fd >= 0)
		answer_flush(connection);
	if (connection_is_over(connection)) {
		connection_free(connection);
		return;
	}
	if (rounds == SETTLE_ROUNDS)
		connection_touch(connection);
	if (connection->has_buffered && connection_wants_more(connection)) {
		connection->has_buffered = false;
		connection_read(connection);
		connection_touch(connection);
	}
	if (!connection_is_over(connection))
		watch_socket(connection);
	set_deadline(connection, find_deadline(connection));
}
