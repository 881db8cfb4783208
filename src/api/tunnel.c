/* SPDX-License-Identifier: Apache-2.0 */
#include "api/server-inner.h"
#include "base/scope.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Two directions, each with a buffer: it is read when it is empty, and written until it is. One
 * that has ended is shut on its other side; when both have, or one side is gone, the tunnel is.
 */

#define TUNNEL_SIZE (16 * 1024)

struct lane {
	char data[TUNNEL_SIZE];
	size_t at, used;
	bool has_ended, is_shut;
};

struct tunnel {
	struct server *server;
	struct tunnel *next, **link;
	SSL *ssl;
	struct loop_watch outer, inner; /* TLS, and what was handed out */
	struct lane in, out;		/* from the client; to it */
	bool read_wants_write;
	bool is_hung; /* nobody has the other end of `inner`: not watched, that is told for ever */
};

static void tunnel_free(struct tunnel *tunnel)
{
	*tunnel->link = tunnel->next;
	if (tunnel->next)
		tunnel->next->link = tunnel->link;
	loop_unwatch(tunnel->server->loop, &tunnel->outer);
	loop_unwatch(tunnel->server->loop, &tunnel->inner);
	secure_free(tunnel->ssl);
	close(tunnel->outer.fd);
	if (tunnel->inner.fd >= 0)
		close(tunnel->inner.fd);
	free(tunnel);
}

void tunnel_free_all(struct server *server)
{
	while (server->tunnels)
		tunnel_free(server->tunnels);
}

static ssize_t read_from(struct tunnel *tunnel, struct lane *lane)
{
	ssize_t n;

	if (lane == &tunnel->in)
		return secure_read(tunnel->ssl, lane->data, TUNNEL_SIZE, &tunnel->read_wants_write);
	do
		n = recv(tunnel->inner.fd, lane->data, TUNNEL_SIZE, 0);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static ssize_t write_to(struct tunnel *tunnel, struct lane *lane)
{
	const char *data = lane->data + lane->at;
	size_t size = lane->used - lane->at;
	ssize_t n;

	if (lane == &tunnel->out)
		return secure_write(tunnel->ssl, data, size);
	do
		n = send(tunnel->inner.fd, data, size, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static void shut(struct tunnel *tunnel, struct lane *lane)
{
	lane->is_shut = true;
	if (lane == &tunnel->out) {
		secure_shut(tunnel->ssl);
		shutdown(tunnel->outer.fd, SHUT_WR);
	} else {
		shutdown(tunnel->inner.fd, SHUT_WR);
	}
}

/* As far as it goes. False: it is broken. */
static bool carry(struct tunnel *tunnel, struct lane *lane)
{
	while (!lane->is_shut) {
		ssize_t n;

		if (lane->at < lane->used) {
			n = write_to(tunnel, lane);
			if (n < 0)
				return n == -EAGAIN;
			lane->at += (size_t)n;
			continue;
		}
		if (lane->has_ended) {
			shut(tunnel, lane);
			break;
		}
		n = read_from(tunnel, lane);
		if (n < 0)
			return n == -EAGAIN;
		lane->has_ended = n == 0;
		lane->at = 0;
		lane->used = (size_t)n;
	}
	return true;
}

static bool waits(const struct lane *lane)
{
	return lane->at < lane->used;
}

static bool reads(const struct lane *lane)
{
	return !waits(lane) && !lane->has_ended;
}

static void go_on(struct tunnel *tunnel)
{
	struct loop *loop = tunnel->server->loop;
	bool is_good = carry(tunnel, &tunnel->out) && carry(tunnel, &tunnel->in);
	uint32_t outer, inner;

	if (!is_good || (tunnel->in.is_shut && tunnel->out.is_shut)) {
		tunnel_free(tunnel);
		return;
	}
	outer = (reads(&tunnel->in) ? (uint32_t)EPOLLIN : 0) |
		(waits(&tunnel->out) || tunnel->read_wants_write ? (uint32_t)EPOLLOUT : 0);
	inner = (reads(&tunnel->out) ? (uint32_t)EPOLLIN : 0) |
		(waits(&tunnel->in) ? (uint32_t)EPOLLOUT : 0);
	if (loop_watch(loop, &tunnel->outer, outer) < 0 ||
	    (!tunnel->is_hung && loop_watch(loop, &tunnel->inner, inner) < 0))
		tunnel_free(tunnel);
}

static void outer_ready(struct loop_watch *watch, uint32_t events)
{
	struct tunnel *tunnel = (struct tunnel *)((char *)watch - offsetof(struct tunnel, outer));

	if (events & EPOLLERR || (events & EPOLLHUP && !(events & EPOLLIN)))
		tunnel_free(tunnel);
	else
		go_on(tunnel);
}

static void inner_ready(struct loop_watch *watch, uint32_t events)
{
	struct tunnel *tunnel = (struct tunnel *)((char *)watch - offsetof(struct tunnel, inner));

	/* Who has the other end closed it: what is there already is still sent. */
	if (events & EPOLLHUP) {
		loop_unwatch(tunnel->server->loop, watch);
		tunnel->is_hung = true;
		tunnel->in.has_ended = true;
		tunnel->in.used = tunnel->in.at;
	}
	go_on(tunnel);
}

int tunnel_new(struct connection *connection)
{
	struct server *server = connection->server;
	struct tunnel *tunnel = calloc(1, sizeof *tunnel);
	int pair[2];

	if (!tunnel ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0) {
		free(tunnel);
		return -1;
	}
	loop_unwatch(server->loop, &connection->watch);
	tunnel->server = server;
	tunnel->ssl = take_ptr(connection->ssl);
	tunnel->outer = (struct loop_watch){.fd = connection->watch.fd, .ready = outer_ready};
	tunnel->inner = (struct loop_watch){.fd = pair[0], .ready = inner_ready};
	connection->watch.fd = -1;
	tunnel->next = server->tunnels;
	if (tunnel->next)
		tunnel->next->link = &tunnel->next;
	tunnel->link = &server->tunnels;
	server->tunnels = tunnel;
	/* Ready to write at once: it starts by looking. */
	if (loop_watch(server->loop, &tunnel->outer, EPOLLIN | EPOLLOUT) < 0 ||
	    loop_watch(server->loop, &tunnel->inner, EPOLLIN) < 0) {
		tunnel_free(tunnel);
		close(pair[1]);
		return -1;
	}
	return pair[1];
}
