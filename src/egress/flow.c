/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
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
#include <time.h>
#include <unistd.h>

/* Closing a socket that has unread bytes resets it, and an answer that is still on its way gets
 * lost. So what was answered is read dry for a while first. */
#define LINGER_NS     (2 * SECOND_NS)
#define LINGERERS_MAX 256

struct lingerer {
	struct egress *egress;
	struct loop_watch watch;
	struct loop_timer timer;
};

static size_t n_lingerers;

static void linger_end(struct lingerer *lingerer)
{
	loop_unwatch(&lingerer->egress->loop, &lingerer->watch);
	loop_disarm(&lingerer->egress->loop, &lingerer->timer);
	close(lingerer->watch.fd);
	free(lingerer);
	n_lingerers--;
}

static void linger_ready(struct loop_watch *watch, uint32_t events)
{
	char scrap[4096];
	ssize_t n = -1;

	(void)events;
	for (int i = 0; i < 16; i++) {
		n = recv(watch->fd, scrap, sizeof scrap, MSG_DONTWAIT);
		if (n <= 0)
			break;
	}
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		linger_end(container_of(watch, struct lingerer, watch));
}

static void linger_over(struct loop_timer *timer)
{
	linger_end(container_of(timer, struct lingerer, timer));
}

/* A second descriptor keeps the socket when the stream closes its own. */
static void linger(struct stream *stream)
{
	struct lingerer *lingerer;
	struct egress *egress = stream->egress;

	if (n_lingerers >= LINGERERS_MAX)
		return;
	lingerer = calloc(1, sizeof *lingerer);
	if (!lingerer)
		return;
	n_lingerers++;
	lingerer->egress = egress;
	lingerer->timer.fire = linger_over;
	lingerer->watch.ready = linger_ready;
	lingerer->watch.fd = fcntl(stream->watch.fd, F_DUPFD_CLOEXEC, 0);
	if (lingerer->watch.fd < 0) {
		free(lingerer);
		n_lingerers--;
	} else if (loop_watch(&egress->loop, &lingerer->watch, EPOLLIN) < 0 ||
		   loop_arm(&egress->loop, &lingerer->timer, clock_monotonic_ns() + LINGER_NS) <
			   0) {
		linger_end(lingerer);
	}
}

static uint64_t now_real_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/*
 * The kernel lets the buffers of a socket grow to many megabytes where one side sends and the other
 * does not read, out of a store that all of the host shares. A few connections may have that, for
 * the sake of fast lines that are long; when there are many, each gets less.
 */
void flow_bound_socket(const struct egress *egress, int fd)
{
	int size = egress->n_flows > 512 ? 32 * 1024 : 256 * 1024;

	if (egress->n_flows <= 16)
		return;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
}

void flow_prepare_listener(int fd)
{
	int yes = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

struct flow *flow_new(struct egress *egress, int fd, enum flow_kind kind,
		      const struct sockaddr_storage *peer)
{
	struct flow *flow = calloc(1, sizeof *flow);
	struct network_address ignored;

	if (!flow) {
		close(fd);
		return NULL;
	}
	flow->egress = egress;
	flow->kind = kind;
	flow->client = (struct stream)STREAM_INIT;
	flow->client.egress = egress;
	flow->client.watch.fd = fd;
	flow->outside.fd = -1;
	flow->start_ns = clock_monotonic_ns();
	flow->event.start_ns = now_real_ns();
	flow->event.count = 1;
	address_of_socket(peer, &ignored, &flow->event.local_port);
	flow_bound_socket(egress, fd);
	flow->next = egress->flows;
	if (flow->next)
		flow->next->previous = flow;
	egress->flows = flow;
	egress->n_flows++;
	return flow;
}

static void forget_ending(struct flow *flow)
{
	struct flow **at = &flow->egress->ending;

	while (*at != flow)
		at = &(*at)->next_ending;
	*at = flow->next_ending;
	flow->egress->n_ending--;
}

void flow_end(struct flow *flow, enum atoll_verdict verdict, const char *reason)
{
	struct egress *egress = flow->egress;
	struct atoll_connection *event = &flow->event;

	if (flow->is_ending) {
		forget_ending(flow);
		loop_forget(&egress->loop, &flow->client.watch); /* it is closed below */
	}
	event->verdict = verdict;
	event->duration_ns = (uint64_t)(clock_monotonic_ns() - flow->start_ns);
	event->port = flow->port;
	snprintf(event->name, sizeof event->name, "%s", flow->name);
	if (!flow->name[0] && !event->address[0] && flow->port)
		network_address_text(&flow->address, event->address);
	if (reason)
		snprintf(event->reason, sizeof event->reason, "%s", reason);
	pace_close(flow);
	if (flow->holds_name)
		names_release(egress->names, flow->name);
	channel_tell(egress->channel, event);

	if (flow->client.is_write_closed && !flow->client.is_read_closed)
		linger(&flow->client);
	stream_done(&flow->client, reason && !flow->client.is_write_closed);

	if (flow->previous)
		flow->previous->next = flow->next;
	else
		egress->flows = flow->next;
	if (flow->next)
		flow->next->previous = flow->previous;
	egress->n_flows--;
	egress->n_visits -= flow->is_visit;
	free(flow->early);
	door_free(flow->door);
	free(flow);
}

/* ---- ends that can wait ---- */

/* So many do not wait together, for each has its descriptor. */
#define ENDING_MAX 64

void flow_end_all(struct egress *egress)
{
	while (egress->ending)
		flow_end(egress->ending, ATOLL_CONN_ALLOWED, NULL);
}

static void rest(struct loop *loop)
{
	flow_end_all(container_of(loop, struct egress, loop));
}

static void ended_ready(struct loop_watch *watch, uint32_t events)
{
	(void)events;
	flow_end(container_of(watch, struct flow, client.watch), ATOLL_CONN_ALLOWED, NULL);
}

void flow_end_soon(struct flow *flow)
{
	struct egress *egress = flow->egress;

	pace_close(flow);
	flow->client.watch.ready = ended_ready;
	flow->is_ending = true;
	flow->next_ending = egress->ending;
	egress->ending = flow;
	if (++egress->n_ending >= ENDING_MAX)
		flow_end_all(egress);
	else
		loop_rest(&egress->loop, rest);
}

/* ---- */

void flow_cut(struct egress *egress, const struct pace_share *share, enum atoll_verdict verdict,
	      const char *reason)
{
	struct flow *next;

	flow_end_all(egress);
	for (struct flow *flow = egress->flows; flow; flow = next) {
		next = flow->next;
		if (share && flow->share != share)
			continue;
		if (flow->abandon)
			flow->abandon(flow);
		/* What had not come to anything was not allowed to. */
		flow_end(flow, flow->event.address[0] ? verdict : ATOLL_CONN_FAILED, reason);
	}
}
