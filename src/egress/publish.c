/* SPDX-License-Identifier: Apache-2.0 */
#include "base/announce.h"
#include "base/clock.h"
#include "base/error.h"
#include "egress/core.h"
#include "egress/visit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/*
 * The other way: ports of the sandbox that the host can reach
 *
 * Egress listens on the host's loopback, and connects to the port inside with sockets that were
 * made there for it and are asked for in advance. A program inside may listen on IPv4 or IPv6 only,
 * so both are tried. Visitors get sockets in the order in which they came; when too many wait, or
 * there is no descriptor left, further ones wait in the kernel's queue.
 *
 * A web page in the person's browser can connect here, too, and by DNS rebinding its requests are
 * to be told by their Host alone. So every connection has a door (door.c), which looks at its first
 * bytes. The connection inside is made at once, for some servers speak first.
 */

#define POOL_WANTED 4
#define POOL_MAX    32
#define WAITING_MAX 256
#define BACKLOG	    1024
#define PAUSE_NS    (100 * MS_NS) /* without descriptors */
#define PATIENCE_NS (10 * SECOND_NS)

struct port {
	struct egress *egress;
	const struct network_listen *listen;
	struct visit_names names;
	struct loop_watch listeners[2]; /* 127.0.0.1 and ::1 */
	int announced[2];		/* base/announce.h; open as long as we are */
};

/* A connection from the host that is not yet through. */
struct visitor {
	struct publish *publish;
	struct visitor *next;
	struct flow *flow;
	struct loop_watch inside;
	struct loop_timer timer;
	bool is_second_try; /* IPv6 */
};

struct publish {
	struct egress *egress;
	int pool[POOL_MAX];
	size_t n_pool, n_asked;
	struct visitor *visitors, **last; /* the oldest first; where the next one goes */
	size_t n_visitors;
	bool is_paused; /* nobody is accepted */
	struct loop_timer pause;
	char own[HOST_NAME_SIZE]; /* this machine's name */
	size_t n_ports;
	struct port ports[];
};

/* ---- who is let in ---- */

static void accept_visitors(struct publish *publish, bool accepts)
{
	struct loop *loop = &publish->egress->loop;

	publish->is_paused = !accepts;
	for (size_t i = 0; i < publish->n_ports; i++)
		for (int j = 0; j < 2; j++) {
			struct loop_watch *watch = &publish->ports[i].listeners[j];

			if (watch->fd >= 0 && accepts)
				loop_watch(loop, watch, EPOLLIN);
			else if (watch->fd >= 0)
				loop_unwatch(loop, watch);
		}
}

static void pause_over(struct loop_timer *timer)
{
	accept_visitors(container_of(timer, struct publish, pause), true);
}

/* ---- visitors ---- */

static void visitor_free(struct visitor *visitor)
{
	struct publish *publish = visitor->publish;
	struct visitor **place = &publish->visitors;
	struct loop *loop = &publish->egress->loop;

	while (*place != visitor)
		place = &(*place)->next;
	*place = visitor->next;
	if (!*place)
		publish->last = place;
	publish->n_visitors--;
	if (publish->is_paused && publish->n_visitors < WAITING_MAX / 2)
		accept_visitors(publish, true);
	loop_disarm(loop, &visitor->timer);
	if (visitor->inside.fd >= 0) {
		loop_unwatch(loop, &visitor->inside);
		close(visitor->inside.fd);
	}
	visitor->flow->owner = NULL;
	visitor->flow->abandon = NULL;
	loop_unwatch(loop, &visitor->flow->client.watch);
	free(visitor);
}

static void abandon(struct flow *flow)
{
	visitor_free(flow->owner);
}

static void fail(struct visitor *visitor, const char *reason)
{
	struct flow *flow = visitor->flow;

	visitor_free(visitor);
	flow_end(flow, ATOLL_CONN_FAILED, reason);
}

static void want_more(struct publish *publish)
{
	struct egress_message message = {.type = EGRESS_WANT};
	size_t wanted = POOL_WANTED, waiting = 0;

	for (struct visitor *visitor = publish->visitors; visitor; visitor = visitor->next)
		waiting += visitor->inside.fd < 0;
	wanted += waiting;
	if (wanted > POOL_MAX)
		wanted = POOL_MAX;
	if (publish->n_pool + publish->n_asked >= wanted)
		return;
	message.count = (uint32_t)(wanted - publish->n_pool - publish->n_asked);
	publish->n_asked += message.count;
	channel_send(publish->egress->channel, &message);
}

static void try_inside(struct visitor *visitor);

