/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/socket-relay.h"

#include "base/fd.h"
#include "base/scope.h"
#include "httpd/secure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Copies bytes between two sockets; see socket-relay.h. Used by port-proxy.c and tunnel.c. */

#define LANE_SIZE   (16 * 1024)
#define LANE_PIECES 4 /* reads and writes before the next watch */

struct end {
	struct loop_watch watch;
	struct relay *relay;
	SSL *ssl;
	bool read_wants_write;
	bool is_hung; /* EPOLLHUP came: not watched, because epoll would report it without end */
};

/* One direction. */
struct lane {
	struct end *from, *to;
	char *data;
	size_t at, used;
	bool has_ended, is_shut;
};

struct relay {
	struct loop *loop;
	struct loop_lane *party; /* bytes are copied in its pieces; NULL: at once */
	struct loop_turn piece;
	struct end outer, inner;
	struct lane in, out;
	void (*over)(struct relay *relay, void *own);
	void *own;
};

static void close_end(struct relay *relay, struct end *end)
{
	loop_unwatch(relay->loop, &end->watch);
	secure_free(end->ssl);
	fd_close_strange(end->watch.fd); /* the inner socket may belong to a program in a sandbox */
}

void relay_free(struct relay *relay)
{
	if (!relay)
		return;
	loop_unqueue(&relay->piece);
	close_end(relay, &relay->outer);
	close_end(relay, &relay->inner);
	free(relay->in.data);
	free(relay->out.data);
	free(relay);
}

static void finish(struct relay *relay)
{
	if (relay->over)
		relay->over(relay, relay->own);
	relay_free(relay);
}

static ssize_t read_some(struct lane *lane)
{
	struct end *end = lane->from;
	ssize_t n;

	if (end->ssl)
		return secure_read(end->ssl, lane->data, LANE_SIZE, &end->read_wants_write);
	do
		n = recv(end->watch.fd, lane->data, LANE_SIZE, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static ssize_t write_some(struct lane *lane)
{
	const char *data = lane->data + lane->at;
	size_t size = lane->used - lane->at;
	ssize_t n;

	if (lane->to->ssl)
		return secure_write(lane->to->ssl, data, size);
	do
		n = send(lane->to->watch.fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static void shut_lane(struct lane *lane)
{
	lane->is_shut = true;
	if (lane->to->ssl)
		secure_shut(lane->to->ssl);
	shutdown(lane->to->watch.fd, SHUT_WR);
}

static bool has_bytes(const struct lane *lane)
{
	return lane->at < lane->used;
}

static bool can_read(const struct lane *lane)
{
	return !has_bytes(lane) && !lane->has_ended;
}

/* Copies until EAGAIN, or LANE_PIECES times if epoll will report that there is more. False: the
 * relay is broken. */
static bool copy_lane(struct lane *lane)
{
	for (int i = 0; !lane->is_shut; i++) {
		ssize_t n;

		if (i >= LANE_PIECES && !lane->has_ended && !lane->from->is_hung)
			break;

		if (has_bytes(lane)) {
			n = write_some(lane);
			if (n < 0)
				return n == -EAGAIN;
			lane->at += (size_t)n;
		} else if (lane->has_ended) {
			shut_lane(lane);
		} else {
			n = read_some(lane);
			if (n < 0)
				return n == -EAGAIN;
			lane->has_ended = n == 0;
			lane->at = 0;
			lane->used = (size_t)n;
		}
	}
	return true;
}

static int watch_end(struct relay *relay, struct end *end, const struct lane *from,
		     const struct lane *to)
{
	uint32_t events = 0;

	if (end->is_hung)
		return 0;
	if (can_read(from))
		events |= EPOLLIN;
	if (has_bytes(to) || end->read_wants_write)
		events |= EPOLLOUT;
	return loop_watch(relay->loop, &end->watch, events);
}

static void copy_both(struct relay *relay)
{
	bool is_good = copy_lane(&relay->out) && copy_lane(&relay->in);

	if (!is_good || (relay->in.is_shut && relay->out.is_shut) ||
	    watch_end(relay, &relay->outer, &relay->in, &relay->out) < 0 ||
	    watch_end(relay, &relay->inner, &relay->out, &relay->in) < 0)
		finish(relay);
}

/* Bytes for this end are lost; bytes from it are still copied. */
static void drop_end(struct relay *relay, struct end *end)
{
	struct lane *lane = end == &relay->outer ? &relay->out : &relay->in;

	loop_unwatch(relay->loop, &end->watch);
	end->is_hung = true;
	lane->at = lane->used = 0;
	lane->has_ended = lane->is_shut = true;
}

static void on_ready(struct loop_watch *watch, uint32_t events)
{
	struct end *end = (struct end *)((char *)watch - offsetof(struct end, watch));
	struct relay *relay = end->relay;

	if (events & EPOLLERR) {
		finish(relay);
		return;
	}
	if (events & EPOLLHUP)
		drop_end(relay, end);
	if (relay->party)
		loop_queue(relay->loop, relay->party, &relay->piece);
	else
		copy_both(relay);
}

static void run_piece(struct loop_turn *piece)
{
	copy_both((struct relay *)((char *)piece - offsetof(struct relay, piece)));
}

static bool init_lane(struct lane *lane, struct end *from, struct end *to, const char *data,
		      size_t size)
{
	*lane = (struct lane){.from = from, .to = to, .used = size};
	lane->data = malloc(size > LANE_SIZE ? size : LANE_SIZE);
	if (!lane->data)
		return false;
	if (size > 0)
		memcpy(lane->data, data, size);
	return true;
}

struct relay *relay_new(const struct relay_request *request)
{
	struct relay *relay = calloc(1, sizeof *relay);

	if (!relay)
		return NULL;
	relay->loop = request->loop;
	relay->party = request->lane;
	relay->piece.run = run_piece;
	relay->over = request->over;
	relay->own = request->own;
	relay->outer = (struct end){.watch = {.fd = request->outer_fd, .ready = on_ready},
				    .relay = relay,
				    .ssl = request->ssl};
	relay->inner =
		(struct end){.watch = {.fd = request->inner_fd, .ready = on_ready}, .relay = relay};
	/* EPOLLOUT comes at once and starts the relay from the event loop. */
	if (!init_lane(&relay->in, &relay->outer, &relay->inner, request->to_inner,
		       request->to_inner_size) ||
	    !init_lane(&relay->out, &relay->inner, &relay->outer, request->to_outer,
		       request->to_outer_size) ||
	    loop_watch(relay->loop, &relay->outer.watch, EPOLLIN | EPOLLOUT) < 0 ||
	    loop_watch(relay->loop, &relay->inner.watch, EPOLLIN) < 0) {
		loop_unwatch(relay->loop, &relay->outer.watch);
		relay->outer.watch.fd = relay->inner.watch.fd = -1;
		relay->outer.ssl = NULL;
		relay_free(relay);
		return NULL;
	}
	return relay;
}
