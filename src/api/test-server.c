/* SPDX-License-Identifier: Apache-2.0 */
#include "api/server.h"
#include "base/clock.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"

#include <arpa/inet.h>
#include <errno.h>
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
 * What the server does depends on the path. What happened to an exchange is told by bytes in a
 * pipe: 'o' over, 'b' over and broken.
 */

struct stage {
	struct loop loop;
	struct server *server;
	struct loop_watch quit;
	pthread_t thread;
	int told[2];
	uint16_t port;
	struct exchange *kept; /* of "/later" and "/stream" */
	struct loop_timer timer;
	size_t n_read;
};

static struct stage stage;

static void tell(char c)
{
	if (write(stage.told[1], &c, 1) < 0)
		abort();
}

static char told(void)
{
	struct pollfd poll_fd = {.fd = stage.told[0], .events = POLLIN};
	char c = 0;

	if (poll(&poll_fd, 1, 10000) == 1 && read(stage.told[0], &c, 1) == 1)
		return c;
	return '?';
}

static void over(struct exchange *exchange, bool is_broken, void *own)
{
	(void)exchange;
	(void)own;
	tell(is_broken ? 'b' : 'o');
}

static void echo(struct exchange *exchange, const char *data, size_t size, void *own)
{
	(void)own;
	exchange_answer(exchange, 200, "text/plain", data, size);
}

static void count(struct exchange *exchange, const char *data, size_t size, void *own)
{
	char text[32];

	(void)data;
	(void)own;
	stage.n_read += size;
	if (size > 0)
		return;
	snprintf(text, sizeof text, "%zu", stage.n_read);
	exchange_answer(exchange, 200, "text/plain", text, strlen(text));
}

static void later(struct loop_timer *timer)
{
	(void)timer;
	exchange_answer(stage.kept, 200, "text/plain", "later", 5);
}

static void handle(struct exchange *exchange, void *data)
{
	const char *name = exchange_segment(exchange, 0) ?: "";

	(void)data;
	exchange_on_over(exchange, over, NULL);
	stage.n_read = 0;
	if (streq(name, "echo")) {
		exchange_read_whole(exchange, 1000, echo, NULL);
	} else if (streq(name, "count")) {
		exchange_read(exchange, count, NULL);
	} else if (streq(name, "later")) {
		stage.kept = exchange;
		loop_arm(&stage.loop, &stage.timer, clock_monotonic_ns() + 10000000);
	} else if (streq(name, "stream")) {
		stage.kept = exchange;
		exchange_begin(exchange, 200, "text/plain", UINT64_MAX);
		exchange_send(exchange, "one", 3);
		exchange_send(exchange, "two", 3);
		if (exchange_query(exchange, "ends"))
			exchange_end(exchange);
	} else if (streq(name, "cut")) {
		exchange_begin(exchange, 200, "text/plain", UINT64_MAX);
		exchange_send(exchange, "half", 4);
		exchange_cut(exchange);
	} else if (streq(name, "field")) {
		const char *value = exchange_field(exchange, "X-Test") ?: "none";

		exchange_add(exchange, "X-Bad", "a\r\nSet-Cookie: b");
		exchange_add(exchange, "X-Good", "a");
		exchange_answer(exchange, 200, "text/plain", value, strlen(value));
	} else if (streq(name, "take")) {
		char *rest;
		size_t size;
		int fd = exchange_take_socket(exchange, &rest, &size);

		if (write(fd, "taken:", 6) < 0 || (size > 0 && write(fd, rest, size) < 0))
			abort();
		free(rest);
		close(fd);
	} else {
		exchange_answer(exchange, 404, "application/json", "{}", 2);
	}
}

static void quit(struct loop_watch *watch, uint32_t events)
{
	(void)watch;
	(void)events;
	loop_stop(&stage.loop);
}

static void *run(void *data)
{
	loop_run(&stage.loop);
	return data;
}

static void start_with(const struct server_options *given)
{
	struct server_options options = *given;
	struct atoll_error err = {0};
	char where[128];

	stage = (struct stage){.quit = {.fd = eventfd(0, EFD_CLOEXEC), .ready = quit},
			       .timer = {.fire = later}};
	CHECK(pipe(stage.told) == 0);
	CHECK(loop_init(&stage.loop) == 0);
	CHECK(loop_watch(&stage.loop, &stage.quit, EPOLLIN) == 0);
	options.loop = &stage.loop;
	options.handle = handle;
	CHECK(server_new(&options, &stage.server, &err) == 0);
	CHECK(server_listen(stage.server, "127.0.0.1:0", NULL, NULL, where, &err) == 0);
	CHECK(sscanf(where, "127.0.0.1:%hu", &stage.port) == 1);
	CHECK(pthread_create(&stage.thread, NULL, run, NULL) == 0);
}

