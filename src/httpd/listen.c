/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/listen.h"

#include "base/announce.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "httpd/answer.h"
#include "httpd/connection.h"
#include "httpd/server.h"
#include "spec/spec.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * Listening and accepting
 *
 * server_listen() opens a socket (open_listener()). on_connection() accepts connections while their
 * number allows it. Without TLS only loopback addresses and unix sockets are allowed.
 */

#define BACKLOG		4096
#define ACCEPT_MAX	64			 /* connections in one round of the event loop */
#define ACCEPT_PAUSE_NS (100 * INT64_C(1000000)) /* after EMFILE */
#define INHERITED_FIRST 3
#define KEEPALIVE_S	60

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un local;
};

/* ---- accepting ---- */

/* EMFILE: closes the spare descriptor, accepts one connection with it, answers 503 and closes. The
 * client does not wait for an unknown time. */
static void refuse_without_descriptors(struct server *server, struct listener *listener)
{
	static const char answer[] =
		"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
		"Retry-After: 1\r\nConnection: close\r\n\r\n"
		"{\"code\":503,\"message\":\"the daemon has no free descriptors; retry later\"}\n";
	int fd;

	if (server->spare_fd < 0)
		return;
	close(server->spare_fd);
	fd = accept4(listener->watch.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		if (!listener->tls)
			send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL);
		close(fd);
	}
	server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* At the limit, with all connections at work: answers 503, and lingers so that the client can read
 * it. With TLS the connection is closed at once: a handshake costs more than a retry. */
static void add_connection(struct listener *listener, int fd, const struct sockaddr_in6 *peer)
{
	struct server *server = listener->server;
	bool is_over = server->n_connections >= server->options.max_connections &&
		       !connection_evict(server);

	if (is_over && listener->tls)
		close(fd);
	else if (connection_new(server, listener, fd, peer) == 0 && is_over)
		answer_refusal(server->connections, 503, "too many connections; retry later");
}

static void accept_one(struct listener *listener, bool *ret_goes_on)
{
	struct server *server = listener->server;
	union address peer = {0};
	socklen_t size = sizeof peer;
	int fd = accept4(listener->watch.fd, &peer.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);

	*ret_goes_on = fd >= 0 || errno == EINTR || errno == ECONNABORTED;
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
		refuse_without_descriptors(server, listener);
		loop_arm(server->loop, &server->accept_timer,
			 clock_monotonic_ns() + ACCEPT_PAUSE_NS);
		server_update_accepting(server);
	}
	if (fd >= 0)
		add_connection(listener, fd, &peer.v6);
}

static void on_connection(struct loop_watch *watch, uint32_t events)
{
	struct listener *listener =
		(struct listener *)((char *)watch - offsetof(struct listener, watch));
	struct server *server = listener->server;
	bool goes_on = true;

	(void)events;
	server_enter(server);
	for (int i = 0; i < ACCEPT_MAX && goes_on && !server->is_paused; i++) {
		accept_one(listener, &goes_on);
		server_update_accepting(server);
	}
	server_leave(server);
}

void server_accept(struct server *server, bool accepts)
{
	server->is_paused = !accepts;
	for (size_t i = 0; i < server->n_listeners; i++) {
		struct listener *listener = server->listeners[i];

		if (accepts)
			loop_watch(server->loop, &listener->watch, EPOLLIN);
		else
			loop_unwatch(server->loop, &listener->watch);
	}
}

/* ---- addresses ---- */

static bool is_loopback(const union address *address)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	const uint8_t *bytes = address->v6.sin6_addr.s6_addr;

	switch (address->any.sa_family) {
	case AF_UNIX:
		return true;
	case AF_INET:
		return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
	case AF_INET6:
		return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr) ||
		       (memcmp(bytes, mapped, sizeof mapped) == 0 && bytes[12] == 127);
	default:
		return false;
	}
}

static int open_tcp(const char *where, struct atoll_error *err)
{
	struct http_slice text = {where, strlen(where)};
	const char *colon = strrchr(where, ':');
	bool is_any = colon && streq(colon, ":0");
	union address address = {0};
	struct http_place place;
	cleanup_fd int fd = -1;
	socklen_t size;
	int on = 1;

	/* http_place() refuses port 0; here it means any free port. */
	if (is_any)
		text.size -= 2;
	if (!colon || http_place(text, &place) < 0 || *place.name || (!place.port && !is_any))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "cannot listen at '%s': expected ADDRESS:PORT, [ADDRESS]:PORT, "
				 "unix:PATH or fd:N",
				 where);
	if (network_address_is_v4(&place.address)) {
		address.v4 =
			(struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(place.port)};
		memcpy(&address.v4.sin_addr, place.address.bytes + 12, 4);
		size = sizeof address.v4;
	} else {
		address.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
						   .sin6_port = htons(place.port)};
		memcpy(&address.v6.sin6_addr, place.address.bytes, 16);
		size = sizeof address.v6;
	}
	fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
	    bind(fd, &address.any, size) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "listen at '%s'", where);
	return take_fd(&fd);
}

/* The unix socket of a daemon that was killed: connect(2) says ECONNREFUSED. */
static bool is_left_over(const union address *address)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	return fd >= 0 && lstat(address->local.sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	       st.st_uid == geteuid() && connect(fd, &address->any, sizeof address->local) < 0 &&
	       errno == ECONNREFUSED;
}

