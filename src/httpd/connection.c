/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "httpd/server-inner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * One connection
 *
 * ready() reads what came and hands it to request.c, which serves the first request in it. A client
 * may send more requests before it has the answer. Each of those takes a turn of its tenant's lane,
 * or of the lane of strangers, which all connections share that belong to no tenant: the loop runs
 * one turn in each round (base/loop.h), so that one client, with a key or without, keeps no other
 * one waiting for more than one request. While a turn is waited for, nothing more is read.
 */

#define SECOND	      INT64_C(1000000000)
#define SETTLE_ROUNDS 16	  /* pieces of a body, before others have their turn */
#define EVICT_LOOK    1024	  /* connections that are looked at for an idle one */
#define HEAD_PIECE    (16 * 1024) /* read at a time while a head is expected */

/* ---- its times ---- */

static void set_deadline(struct connection *connection, int64_t at_ns)
{
	connection->deadline_ns = at_ns;
	/* One that fires too early looks, and is armed anew: cheaper than moving it each time. */
	if (at_ns < INT64_MAX && (!connection->timer.place || connection->timer.at_ns > at_ns) &&
	    loop_arm(connection->server->loop, &connection->timer, at_ns) < 0)
		connection_break(connection);
}

/* Until when something has to happen. */
static int64_t deadline(const struct connection *connection)
{
	const struct server_options *options = &connection->server->options;
	const struct exchange *exchange = connection->exchange;
	int64_t since = connection->since_ns;

	if (connection->lingers)
		return connection->deadline_ns;
	if (connection->writes_wait)
		return since + SERVER_STALL_TIMEOUT_S * SECOND;
	if (exchange && exchange->reading == READING_WHOLE)
		return exchange->read_since_ns + SERVER_WHOLE_TIMEOUT_S * SECOND +
		       (int64_t)(exchange->whole.used / 1024) * SECOND;
	if (exchange && exchange->reading == READING_PIECES && !exchange->is_paused)
		return since + SERVER_STALL_TIMEOUT_S * SECOND;
	if (exchange || connection->turn.lane)
		return INT64_MAX;
	if (connection->n_unread > 0 || connection->is_handshaking || !connection->body.is_done ||
	    connection->is_fresh)
		return connection->head_since_ns + options->head_timeout_s * SECOND;
	return since + options->idle_timeout_s * SECOND;
}

static bool has_come(struct connection *connection);

static bool reads_body(const struct connection *connection)
{
	const struct exchange *exchange = connection->exchange;

	return exchange &&
	       (exchange->reading == READING_WHOLE || exchange->reading == READING_PIECES);
}

static void read_some(struct connection *connection);

/* A piece of a body is read; a piece of a file is sent by flush(), a request that was sent ahead is
 * served by feed_unread(). */
static void has_turn(struct loop_turn *turn)
{
	struct connection *connection =
		(struct connection *)((char *)turn - offsetof(struct connection, turn));
	struct server *server = connection->server;

	server_enter(server);
	connection->head_since_ns = server->now_ns;
	connection_touch(connection);
	if (reads_body(connection))
		read_some(connection);
	else
		connection->has_turn = true;
	server_leave(server);
}

static void time_out(struct connection *connection)
{
	struct exchange *exchange = connection->exchange;

	if (connection->low_water > 0 && !connection->writes_wait && has_come(connection))
		return;
	if (connection->lingers || connection->is_handshaking || connection->writes_wait) {
		connection->resets = connection->writes_wait;
		connection_break(connection);
	} else if (exchange) {
		connection->closes = true;
		exchange_fail(exchange, 408, "the body came too slowly");
	} else if (connection->n_unread > 0) {
		answer_refusal(connection, 408, "the request came too slowly");
	} else {
		connection_break(connection);
	}
}

static void timer_fires(struct loop_timer *timer)
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

/* ---- its life ---- */

static void ready(struct loop_watch *watch, uint32_t events);
static void keep_unread(struct connection *connection, const char *data, size_t size);

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

/* Whose `next` leads to it: the one that was used after it; NULL: none was. */
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

/* Anybody can open connections and say nothing. So when there are as many as there may be, one that
 * waits for its client makes room: first one that never had a tenant. */