static void inside_ready(struct loop_watch *watch, uint32_t events)
{
	struct visitor *visitor = container_of(watch, struct visitor, inside);
	struct flow *flow = visitor->flow;
	int errnum = 0, fd;
	socklen_t size = sizeof errnum;

	(void)events;
	getsockopt(watch->fd, SOL_SOCKET, SO_ERROR, &errnum, &size);
	loop_unwatch(&flow->egress->loop, watch);
	if (errnum == 0) {
		fd = watch->fd;
		watch->fd = -1;
		visitor_free(visitor);
		relay_take(flow, fd);
		return;
	}
	close(watch->fd);
	watch->fd = -1;
	if (visitor->is_second_try) {
		fail(visitor, "nobody listens on the port inside");
		return;
	}
	visitor->is_second_try = true;
	try_inside(visitor);
}

/* Connect with the next socket of the pool; without one it waits for more. */
static void try_inside(struct visitor *visitor)
{
	struct publish *publish = visitor->publish;
	struct sockaddr_in6 to = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(visitor->flow->port),
		.sin6_addr = in6addr_loopback,
	};
	int yes = 1;

	if (publish->n_pool == 0) {
		want_more(publish);
		return;
	}
	if (!visitor->is_second_try) {
		static const uint8_t v4[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};

		memcpy(&to.sin6_addr, v4, sizeof v4);
	}
	visitor->inside = (struct loop_watch){
		.fd = publish->pool[--publish->n_pool],
		.ready = inside_ready,
	};
	want_more(publish);
	setsockopt(visitor->inside.fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	/* What fails at once is told by the loop as well. */
	if (connect(visitor->inside.fd, (struct sockaddr *)&to, sizeof to) < 0 &&
	    errno != EINPROGRESS) {
		close(visitor->inside.fd);
		visitor->inside.fd = -1;
		if (visitor->is_second_try) {
			fail(visitor, "nobody listens on the port inside");
		} else {
			visitor->is_second_try = true;
			try_inside(visitor);
		}
		return;
	}
	if (loop_watch(&publish->egress->loop, &visitor->inside, EPOLLOUT) < 0)
		fail(visitor, "out of memory");
}

void publish_inside(struct egress *egress, const int *fds, size_t n)
{
	struct publish *publish = egress->publish;
	struct visitor *next;

	for (size_t i = 0; i < n; i++) {
		int flags = fcntl(fds[i], F_GETFL);

		if (!publish || publish->n_pool >= POOL_MAX || flags < 0 ||
		    fcntl(fds[i], F_SETFL, flags | O_NONBLOCK) < 0)
			close(fds[i]);
		else
			publish->pool[publish->n_pool++] = fds[i];
	}
	if (!publish)
		return;
	publish->n_asked -= n < publish->n_asked ? n : publish->n_asked;
	for (struct visitor *visitor = publish->visitors; visitor && publish->n_pool > 0;
	     visitor = next) {
		next = visitor->next;
		if (visitor->inside.fd < 0)
			try_inside(visitor);
	}
}

static void too_slow(struct loop_timer *timer)
{
	struct visitor *visitor = container_of(timer, struct visitor, timer);
	struct publish *publish = visitor->publish;
	bool has_socket = visitor->inside.fd >= 0;

	fail(visitor, "the port inside did not answer");
	/* Sockets that have not come by now will not: ask for others. */
	if (!has_socket) {
		publish->n_asked = 0;
		want_more(publish);
	}
}

static void visitor_gone(struct loop_watch *watch, uint32_t events)
{
	struct flow *flow = container_of(watch, struct flow, client.watch);

	(void)events;
	fail(flow->owner, "the client went away");
}

/* Everybody on the host can visit: what the command itself needs stays free. */
static bool has_too_many(const struct egress *egress)
{
	return egress->n_flows > egress->flows_max || egress->n_visits > egress->flows_max / 2;
}

static void take_visitor(struct port *port, int fd, const struct sockaddr_storage *peer)
{
	struct egress *egress = port->egress;
	struct publish *publish = egress->publish;
	struct flow *flow = flow_new(egress, fd, FLOW_DIRECT, peer);
	struct visitor *visitor;

	if (!flow)
		return;
	flow->port = port->listen->port;
	snprintf(flow->event.address, sizeof flow->event.address, "127.0.0.1");
	snprintf(flow->event.rule, sizeof flow->event.rule, "listen %u", port->listen->port);
	flow->is_visit = true;
	egress->n_visits++;
	flow->door = door_new(&port->names);
	if (!flow->door) {
		flow_end(flow, ATOLL_CONN_FAILED, "out of memory");
		return;
	}
	if (has_too_many(egress))
		flow_end_all(egress);
	visitor = has_too_many(egress) ? NULL : calloc(1, sizeof *visitor);
	if (!visitor) {
		flow_end(flow, ATOLL_CONN_FAILED, "too many connections at the same time");
		return;
	}
	visitor->publish = publish;
	visitor->flow = flow;
	visitor->inside.fd = -1;
	visitor->timer.fire = too_slow;
	*publish->last = visitor;
	publish->last = &visitor->next;
	publish->n_visitors++;
	flow->owner = visitor;
	flow->abandon = abandon;
	flow->client.watch.ready = visitor_gone;
	if (loop_watch(&egress->loop, &flow->client.watch, 0) < 0 ||
	    loop_arm(&egress->loop, &visitor->timer, clock_monotonic_ns() + PATIENCE_NS) < 0)
		fail(visitor, "out of memory");
	else
		try_inside(visitor);
}

