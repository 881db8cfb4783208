/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "egress/core.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/*
 * Talk with the supervisor
 *
 * Egress never waits for it: what does not fit is queued. A sandbox can make connections faster
 * than anybody reads of them, so the queue is bounded, and events alike become one that counts;
 * when even that does not help, one event for each verdict stands for all that follow: a connection
 * that was refused is never counted as one that was allowed. Events that follow closely upon others
 * wait a moment and go together: each would wake the supervisor, on CPUs that have better things to
 * do.
 */

#define QUEUE_MAX     1024
#define QUEUE_MANY    (QUEUE_MAX / 2) /* from here on those alike become one */
#define TOGETHER_NS   (20 * MS_NS)
#define FLUSH_MAX_MS  5000 /* as long as the supervisor waits: netctl/netctl.c */
#define FDS_A_MESSAGE FD_PASS_MAX

struct channel {
	struct egress *egress;
	struct loop_watch watch;
	struct egress_message *queue; /* a ring */
	size_t first, n;
	struct atoll_connection overflow[ATOLL_CONN_FAILED + 1]; /* by verdict; count 0: none */
	struct loop_timer together;
	int64_t told_ns; /* when the last event was sent */
	bool has_sockets;
};

static struct egress_message *at(struct channel *channel, size_t i)
{
	return &channel->queue[(channel->first + i) % QUEUE_MAX];
}

/* ---- to the supervisor ---- */

/* -EAGAIN: it does not take any more now. */
static int send_one(struct channel *channel, const struct egress_message *message)
{
	ssize_t n = send(channel->watch.fd, message, sizeof *message, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n >= 0)
		return 0;
	return errno == EINTR || errno == ENOBUFS ? -EAGAIN : -errno;
}

/* What there was no place for takes one that has become free. */
static void queue_overflow(struct channel *channel)
{
	for (size_t i = 0; i < ARRAY_SIZE(channel->overflow); i++) {
		if (channel->overflow[i].count == 0 || channel->n == QUEUE_MAX)
			continue;
		*at(channel, channel->n++) = (struct egress_message){
			.type = EGRESS_CONNECTION, .connection = channel->overflow[i]};
		channel->overflow[i] = (struct atoll_connection){0};
	}
}

static void send_queued(struct channel *channel)
{
	loop_disarm(&channel->egress->loop, &channel->together);
	while (channel->n > 0) {
		int r = send_one(channel, at(channel, 0));

		if (r == -EAGAIN)
			break;
		/* The other side is gone: reading will find that out. */
		channel->first = (channel->first + 1) % QUEUE_MAX;
		channel->n--;
		if (channel->n == 0)
			queue_overflow(channel);
	}
	if (channel->watch.is_watched)
		loop_watch(&channel->egress->loop, &channel->watch,
			   EPOLLIN | (channel->n > 0 ? EPOLLOUT : 0u));
}

static bool is_alike(const struct atoll_connection *a, const struct atoll_connection *b)
{
	return a->verdict == b->verdict && a->port == b->port && streq(a->name, b->name) &&
	       streq(a->address, b->address) && streq(a->reason, b->reason) &&
	       streq(a->rule, b->rule) && streq(a->request, b->request);
}

static void merge(struct atoll_connection *into, const struct atoll_connection *one)
{
	into->count += one->count;
	into->sent += one->sent;
	into->received += one->received;
	if (one->duration_ns > into->duration_ns)
		into->duration_ns = one->duration_ns;
	into->local_port = 0;
}

static bool merge_queued(struct channel *channel, const struct atoll_connection *connection)
{
	for (size_t i = channel->n; i-- > 0;) {
		struct egress_message *message = at(channel, i);

		if (message->type == EGRESS_CONNECTION &&
		    is_alike(&message->connection, connection)) {
			merge(&message->connection, connection);
			return true;
		}
	}
	return false;
}

/* There is no place in the queue. */
static void add_overflow(struct channel *channel, const struct atoll_connection *connection)
{
	struct atoll_connection *one = &channel->overflow[connection->verdict];

	if (one->count > 0) {
		if (!is_alike(one, connection)) {
			one->name[0] = one->address[0] = one->rule[0] = one->request[0] = '\0';
			one->port = 0;
			snprintf(one->reason, sizeof one->reason, "too many to be told one by one");
		}
		merge(one, connection);
	} else {
		*one = *connection;
	}
}