static int open_unix(const char *path, struct atoll_error *err)
{
	union address address = {.local = {.sun_family = AF_UNIX}};
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int r;

	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "listen at '%s'", path);
	if (strlen(path) >= sizeof address.local.sun_path || !*path)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "cannot listen at '%s': the name of a socket has 1 to %zu bytes",
				 path, sizeof address.local.sun_path - 1);
	strcpy(address.local.sun_path, path);
	if (is_left_over(&address))
		unlink(path);
	/* Before bind(2) nobody can connect. bind(2) creates the name with the mode of the
	 * descriptor's inode. */
	fchmod(fd, 0600);
	r = bind(fd, &address.any, sizeof address.local);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "listen at '%s'", path);
	return take_fd(&fd);
}

static int open_inherited(const char *number, struct atoll_error *err)
{
	char *end;
	long fd = strtol(number, &end, 10);
	int listens = 0, type = 0;
	socklen_t size = sizeof listens;

	if (end == number || *end || fd < INHERITED_FIRST || fd > 65535 ||
	    getsockopt((int)fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 || !listens ||
	    getsockopt((int)fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_STREAM)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "cannot listen at 'fd:%s': no listening socket was handed over "
				 "under this number",
				 number);
	fcntl((int)fd, F_SETFD, FD_CLOEXEC);
	fcntl((int)fd, F_SETFL, fcntl((int)fd, F_GETFL) | O_NONBLOCK);
	return (int)fd;
}

unsigned server_count_inherited(void)
{
	const char *pid = getenv("LISTEN_PID"), *number = getenv("LISTEN_FDS");
	unsigned n = 0;

	if (pid && number && strtol(pid, NULL, 10) == getpid())
		n = (unsigned)strtoul(number, NULL, 10);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return n <= SERVER_LISTENERS_MAX ? n : SERVER_LISTENERS_MAX;
}

/* ---- listening ---- */

void listener_free(struct listener *listener)
{
	if (!listener)
		return;
	if (listener->watch.fd >= 0) {
		loop_unwatch(listener->server->loop, &listener->watch);
		close(listener->watch.fd);
	}
	if (listener->announced_fd >= 0)
		close(listener->announced_fd);
	if (listener->path)
		unlink(listener->path);
	free(listener->path);
	secure_context_free(listener->tls);
	free(listener);
}

static void write_address(const union address *address, const char *where, char ret[128])
{
	char text[INET6_ADDRSTRLEN] = "";

	if (address->any.sa_family == AF_INET) {
		inet_ntop(AF_INET, &address->v4.sin_addr, text, sizeof text);
		snprintf(ret, 128, "%s:%u", text, ntohs(address->v4.sin_port));
	} else if (address->any.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &address->v6.sin6_addr, text, sizeof text);
		snprintf(ret, 128, "[%s]:%u", text, ntohs(address->v6.sin6_port));
	} else {
		snprintf(ret, 128, "%s", where);
	}
}

/* Accepted sockets inherit these options. */
static void set_options(int fd)
{
	int on = 1, idle = KEEPALIVE_S;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
}

static int check_address(const struct listener *listener, const char *where, char ret_where[128],
			 struct atoll_error *err)
{
	union address address = {0};
	socklen_t size = sizeof address;

	if (getsockname(listener->watch.fd, &address.any, &size) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "listen at '%s'", where);
	if (!is_loopback(&address) && !listener->tls)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "refused to listen at '%s' without TLS: keys would travel in the "
				 "clear; give a certificate, or listen at 127.0.0.1",
				 where);
	write_address(&address, where, ret_where);
	return address.any.sa_family;
}

static int open_at(const char *where, struct listener *listener, struct atoll_error *err)
{
	if (starts_with(where, "fd:"))
		return open_inherited(where + strlen("fd:"), err);
	if (!starts_with(where, "unix:"))
		return open_tcp(where, err);
	listener->path = strdup(where + strlen("unix:"));
	return listener->path ? open_unix(listener->path, err) : error_oom(err);
}

static int open_listener(struct listener *listener, const char *where, const char *certificate,
			 const char *key, char ret_where[128], struct atoll_error *err)
{
	int r;

	if (certificate && (r = secure_context(certificate, key, &listener->tls, err)) < 0)
		return r;
	r = open_at(where, listener, err);
	if (r < 0) {
		/* The path belongs to another daemon: do not unlink it. */
		free(take_ptr(listener->path));
		return r;
	}
	listener->watch.fd = r;
	r = check_address(listener, where, ret_where, err);
	if (r < 0)
		return r;
	listener->is_unix = r == AF_UNIX;
	if (!listener->is_unix) {
		set_options(listener->watch.fd);
		listener->announced_fd = announce_listener(listener->watch.fd, err);
		if (listener->announced_fd < 0)
			return listener->announced_fd;
	}
	if (listen(listener->watch.fd, BACKLOG) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "listen at '%s'", where);
	r = loop_watch(listener->server->loop, &listener->watch, EPOLLIN);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "listen at '%s'", where) : 0;
}

int server_listen(struct server *server, const char *where, const char *certificate,
		  const char *key, char ret_where[128], struct atoll_error *err)
{
	struct listener *listener;
	int r;

	if (server->n_listeners == SERVER_LISTENERS_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "more than %d places to listen at",
				 SERVER_LISTENERS_MAX);
	listener = calloc(1, sizeof *listener);
	if (!listener)
		return error_oom(err);
	listener->server = server;
	listener->announced_fd = -1;
	listener->watch = (struct loop_watch){.fd = -1, .ready = on_connection};
	r = open_listener(listener, where, certificate, key, ret_where, err);
	if (r < 0) {
		listener_free(listener);
		return r;
	}
	server->listeners[server->n_listeners++] = listener;
	return 0;
}
