/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "httpd/httpd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * A server on a thread of its own, and a client that writes bytes to it
 *
 * The path of a request selects the handler: see routes[]. A pipe gets a byte at the end of each
 * exchange: 'o' for its end, 'b' if it is broken.
 */

struct stage {
	struct loop loop;
	struct server *server;
	struct loop_watch quit;
	pthread_t thread;
	int reports[2];
	char where[128];
	uint16_t port;
	struct exchange *delayed; /* is answered later */
	struct loop_timer later, go_on;
	size_t n_read, n_sent;
	bool is_stopping;
};

static struct stage stage;

static void report(char c)
{
	if (write(stage.reports[1], &c, 1) < 0)
		abort();
}

static inline char end_report(void)
{
	struct pollfd poll_fd = {.fd = stage.reports[0], .events = POLLIN};
	char c = 0;

	if (poll(&poll_fd, 1, 10000) == 1 && read(stage.reports[0], &c, 1) == 1)
		return c;
	return '?';
}

static void over(struct exchange *exchange, bool is_broken, void *own)
{
	(void)exchange;
	(void)own;
	report(is_broken ? 'b' : 'o');
}

/* ---- what it serves ---- */

static void say_whole(struct exchange *exchange, const char *data, size_t size, void *own)
{
	(void)own;
	exchange_answer(exchange, 200, "text/plain", data, size);
}

static void echo(struct exchange *exchange)
{
	if (exchange_inflate(exchange, 1000))
		exchange_read_whole(exchange, 1000, say_whole, NULL);
}

static void say_count(struct exchange *exchange)
{
	char text[32];

	snprintf(text, sizeof text, "%zu", stage.n_read);
	exchange_answer(exchange, 200, "text/plain", text, strlen(text));
}

static void count_piece(struct exchange *exchange, const char *data, size_t size, void *own)
{
	(void)data;
	(void)own;
	stage.n_read += size;
	if (size == 0)
		say_count(exchange);
}

static void count(struct exchange *exchange)
{
	stage.n_read = 0;
	if (exchange_inflate(exchange, UINT64_MAX))
		exchange_read(exchange, count_piece, NULL);
}

static void bulk(struct exchange *exchange)
{
	stage.n_read = 0;
	if (exchange_inflate(exchange, UINT64_MAX))
		exchange_read_bulk(exchange, count_piece, NULL);
}

static void go_on(struct loop_timer *timer)
{
	(void)timer;
	exchange_resume(stage.delayed);
}

/* Uses a third of each piece, and the other bytes later. */
static void read_slowly(struct exchange *exchange, const char *data, size_t size, void *own)
{
	(void)data;
	(void)own;
	stage.n_read += size - size / 3 * 2;
	if (size == 0) {
		say_count(exchange);
		return;
	}
	exchange_unread(exchange, size / 3 * 2);
	loop_arm(&stage.loop, &stage.go_on, clock_monotonic_ns() + 100000);
}

static void slowly(struct exchange *exchange)
{
	stage.n_read = 0;
	stage.delayed = exchange;
	if (exchange_inflate(exchange, UINT64_MAX))
		exchange_read(exchange, read_slowly, NULL);
}

static void answer_later(struct loop_timer *timer)
{
	(void)timer;
	exchange_answer(stage.delayed, 200, "text/plain", "later", 5);
}

static void later(struct exchange *exchange)
{
	stage.delayed = exchange;
	loop_arm(&stage.loop, &stage.later, clock_monotonic_ns() + 10000000);
}

static void stream(struct exchange *exchange)
{
	exchange_begin(exchange, 200, "text/plain", UINT64_MAX);
	exchange_send(exchange, "one", 3);
	exchange_send(exchange, "two", 3);
	if (exchange_query(exchange, "ends"))
		exchange_end(exchange);
}