static void send_together(struct loop_timer *timer)
{
	struct channel *channel = container_of(timer, struct channel, together);

	channel->told_ns = clock_monotonic_ns();
	send_queued(channel);
}

static void put(struct channel *channel, const struct egress_message *message)
{
	if (!channel->queue)
		channel->queue = calloc(QUEUE_MAX, sizeof *channel->queue);
	if (!channel->queue)
		return;
	if (channel->n == QUEUE_MAX) {
		if (message->type == EGRESS_CONNECTION)
			add_overflow(channel, &message->connection);
		return; /* a question that is not asked is answered by no */
	}
	*at(channel, channel->n++) = *message;
}

void channel_send(struct channel *channel, const struct egress_message *message)
{
	if (channel->n == 0 && send_one(channel, message) != -EAGAIN)
		return;
	put(channel, message);
	send_queued(channel);
}

void channel_tell(struct channel *channel, const struct atoll_connection *connection)
{
	struct egress_message message;
	int64_t now = clock_monotonic_ns();

	if (channel->n >= QUEUE_MANY && merge_queued(channel, connection))
		return;
	memset(&message, 0, sizeof message);
	message.type = EGRESS_CONNECTION;
	message.connection = *connection;
	if (now - channel->told_ns >= TOGETHER_NS ||
	    loop_arm(&channel->egress->loop, &channel->together, channel->told_ns + TOGETHER_NS) <
		    0) {
		channel->told_ns = now;
		channel_send(channel, &message);
	} else {
		put(channel, &message);
	}
}

bool channel_flush(struct channel *channel)
{
	int64_t until = clock_monotonic_ns() + FLUSH_MAX_MS * MS_NS;

	for (send_queued(channel); channel->n > 0; send_queued(channel)) {
		struct pollfd poll_fd = {.fd = channel->watch.fd, .events = POLLOUT};
		int64_t left = until - clock_monotonic_ns();

		if (left <= 0 || poll(&poll_fd, 1, (int)(left / MS_NS) + 1) < 0 ||
		    (poll_fd.revents & (POLLERR | POLLHUP)))
			return false;
	}
	return true;
}

/* ---- from the supervisor ---- */

static void take_sockets(struct channel *channel, int *fds, size_t n)
{
	struct egress *egress = channel->egress;

	if (channel->has_sockets || n == 0 || n > 2)
		return;
	channel->has_sockets = true;
	if (n == 2)
		dns_serve(egress, take_fd(&fds[1]));
	client_serve(egress, take_fd(&fds[0]));
}

static void take_message(struct channel *channel, const struct egress_message *message, int *fds,
			 size_t n)
{
	switch (message->type) {
	case EGRESS_SOCKETS:
		take_sockets(channel, fds, n);
		break;
	case EGRESS_ANSWER:
		ask_answer(channel->egress, message->question.id, message->is_allowed,
			   message->is_once);
		break;
	case EGRESS_INSIDE:
		publish_inside(channel->egress, fds, n);
		for (size_t i = 0; i < n; i++)
			fds[i] = -1;
		break;
	default:
		break;
	}
}

static void channel_ready(struct loop_watch *watch, uint32_t events)
{
	struct channel *channel = container_of(watch, struct channel, watch);
	struct egress_message message;
	int fds[FDS_A_MESSAGE];
	size_t n = FDS_A_MESSAGE;
	ssize_t size;

	if (events & EPOLLOUT)
		send_queued(channel);
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	size = fd_receive(watch->fd, &message, sizeof message, MSG_DONTWAIT, fds, &n);
	if (size == -EAGAIN)
		return;
	/* Its end is ours. */
	if (size <= 0) {
		loop_stop(&channel->egress->loop);
		return;
	}
	if (size == sizeof message)
		take_message(channel, &message, fds, n);
	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

struct channel *channel_new(struct egress *egress, int fd)
{
	struct channel *channel = calloc(1, sizeof *channel);

	if (!channel)
		return NULL;
	channel->egress = egress;
	channel->watch = (struct loop_watch){.fd = fd, .ready = channel_ready};
	channel->together.fire = send_together;
	if (loop_watch(&egress->loop, &channel->watch, EPOLLIN) < 0) {
		free(channel);
		return NULL;
	}
	return channel;
}

void channel_free(struct channel *channel)
{
	if (!channel)
		return;
	loop_disarm(&channel->egress->loop, &channel->together);
	loop_unwatch(&channel->egress->loop, &channel->watch);
	free(channel->queue);
	free(channel);
}