static void start(void)
{
	start_with(&(struct server_options){0});
}

static void finish(void)
{
	uint64_t one = 1;

	CHECK(write(stage.quit.fd, &one, 8) == 8);
	pthread_join(stage.thread, NULL);
	server_free(stage.server);
	loop_done(&stage.loop);
	close(stage.quit.fd);
	close(stage.told[0]);
	close(stage.told[1]);
}

/* ---- the client ---- */

static int dial(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(stage.port)};
	struct timeval limit = {.tv_sec = 10};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	return fd;
}

static void say(int fd, const char *text)
{
	CHECK(send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

/* Until `end` stands at the end, or the connection ends. */
static const char *hear(int fd, const char *end)
{
	static char text[8192];
	size_t n = 0;

	for (;;) {
		ssize_t got = recv(fd, text + n, sizeof text - n - 1, 0);

		if (got < 0)
			return "(error)";
		n += (size_t)got;
		text[n] = '\0';
		if (got == 0 || (end && ends_with(text, end)))
			return text;
	}
}

static bool has(const char *text, const char *part)
{
	return strstr(text, part);
}

TEST(a_request_is_answered_and_the_connection_stays)
{
	cleanup_fd int fd = -1;
	const char *answer;

	start();
	fd = dial();
	for (int i = 0; i < 3; i++) {
		say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
		answer = hear(fd, "hello");
		CHECK(has(answer, "HTTP/1.1 200 OK\r\n"));
		CHECK(has(answer, "Content-Length: 5\r\n"));
		CHECK(has(answer, "Keep-Alive: timeout=70\r\n"));
		CHECK(told() == 'o');
	}
	finish();
}

TEST(chunked_bodies_come_byte_by_byte)
{
	static const char text[] = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
				   "chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
	cleanup_fd int fd = -1;

	start();
	fd = dial();
	for (size_t i = 0; i < sizeof text - 1; i++) {
		char one[2] = {text[i]};

		say(fd, one);
	}
	CHECK(has(hear(fd, "hello world"), "Content-Length: 11\r\n"));
	finish();
}

TEST(pipelined_requests_are_answered_in_order)
{
	cleanup_fd int fd = -1;
	const char *answer;

	start();
	fd = dial();
	say(fd, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n"
		"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
		"GET /no HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	answer = hear(fd, NULL);
	CHECK(has(answer, "later") && has(answer, "abc") && has(answer, "404 Not Found"));
	CHECK(strstr(answer, "later") < strstr(answer, "abc"));
	CHECK(strstr(answer, "abc") < strstr(answer, "404"));
	finish();
}

TEST(a_stream_is_sent_in_chunks)
{
	cleanup_fd int fd = -1;
	const char *answer;

	start();
	fd = dial();
	say(fd, "GET /stream?ends=1 HTTP/1.1\r\nHost: x\r\n\r\n");
	answer = hear(fd, "0\r\n\r\n");
	CHECK(has(answer, "Transfer-Encoding: chunked\r\n"));
	CHECK(has(answer, "\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"));
	CHECK(told() == 'o');
	finish();
}

TEST(a_client_that_leaves_is_noticed)
{
	int fd;

	start();
	fd = dial();
	say(fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(hear(fd, "two\r\n"), "200 OK"));
	close(fd);
	CHECK(told() == 'b');
	finish();
}

TEST(a_cut_stream_has_no_end)
{
	cleanup_fd int fd = -1;
	const char *answer;

	start();
	fd = dial();
	say(fd, "GET /cut HTTP/1.1\r\nHost: x\r\n\r\n");
	answer = hear(fd, NULL);
	CHECK(has(answer, "half") && !has(answer, "\r\n0\r\n"));
	CHECK(told() == 'o');
	finish();
}

TEST(a_body_that_is_too_large_is_refused)
{
	cleanup_fd int fd = -1;

	start();
	fd = dial();
	say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n");
	CHECK(has(hear(fd, NULL), "HTTP/1.1 413 "));
	CHECK(told() == 'b');
	finish();
}

TEST(fields_have_ends_and_cannot_be_split)
{
	cleanup_fd int fd = -1;
	const char *answer;

	start();
	fd = dial();
	say(fd, "GET /field HTTP/1.1\r\nHost: x\r\nx-test: \t some value \r\n\r\n");
	answer = hear(fd, "some value");
	CHECK(has(answer, "X-Good: a\r\n") && !has(answer, "Set-Cookie"));
	CHECK(has(answer, "Content-Length: 10\r\n"));
	finish();
}

TEST(a_socket_can_be_taken)
{
	cleanup_fd int fd = -1;

	start();
	fd = dial();
	say(fd, "GET /take HTTP/1.1\r\nHost: x\r\n\r\nrest");
	CHECK_STR(hear(fd, NULL), "taken:rest");
	CHECK(told() == 'o');
	finish();
}