static void send_more(struct exchange *exchange, void *own)
{
	static char data[32 * 1024];

	(void)own;
	while (stage.n_sent > 0 && exchange_waiting(exchange) < 64 * 1024) {
		size_t n = stage.n_sent < sizeof data ? stage.n_sent : sizeof data;

		stage.n_sent -= n;
		exchange_send(exchange, data, n);
	}
	if (stage.n_sent == 0)
		exchange_end(exchange);
}

/* Sends as many bytes as the query says, with a limited number waiting. */
static void many(struct exchange *exchange)
{
	stage.n_sent = strtoul(exchange_query(exchange, "n") ?: "0", NULL, 10);
	exchange_begin(exchange, 200, NULL, stage.n_sent);
	exchange_on_drained(exchange, send_more, NULL);
	send_more(exchange, NULL);
}

static void file(struct exchange *exchange)
{
	int fd = memfd_create("file", MFD_CLOEXEC);
	size_t size = strtoul(exchange_query(exchange, "n") ?: "0", NULL, 10);
	uint64_t said = exchange_query(exchange, "chunked") ? UINT64_MAX : size;

	if (ftruncate(fd, (off_t)size - (exchange_query(exchange, "short") != NULL)) < 0 ||
	    (size > 3 && pwrite(fd, "file", 4, 0) < 0))
		abort();
	exchange_begin(exchange, 200, "text/plain", said);
	exchange_send_file(exchange, fd, 0, size);
}

static void cut(struct exchange *exchange)
{
	exchange_begin(exchange, 200, "text/plain", UINT64_MAX);
	exchange_send(exchange, "half", 4);
	exchange_cut(exchange);
	exchange_send(exchange, "after", 5);
	exchange_end(exchange);
}

static void field(struct exchange *exchange)
{
	const char *value = exchange_field(exchange, "X-Test") ?: "none";

	exchange_add(exchange, "X-Bad", "a\r\nSet-Cookie: b");
	exchange_add(exchange, "X-Good", "a");
	exchange_answer(exchange, 200, "text/plain", value, strlen(value));
}

static void peer(struct exchange *exchange)
{
	const char *text = exchange_peer(exchange);

	exchange_answer(exchange, 200, exchange_is_secure(exchange) ? "x/secure" : "x/plain", text,
			strlen(text));
}

static void detach(struct exchange *exchange)
{
	char *unread;
	size_t size;
	int fd = exchange_detach_socket(exchange, &unread, &size);

	if (fd < 0 || write(fd, "taken:", 6) < 0 || (size > 0 && write(fd, unread, size) < 0))
		abort();
	free(unread);
	close(fd);
}

static void *mirror_bytes(void *data)
{
	int fd = (int)(intptr_t)data;
	char bytes[4096];
	ssize_t n;

	fcntl(fd, F_SETFL, O_RDWR);
	while ((n = read(fd, bytes, sizeof bytes)) > 0)
		for (ssize_t at = 0, done; at < n; at += done)
			if ((done = write(fd, bytes + at, (size_t)(n - at))) < 0)
				abort();
	close(fd);
	return NULL;
}

/* Sends all bytes back until the client ends. */
static void mirror(struct exchange *exchange)
{
	char *unread;
	size_t size;
	int fd = exchange_detach_socket(exchange, &unread, &size);
	pthread_t thread;

	if (fd < 0 || (size > 0 && write(fd, unread, size) != (ssize_t)size) ||
	    pthread_create(&thread, NULL, mirror_bytes, (void *)(intptr_t)fd) != 0)
		abort();
	pthread_detach(thread);
	free(unread);
}

static void empty(struct exchange *exchange)
{
	exchange_answer(exchange, 204, NULL, NULL, 0);
}

static void promise(struct exchange *exchange)
{
	exchange_begin(exchange, 200, "text/plain", 10);
	exchange_send(exchange, "short", 5);
	exchange_end(exchange);
}