bool connection_evict(struct server *server)
{
	struct connection *idle = NULL, *at = server->oldest;

	for (int i = 0; at && i < EVICT_LOOK; i++, at = newer_than(at)) {
		if (at->exchange || at->is_broken || answer_waits(at))
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
	connection->watch = (struct loop_watch){.fd = fd, .ready = ready};
	connection->timer.fire = timer_fires;
	connection->turn.run = has_turn;
	connection->out.limit = SIZE_MAX;
	connection->peer = *peer;
	connection->is_unix = listener->is_unix;
	connection->is_fresh = true;
	connection->since_ns = connection->head_since_ns = server->now_ns;
	body_init(&connection->body, HTTP_NONE, 0);
	link_first(connection);
	server->n_connections++;
	if (listener->tls) {
		connection->ssl = secure_new(listener->tls, fd);
		connection->is_handshaking = true;
	}
	if ((listener->tls && !connection->ssl) ||
	    loop_watch(server->loop, &connection->watch, EPOLLIN | EPOLLRDHUP) < 0) {
		connection_free(connection);
		return -ENOMEM;
	}
	set_deadline(connection, deadline(connection));
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
	/* A process that was just started may have a copy for a moment: the loop has to be told. */
	loop_unwatch(connection->server->loop, &connection->watch);
	if (connection->resets)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	else if (connection->ssl && !connection->lingers && !connection->is_handshaking &&
		 !connection->is_cut)
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
		exchange_close(exchange, !connection->is_cut);
	close_socket(connection);
	loop_disarm(server->loop, &connection->timer);
	loop_unqueue(&connection->turn);
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

int exchange_detach_socket(struct exchange *exchange, char **ret_unread, size_t *ret_size)
{
	struct connection *connection = exchange->connection;
	struct http_slice behind;
	int fd;

	if (exchange->stage != STAGE_OPEN || !connection->body.is_done || connection->is_broken)
		return -1;
	/* From the handler, what stands behind the head is not kept yet. */
	behind = connection->server->behind;
	if (connection->server->behind_of == connection)
		keep_unread(connection, behind.at, behind.size);
	if (connection->is_broken)
		return -1;
	if (connection->ssl) {
		fd = tunnel_new(connection);
		if (fd < 0)
			return -1;
	} else {
		fd = connection->watch.fd;
		loop_unwatch(connection->server->loop, &connection->watch);
		connection->watch.fd = -1;
	}
	*ret_size = connection->n_unread;
	*ret_unread = take_ptr(connection->unread);
	connection->n_unread = 0;
	connection->is_cut = true;
	connection_break(connection);
	return fd;
}

void connection_break(struct connection *connection)
{
	connection->is_broken = true;
	connection_touch(connection);
}

/* ---- in ---- */

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
	/* OpenSSL gives one record at a time. */
	do {
		n = secure_read(connection->ssl, data + done, size - done,
				&connection->tls_wants_write);
		done += n > 0 ? (size_t)n : 0;
	} while (n > 0 && done < size);
	connection->has_more = n > 0;
	return done > 0 ? (ssize_t)done : n;
}

static void keep_unread(struct connection *connection, const char *data, size_t size)
{
	char *unread = NULL;

	if (size > 0 && !connection->is_broken) {
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

	/* A head has its time from its first byte on. */
	if (was_between && (connection->n_unread == 0 || used > 0))
		connection->head_since_ns = connection->server->now_ns;
	connection->is_fresh = false;
	keep_unread(connection, data + used, size - used);
}

/* May the bytes that were read before hold a whole head? */
static bool has_next_request(const struct connection *connection)
{
	return !connection->exchange && connection->body.is_done && connection->content == 0 &&
	       connection->n_unread > 0 && connection->is_new_line && !connection->closes;
}

/* False: it is queued for one. */
static bool may_serve_next(struct connection *connection)
{
	struct server *server = connection->server;

	if (connection->has_turn) {
		connection->has_turn = false;
		return true;
	}
	loop_queue(server->loop, connection->lane ? connection->lane : &server->strangers,
		   &connection->turn);
	return false;
}

/* What was read before is looked at again. Was anything done with it? */
static bool feed_unread(struct connection *connection)
{
	size_t before = connection->n_unread;
	const struct exchange *exchange = connection->exchange;

	if (!request_wants(connection) || connection->lingers ||
	    (before == 0 && !(exchange && connection->body.is_done)))
		return false;
	if (has_next_request(connection) && !may_serve_next(connection))
		return false;
	if (before > 0)
		memcpy(connection->server->scratch, connection->unread, before);
	feed(connection, before);
	return connection->n_unread < before || connection->exchange != exchange;
}

static void meet_end(struct connection *connection)
{
	connection->is_half_closed = connection->is_at_end = true;
	if (!connection->exchange || !connection->body.is_done || connection->lingers)
		connection_break(connection);
}

/* Is there somebody to give more bytes to? A request that waits for its turn comes first. */
static bool wants_more(const struct connection *connection)
{
	return request_wants(connection) && !connection->turn.lane;
}

static void read_some(struct connection *connection)
{
	size_t before = connection->n_unread, room = SERVER_SCRATCH_SIZE - before;
	char *data = connection->server->scratch + before;
	ssize_t n;

	/* What is read before it can be used is copied each time that it is looked at. */
	if (!connection->exchange && connection->body.is_done && room > HEAD_PIECE)
		room = HEAD_PIECE;
	if (!wants_more(connection) || before == SERVER_SCRATCH_SIZE) {
		/* Whoever sends before they are asked waits. */
		connection->is_deaf = true;
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
		meet_end(connection);
		return;
	}
	if (before > 0)
		memcpy(connection->server->scratch, connection->unread, before);
	if (before == 0 || memchr(data, '\n', (size_t)n))
		connection->is_new_line = true;
	connection->since_ns = connection->server->now_ns;
	feed(connection, before + (size_t)n);
}

/* Less than it was to be woken for. */
static bool has_come(struct connection *connection)
{
	connection_touch(connection);
	read_some(connection);
	return connection->since_ns == connection->server->now_ns;
}

static void shake_hands(struct connection *connection)
{
	int r = secure_handshake(connection->ssl, &connection->tls_wants_write);

	if (r < 0)
		connection_break(connection);
	if (r > 0) {
		connection->is_handshaking = false;
		connection->head_since_ns = connection->server->now_ns;
		read_some(connection);
	}
}

/* A body is read in turns of its tenant, a head at once: who asks is not known before. */
static void read_or_queue(struct connection *connection)
{
	if (!connection->lane || !reads_body(connection)) {
		read_some(connection);
		return;
	}
	loop_queue(connection->server->loop, connection->lane, &connection->turn);
	connection->is_deaf = true;
}

static void ready(struct loop_watch *watch, uint32_t events)
{
	struct connection *connection =
		(struct connection *)((char *)watch - offsetof(struct connection, watch));
	struct server *server = connection->server;

	server_enter(server);
	connection_touch(connection);
	if (events & EPOLLRDHUP && !connection->is_half_closed) {
		connection->is_half_closed = true;
		/* Somebody who has heard the beginning of an answer and closes does not want the
		 * unread. Before that it may be one who only has nothing more to say. */
		if (connection->exchange && connection->exchange->stage >= STAGE_BEGUN)
			connection_break(connection);
	}
	if (events & (EPOLLERR | EPOLLHUP))
		connection_break(connection);
	else if (connection->is_handshaking)
		shake_hands(connection);
	else if (events & EPOLLIN || connection->tls_wants_write)
		read_or_queue(connection);
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
	/* It has its time from now on, not since something was sent last. */
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

/* They get our end, and time to read: an answer is lost if we close while they still send. */
static void linger(struct connection *connection)
{
	if (connection->is_half_closed) {
		connection_break(connection);
		return;
	}
	if (connection->ssl)
		secure_shut(connection->ssl);
	shutdown(connection->watch.fd, SHUT_WR);
	connection->lingers = true;
	set_deadline(connection, connection->server->now_ns + SERVER_LINGER_TIMEOUT_S * SECOND);
}

static void watch(struct connection *connection)
{
	uint32_t events = 0;

	if (connection->is_deaf && wants_more(connection))
		connection->is_deaf = false;
	if (!connection->is_at_end && !connection->is_deaf)
		events |= EPOLLIN;
	if (!connection->is_half_closed)
		events |= EPOLLRDHUP;
	/* A connection that waits for its turn does not watch for EPOLLOUT: it could not use it. */
	if ((connection->writes_wait && !connection->turn.lane) || connection->tls_wants_write)
		events |= EPOLLOUT;
	intake_tune(connection);
	if (loop_watch(connection->server->loop, &connection->watch, events) < 0)
		connection_break(connection);
}

/* Is there something to do at once? */
static bool settle_once(struct connection *connection)
{
	if (connection->is_broken)
		return false;
	flush(connection);
	if (connection->exchange && connection->exchange->stage == STAGE_ENDED &&
	    !answer_waits(connection))
		end_exchange(connection);
	if (!connection->exchange && connection->closes && !answer_waits(connection) &&
	    !connection->lingers)
		linger(connection);
	return !connection->is_broken && feed_unread(connection);
}

void connection_settle(struct connection *connection)
{
	unsigned rounds = 0;

	while (settle_once(connection) && ++rounds < SETTLE_ROUNDS)
		;
	if (connection->is_cut && !connection->resets && connection->watch.fd >= 0)
		answer_flush(connection);
	if (connection->is_broken) {
		connection_free(connection);
		return;
	}
	if (rounds == SETTLE_ROUNDS)
		connection_touch(connection);
	if (connection->has_more && wants_more(connection)) {
		connection->has_more = false;
		read_some(connection);
		connection_touch(connection);
	}
	if (!connection->is_handshaking || !connection->is_broken)
		watch(connection);
	set_deadline(connection, deadline(connection));
}
