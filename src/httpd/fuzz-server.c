/* SPDX-License-Identifier: Apache-2.0 */
/* Requests come from anybody. For any bytes, and any cuts between them (the first byte selects
 * them), every exchange ends, and so does the connection. */
#include "base/clock.h"
#include "base/str.h"
#include "httpd/connection.h"
#include "httpd/httpd.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct loop loop;
static struct server *server;
static struct listener listener;
static size_t n_open;

static void over(struct exchange *exchange, bool is_broken, void *own)
{
	(void)exchange;
	(void)is_broken;
	(void)own;
	n_open--;
}

static void whole(struct exchange *exchange, const char *data, size_t size, void *own)
{
	(void)own;
	exchange_answer(exchange, 200, "text/plain", data, size);
}

static void piece(struct exchange *exchange, const char *data, size_t size, void *own)
{
	(void)own;
	if (size == 0) {
		exchange_end(exchange);
		return;
	}
	exchange_send(exchange, data, size);
	exchange_unread(exchange, size / 2);
	exchange_resume(exchange);
}

static void handle(struct exchange *exchange, void *data)
{
	const char *name = exchange_segment(exchange, 0) ?: "";

	(void)data;
	n_open++;
	exchange_on_over(exchange, over, NULL);
	exchange_query(exchange, "name");
	if (streq(name, "w")) {
		if (exchange_inflate(exchange, 100000))
			exchange_read_whole(exchange, 1000, whole, NULL);
	} else if (streq(name, "p")) {
		exchange_begin(exchange, 200, NULL, UINT64_MAX);
		if (exchange_inflate(exchange, 100000))
			exchange_read(exchange, piece, NULL);
	} else if (streq(name, "c")) {
		exchange_begin(exchange, 200, NULL, 10);
		exchange_cut(exchange);
	} else {
		exchange_answer(exchange, 200, "text/plain", name, strlen(name));
	}
}

static void stop(struct loop_timer *timer)
{
	(void)timer;
	loop_stop(&loop);
}

static void run_loop(void)
{
	struct loop_timer timer = {.fire = stop};

	loop_arm(&loop, &timer, clock_monotonic_ns());
	loop_run(&loop);
	loop_disarm(&loop, &timer);
}

static void set_up(void)
{
	struct server_options options = {.loop = &loop, .handle = handle};

	if (loop_init(&loop) < 0 || server_new(&options, &server, NULL) < 0)
		abort();
	listener = (struct listener){
		.server = server, .watch.fd = -1, .is_unix = true, .announced_fd = -1};
}

static void drain(int fd)
{
	char data[4096];

	while (recv(fd, data, sizeof data, MSG_DONTWAIT) > 0)
		;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct sockaddr_in6 peer = {0};
	size_t step, at = 1;
	int pair[2];

	if (size < 2)
		return 0;
	if (!server)
		set_up();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0 ||
	    connection_new(server, &listener, pair[0], &peer) < 0)
		abort();
	step = data[0] < 128 ? size : data[0] - 127U;
	for (int i = 0; at < size && i < 64; i++) {
		size_t n = size - at < step ? size - at : step;
		ssize_t sent = send(pair[1], data + at, n, MSG_NOSIGNAL);

		run_loop();
		drain(pair[1]);
		if (sent < 0)
			break;
		at += (size_t)sent;
	}
	shutdown(pair[1], SHUT_WR);
	for (int i = 0; i < 64 && server->n_connections > 0; i++) {
		run_loop();
		drain(pair[1]);
	}
	close(pair[1]);
	for (int i = 0; i < 64 && server->n_connections > 0; i++)
		run_loop();
	if (server->n_connections > 0 || n_open > 0 || server->n_exchanges > 0)
		abort();
	return 0;
}
