/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A client whose own cost is small, for test/perf/net.py
 *
 *	net get HOST PORT BYTES [PROXY-PORT]       asks for so many bytes; prints how long it took
 *	net connect HOST PORT COUNT [PROXY-PORT]   connect, two bytes each way, close; prints each
 *	net hold HOST PORT COUNT                   so many at once; prints "held N", ends with stdin
 *	net serve PORT                             the other side of connect
 *	net relay HOST PORT LISTEN                 the floor of whoever stands between: splice, both
 *						   ways, and nothing else
 *
 * Times are in nanoseconds. The name is looked up and one connection made before anything is timed:
 * what is paid once is not measured here. With a proxy's port, by CONNECT over 127.0.0.1.
 */

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char *target_host, *target_port;
static struct addrinfo *peer;
static int through_proxy;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void look_up(const char *proxy_port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET};
	int r = getaddrinfo(proxy_port ? "127.0.0.1" : target_host,
			    proxy_port ? proxy_port : target_port, &hints, &peer);

	if (r != 0)
		errx(1, "%s: %s", target_host, gai_strerror(r));
	through_proxy = proxy_port != NULL;
}

static void say(int fd, const char *text)
{
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		err(1, "write");
}

static void ask_proxy(int fd)
{
	char text[512];
	size_t size = 0;

	snprintf(text, sizeof text, "CONNECT %s:%s HTTP/1.1\r\nHost: %s:%s\r\n\r\n", target_host,
		 target_port, target_host, target_port);
	say(fd, text);
	for (;;) {
		ssize_t got = read(fd, text + size, sizeof text - 1 - size);

		if (got <= 0)
			errx(1, "no answer of the proxy");
		size += (size_t)got;
		text[size] = '\0';
		if (strstr(text, "\r\n\r\n"))
			break;
	}
	if (!strstr(text, " 200 "))
		errx(1, "the proxy says %s", text);
}

static int open_connection(void)
{
	static const int one = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, peer->ai_addr, peer->ai_addrlen) < 0)
		err(1, "connect to %s:%s", target_host, target_port);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (through_proxy)
		ask_proxy(fd);
	return fd;
}

static void there_and_back(int fd)
{
	char answer[2];

	say(fd, "x\n");
	if (recv(fd, answer, sizeof answer, MSG_WAITALL) != (ssize_t)sizeof answer)
		err(1, "no answer");
}

static void get(const char *bytes)
{
	static char room[1 << 18];
	uint64_t wanted = strtoull(bytes, NULL, 10), total = 0;
	char text[32];

	for (int warm = 1; warm >= 0; warm--) {
		int64_t start_ns;
		ssize_t got;
		int fd = open_connection();

		snprintf(text, sizeof text, "%llu\n", (unsigned long long)(warm ? 1000 : wanted));
		start_ns = now_ns();
		say(fd, text);
		total = 0;
		while ((got = read(fd, room, sizeof room)) > 0)
			total += (uint64_t)got;
		if (!warm)
			printf("%lld\n", (long long)(now_ns() - start_ns));
		close(fd);
	}
	if (total != wanted)
		errx(1, "%llu bytes of %s", (unsigned long long)total, bytes);
}

static void connect_often(int count)
{
	for (int i = -5; i < count; i++) {
		int64_t start_ns = now_ns();
		int fd = open_connection();

		there_and_back(fd);
		close(fd);
		if (i >= 0)
			printf("%lld\n", (long long)(now_ns() - start_ns));
	}
}

static void hold(int count)
{
	struct rlimit limit;
	char byte;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	for (int i = 0; i < count; i++)
		there_and_back(open_connection());
	printf("held %d\n", count);
	fflush(stdout);
	while (read(0, &byte, 1) < 0 && errno == EINTR)
		;
}

/* Sends back what comes. One loop, as little as can be done. */
static void serve(const char *port)
{
	static const int one = 1;
	struct sockaddr_in6 address = {.sin6_family = AF_INET6,
				       .sin6_port = htons((uint16_t)atoi(port))};
	int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), loop = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
	char room[4096];

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 ||
	    listen(listener, 4096) < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, listener, &event) < 0)
		err(1, "listen at %s", port);
	while (epoll_wait(loop, &event, 1, -1) >= 0 || errno == EINTR) {
		ssize_t got;

		if (event.data.fd == listener) {
			event.data.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
			if (event.data.fd >= 0)
				epoll_ctl(loop, EPOLL_CTL_ADD, event.data.fd, &event);
			continue;
		}
		got = read(event.data.fd, room, sizeof room);
		if (got <= 0 || write(event.data.fd, room, (size_t)got) != got)
			close(event.data.fd);
	}
}

/* At most a pipe of it. False at the end. */
static bool pass_on(int from, int to, const int ends[2])
{
	ssize_t got = splice(from, NULL, ends[1], NULL, 1 << 20, SPLICE_F_NONBLOCK), sent = 0;

	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	for (; got > 0; got -= sent) {
		sent = splice(ends[0], NULL, to, NULL, (size_t)got, 0);
		if (sent <= 0)
			return false;
	}
	return got == 0 && sent > 0;
}

static void relay_one(int client)
{
	int server = open_connection(), ends[2];
	struct pollfd fds[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
	bool is_open = true;

	if (pipe(ends) < 0 || fcntl(ends[0], F_SETPIPE_SZ, 1 << 20) < 0)
		err(1, "make a pipe");
	while (is_open && poll(fds, 2, -1) > 0) {
		if (fds[0].revents)
			is_open = pass_on(client, server, ends);
		if (is_open && fds[1].revents)
			is_open = pass_on(server, client, ends);
	}
}

/* A process for each: it is there before anything is timed. */
static void relay(const char *port)
{
	static const int one = 1;
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)atoi(port)),
				      .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), client;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 ||
	    listen(listener, 16) < 0)
		err(1, "listen at %s", port);
	signal(SIGCHLD, SIG_IGN);
	while ((client = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		if (fork() == 0) {
			relay_one(client);
			_exit(0);
		}
		close(client);
	}
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		serve(argv[2]);
	if (argc < 5)
		errx(2, "usage: net get|connect|hold|relay HOST PORT NUMBER [PROXY-PORT]");
	target_host = argv[2];
	target_port = argv[3];
	look_up(argv[5]);
	if (strcmp(argv[1], "relay") == 0)
		relay(argv[4]);
	else if (strcmp(argv[1], "get") == 0)
		get(argv[4]);
	else if (strcmp(argv[1], "connect") == 0)
		connect_often(atoi(argv[4]));
	else
		hold(atoi(argv[4]));
	return 0;
}
