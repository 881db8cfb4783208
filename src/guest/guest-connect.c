/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest-parts.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* A listener whose queue is full does not answer, and the kernel asks again for minutes. */
#define PATIENCE_NS (10 * INT64_C(1000000000))
#define DIALS_MAX   256

struct dial {
	struct server *server;
	uint64_t id;
	uint16_t port;
	bool is_second; /* ::1, after 127.0.0.1 */
	struct loop_watch socket;
	struct loop_timer timer;
};

static size_t n_dials;

static void finish(struct dial *dial, int errnum)
{
	int fd = dial->socket.fd;

	if (fd >= 0)
		loop_unwatch(&dial->server->loop, &dial->socket);
	loop_disarm(&dial->server->loop, &dial->timer);
	if (errnum && fd >= 0) {
		close(fd);
		fd = -1;
	}
	answer(dial->server, dial->id, errnum, "", NULL, 0, fd);
	n_dials--;
	free(dial);
}

static int begin(struct dial *dial)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET,
				 .sin_port = htons(dial->port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
				  .sin6_port = htons(dial->port),
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	const void *address = dial->is_second ? (const void *)&v6 : &v4;
	socklen_t size = dial->is_second ? sizeof v6 : sizeof v4;

	dial->socket.fd = socket(dial->is_second ? AF_INET6 : AF_INET,
				 SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (dial->socket.fd < 0)
		return -errno;
	if (connect(dial->socket.fd, address, size) < 0 && errno != EINPROGRESS)
		return -errno;
	return loop_watch(&dial->server->loop, &dial->socket, EPOLLOUT);
}

static void try_next(struct dial *dial, int errnum)
{
	while (errnum == ECONNREFUSED && !dial->is_second) {
		loop_unwatch(&dial->server->loop, &dial->socket);
		close(dial->socket.fd);
		dial->is_second = true;
		/* Where there is no such family, nothing listens there. */
		errnum = -begin(dial) ? ECONNREFUSED : 0;
		if (!errnum)
			return;
	}
	finish(dial, errnum);
}

static void on_socket(struct loop_watch *watch, uint32_t events)
{
	struct dial *dial = (struct dial *)(void *)((char *)watch - offsetof(struct dial, socket));
	socklen_t size = sizeof(int);
	int errnum = 0;

	(void)events;
	if (getsockopt(watch->fd, SOL_SOCKET, SO_ERROR, &errnum, &size) < 0)
		errnum = errno;
	try_next(dial, errnum);
}

static void on_timer(struct loop_timer *timer)
{
	finish((struct dial *)(void *)((char *)timer - offsetof(struct dial, timer)), ETIMEDOUT);
}

void ask_connect(struct question *question)
{
	struct dial *dial = n_dials < DIALS_MAX ? calloc(1, sizeof *dial) : NULL;
	int r;

	if (!dial || question->number == 0 || question->number > UINT16_MAX) {
		answer(question->server, question->id, dial ? EINVAL : EMFILE, "", NULL, 0, -1);
		free(dial);
		return;
	}
	n_dials++;
	dial->server = question->server;
	dial->id = question->id;
	dial->port = (uint16_t)question->number;
	dial->socket = (struct loop_watch){.fd = -1, .ready = on_socket};
	dial->timer.fire = on_timer;
	r = loop_arm(&dial->server->loop, &dial->timer, clock_monotonic_ns() + PATIENCE_NS);
	if (r == 0)
		r = begin(dial);
	if (r < 0)
		try_next(dial, -r);
}