/* ---- ports ---- */

static void take_visitors(struct port *port, int listener)
{
	struct publish *publish = port->egress->publish;

	for (int i = 0; i < 16; i++) {
		struct sockaddr_storage peer = {0};
		socklen_t size = sizeof peer;
		int fd = accept4(listener, (struct sockaddr *)&peer, &size,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		/* Waiting for the listener to be ready would not wait at all. */
		if (fd < 0 && errno != EAGAIN &&
		    loop_arm(&port->egress->loop, &publish->pause,
			     clock_monotonic_ns() + PAUSE_NS) == 0)
			accept_visitors(publish, false);
		if (fd < 0)
			return;
		take_visitor(port, fd, &peer);
		if (publish->n_visitors >= WAITING_MAX) {
			accept_visitors(publish, false);
			return;
		}
	}
}

static void v4_ready(struct loop_watch *watch, uint32_t events)
{
	(void)events;
	take_visitors(container_of(watch, struct port, listeners[0]), watch->fd);
}

static void v6_ready(struct loop_watch *watch, uint32_t events)
{
	(void)events;
	take_visitors(container_of(watch, struct port, listeners[1]), watch->fd);
}

static int open_listener(int family, uint16_t *port, int *ret_announced)
{
	struct sockaddr_in v4 = {AF_INET, htons(*port), {htonl(INADDR_LOOPBACK)}};
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(*port),
		.sin6_addr = in6addr_loopback,
	};
	struct sockaddr *address =
		family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
	socklen_t size = family == AF_INET ? sizeof v4 : sizeof v6;
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1, r;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	flow_prepare_listener(fd);
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
	r = bind(fd, address, size) < 0 || getsockname(fd, address, &size) < 0 ? -errno : 0;
	if (r == 0)
		r = *ret_announced = announce_listener(fd, NULL);
	if (r >= 0 && listen(fd, BACKLOG) < 0) {
		r = -errno;
		close(*ret_announced);
	}
	if (r < 0) {
		close(fd);
		return r;
	}
	*port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
	return fd;
}

/* The same port on both; ::1 only where there is IPv6. A free one has to be free on both, else
 * somebody else's server would be seen on one of them. */
static int open_port(struct port *port, uint16_t *ret_port, struct atoll_error *err)
{
	int r = -EADDRINUSE;

	for (int tries = port->listen->host_port ? 1 : 16; tries > 0 && r == -EADDRINUSE; tries--) {
		*ret_port = port->listen->host_port;
		r = open_listener(AF_INET, ret_port, &port->announced[0]);
		if (r < 0)
			break;
		port->listeners[0].fd = r;
		r = open_listener(AF_INET6, ret_port, &port->announced[1]);
		if (r >= 0) {
			port->listeners[1].fd = r;
			return 0;
		}
		if (r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL)
			return 0;
		close(port->listeners[0].fd);
		close(port->announced[0]);
		port->listeners[0].fd = -1;
	}
	return error_set(err, ATOLL_FAULT_HOST, -r, "listen on port %u for port %u of the sandbox",
			 port->listen->host_port, port->listen->port);
}

int publish_open(struct egress *egress, uint16_t ret_ports[EGRESS_LISTEN_MAX],
		 struct atoll_error *err)
{
	size_t n = egress->network.n_listen;
	struct publish *publish;

	if (n == 0)
		return 0;
	if (n > EGRESS_LISTEN_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "more than %d published ports",
				 EGRESS_LISTEN_MAX);
	publish = calloc(1, sizeof *publish + n * sizeof publish->ports[0]);
	if (!publish)
		return error_oom(err);
	egress->publish = publish;
	publish->egress = egress;
	publish->last = &publish->visitors;
	publish->pause.fire = pause_over;
	publish->n_ports = n;
	if (gethostname(publish->own, sizeof publish->own - 1) < 0)
		publish->own[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		struct port *port = &publish->ports[i];
		int r;

		port->egress = egress;
		port->listen = &egress->network.listen[i];
		port->names = (struct visit_names){publish->own, port->listen->names,
						   port->listen->n_names};
		port->listeners[0] = (struct loop_watch){.fd = -1, .ready = v4_ready};
		port->listeners[1] = (struct loop_watch){.fd = -1, .ready = v6_ready};
		r = open_port(port, &ret_ports[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

void publish_serve(struct egress *egress)
{
	struct publish *publish = egress->publish;

	if (!publish)
		return;
	accept_visitors(publish, true);
	want_more(publish);
}