static const struct {
	const char *name;
	void (*serve)(struct exchange *exchange);
} routes[] = {
	{"echo", echo},	      {"count", count},	  {"slowly", slowly}, {"later", later},
	{"stream", stream},   {"many", many},	  {"file", file},     {"cut", cut},
	{"field", field},     {"peer", peer},	  {"detach", detach}, {"empty", empty},
	{"promise", promise}, {"mirror", mirror}, {"bulk", bulk},
};

static void handle(struct exchange *exchange, void *data)
{
	const char *name = exchange_segment(exchange, 0) ?: "";

	(void)data;
	exchange_on_over(exchange, over, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++)
		if (streq(routes[i].name, name)) {
			routes[i].serve(exchange);
			return;
		}
	exchange_answer(exchange, 404, "application/json", "{}", 2);
}

/* ---- starting and ending it ---- */

static void stopped(void *data)
{
	(void)data;
	report('s');
	loop_stop(&stage.loop);
}

static void quit(struct loop_watch *watch, uint32_t events)
{
	(void)events;
	loop_unwatch(&stage.loop, watch);
	if (stage.is_stopping)
		server_stop(stage.server, clock_monotonic_ns() + 5 * INT64_C(1000000000), stopped,
			    NULL);
	else
		loop_stop(&stage.loop);
}

static void *run(void *data)
{
	loop_run(&stage.loop);
	return data;
}

static inline void start_at(const char *where, const struct server_options *given,
			    const char *certificate, const char *key)
{
	struct server_options options = *given;
	struct atoll_error err = {0};

	stage = (struct stage){.quit = {.fd = eventfd(0, EFD_CLOEXEC), .ready = quit},
			       .later = {.fire = answer_later},
			       .go_on = {.fire = go_on}};
	CHECK(pipe(stage.reports) == 0);
	CHECK(loop_init(&stage.loop) == 0);
	CHECK(loop_watch(&stage.loop, &stage.quit, EPOLLIN) == 0);
	options.loop = &stage.loop;
	options.handle = handle;
	CHECK(server_new(&options, &stage.server, &err) == 0);
	server_listen(stage.server, where, certificate, key, stage.where, &err);
	CHECK_STR(err.text, "");
	sscanf(stage.where, "127.0.0.1:%hu", &stage.port);
	CHECK(pthread_create(&stage.thread, NULL, run, NULL) == 0);
}

static inline void start(void)
{
	start_at("127.0.0.1:0", &(struct server_options){0}, NULL, NULL);
}

static inline void finish(void)
{
	uint64_t one = 1;

	CHECK(write(stage.quit.fd, &one, 8) == 8);
	pthread_join(stage.thread, NULL);
	server_free(stage.server);
	loop_done(&stage.loop);
	close(stage.quit.fd);
	close(stage.reports[0]);
	close(stage.reports[1]);
}

/* ---- the client ---- */

static inline int connect_to(int fd)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(stage.port)};
	struct timeval limit = {.tv_sec = 10};

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	return connect(fd, (struct sockaddr *)&at, sizeof at);
}

static inline int dial(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && connect_to(fd) == 0);
	return fd;
}

static inline void send_text(int fd, const char *text)
{
	CHECK(send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

/* Reads until the text ends with `end`, or until the end of the connection. */
static inline const char *receive_until(int fd, const char *end)
{
	static char text[8192];
	size_t n = 0;

	for (;;) {
		ssize_t got = recv(fd, text + n, sizeof text - n - 1, 0);

		if (got < 0)
			return errno == ECONNRESET && n > 0 ? text : "(error)";
		n += (size_t)got;
		text[n] = '\0';
		if (got == 0 || (end && ends_with(text, end)))
			return text;
	}
}

/* The number of bytes until the end of the connection. */
static inline size_t count_until_end(int fd)
{
	static char data[1 << 16];
	size_t n = 0;
	ssize_t got;

	while ((got = recv(fd, data, sizeof data, 0)) > 0)
		n += (size_t)got;
	return n;
}

static inline bool has(const char *text, const char *part)
{
	return strstr(text, part);
}
