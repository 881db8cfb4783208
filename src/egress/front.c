/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "egress/core.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/*
 * Accepting connections, and whom they are for
 *
 * The socket's own address is the one that the client has connected to. Loopback is our proxy;
 * port 53 of whomever is our name server; one of the addresses that stand for names is that name;
 * all else is an address as such.
 */

#define A_ROUND	 64
#define PAUSE_NS (100 * MS_NS)
/* Who connects again and again within so little, one at a time, does it anew as soon as the one
 * before is over. A connection with its answer takes a fifth of a millisecond: for so long after
 * one of those egress does not sleep. Where there are more at once it is seldom that nothing is to
 * be done, and others need the CPU. */
#define BUSY_NS	 (1 * MS_NS)
#define FEW	 2
#define AWAKE_NS (3 * MS_NS / 10)
#define CALM	 4 /* events in a round */
#define DNS_PORT 53

struct front {
	struct egress *egress;
	struct loop_watch listener;
	int64_t last_ns;	 /* when somebody came */
	struct loop_timer pause; /* no descriptors: let some be closed first */
};

static void sort_out(struct egress *egress, int fd, const struct sockaddr_storage *peer)
{
	struct sockaddr_storage to = {0};
	socklen_t size = sizeof to;
	struct network_address address;
	uint16_t port;
	struct flow *flow;

	if (getsockname(fd, (struct sockaddr *)&to, &size) < 0) {
		close(fd);
		return;
	}
	address_of_socket(&to, &address, &port);
	if (port == DNS_PORT && !egress->token[0]) {
		dns_take(egress, fd);
		return;
	}
	flow = flow_new(egress, fd, FLOW_DIRECT, peer);
	if (!flow)
		return;
	if (egress->n_flows > egress->flows_max)
		flow_end_all(egress);
	if (egress->n_flows > egress->flows_max) {
		flow_end(flow, ATOLL_CONN_REFUSED, "too many connections at the same time");
	} else if (egress->token[0] || network_is_loopback(&address)) {
		proxy_take(flow);
	} else {
		flow->address = address;
		flow->port = port;
		client_take(flow, NULL);
	}
}

static void front_ready(struct loop_watch *watch, uint32_t events)
{
	struct front *front = container_of(watch, struct front, listener);
	struct loop *loop = &front->egress->loop;
	int64_t now = clock_monotonic_ns();
	/* Asking for one that is not there costs nearly as much as one that is; where there is
	 * little else to do it is told of the next one soon enough. */
	int round = loop->n_fetched > CALM ? A_ROUND : 1;

	(void)events;
	if (now - front->last_ns < BUSY_NS && front->egress->n_flows <= FEW)
		loop_stay_awake(loop, now + AWAKE_NS);
	front->last_ns = now;
	for (int i = 0; i < round; i++) {
		struct sockaddr_storage peer = {0};
		socklen_t size = sizeof peer;
		int fd = accept4(watch->fd, (struct sockaddr *)&peer, &size,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			sort_out(front->egress, fd, &peer);
			continue;
		}
		if (errno == ECONNABORTED || errno == EINTR)
			continue;
		/* Waiting for it to be ready would not wait at all. */
		if (errno != EAGAIN &&
		    loop_arm(loop, &front->pause, clock_monotonic_ns() + PAUSE_NS) == 0)
			loop_unwatch(loop, watch);
		return;
	}
}

static void go_on(struct loop_timer *timer)
{
	struct front *front = container_of(timer, struct front, pause);

	loop_watch(&front->egress->loop, &front->listener, EPOLLIN);
}

int client_serve(struct egress *egress, int listener_fd)
{
	struct front *front = calloc(1, sizeof *front);
	int flags = fcntl(listener_fd, F_GETFL);

	/* Whoever made it may have left it blocking. */
	if (!front || flags < 0 || fcntl(listener_fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		free(front);
		close(listener_fd);
		return -ENOMEM;
	}
	flow_prepare_listener(listener_fd);
	egress->front = front;
	front->egress = egress;
	front->pause.fire = go_on;
	front->listener = (struct loop_watch){.fd = listener_fd, .ready = front_ready};
	return loop_watch(&egress->loop, &front->listener, EPOLLIN);
}
