/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate/ns/cell.h"

#include "base/fd.h"
#include "base/test.h"
#include "egress/egress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* In namespaces of this program's own; all of its tests share them. */

static int fds[2] = {-1, -1};
static bool has_v6;

static void write_line(const char *path, unsigned id)
{
	char line[32];

	snprintf(line, sizeof line, "%u %u 1", id, id);
	CHECK_INT(fd_write_text(path, line), 0);
}

static void enter(void)
{
	unsigned uid = geteuid(), gid = getegid();
	struct atoll_error err = {0};

	if (fds[0] >= 0)
		return;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		test_skip("user namespaces");
	fd_write_text("/proc/self/setgroups", "deny");
	write_line("/proc/self/uid_map", uid);
	write_line("/proc/self/gid_map", gid);
	if (net_make(fds, &has_v6, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
}

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static union address address_of(const char *text, uint16_t port)
{
	union address address = {0};

	if (strchr(text, ':')) {
		address.v6.sin6_family = AF_INET6;
		address.v6.sin6_port = htons(port);
		CHECK_INT(inet_pton(AF_INET6, text, &address.v6.sin6_addr), 1);
	} else {
		address.v4.sin_family = AF_INET;
		address.v4.sin_port = htons(port);
		CHECK_INT(inet_pton(AF_INET, text, &address.v4.sin_addr), 1);
	}
	return address;
}

/* A socket connected, or a negative errno. */
static int dial(int type, const char *text, uint16_t port)
{
	union address address = address_of(text, port);
	cleanup_fd int fd = socket(address.any.sa_family, type | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	return connect(fd, &address.any, sizeof address) < 0 ? -errno : take_fd(&fd);
}

/* As the other side sees it: "1.2.3.4:443". */
static void arrive(char *ret, size_t size)
{
	cleanup_fd int fd = accept4(fds[0], NULL, NULL, SOCK_CLOEXEC);
	union address address;
	socklen_t length = sizeof address;
	char text[64];

	CHECK(fd >= 0);
	CHECK_INT(getsockname(fd, &address.any, &length), 0);
	CHECK_INT(address.any.sa_family, AF_INET6);
	inet_ntop(AF_INET6, &address.v6.sin6_addr, text, sizeof text);
	snprintf(ret, size, "%s:%u", text, ntohs(address.v6.sin6_port));
}

static void check_arrives(const char *text, uint16_t port, const char *seen)
{
	cleanup_fd int fd = dial(SOCK_STREAM, text, port);
	char got[80];

	CHECK(fd >= 0);
	arrive(got, sizeof got);
	CHECK_STR(got, seen);
}

static void check_nothing_arrives(void)
{
	CHECK_INT(accept4(fds[0], NULL, NULL, SOCK_CLOEXEC), -1);
	CHECK_INT(errno, EAGAIN);
}

TEST(a_connection_to_any_address_arrives_and_tells_where_it_was_going)
{
	enter();
	if (!has_v6)
		test_skip("IPv6");
	check_arrives("192.0.2.1", 443, "::ffff:192.0.2.1:443");
	check_arrives("10.1.2.3", 22, "::ffff:10.1.2.3:22");
	check_arrives("169.254.169.254", 80, "::ffff:169.254.169.254:80");
	check_arrives("198.18.7.7", 65535, "::ffff:198.18.7.7:65535");
	check_arrives("2001:db8::7", 443, "2001:db8::7:443");
	check_arrives("64:ff9b:1:a701::c612:707", 1, "64:ff9b:1:a701::c612:707:1");
	check_arrives("::ffff:192.0.2.9", 443, "::ffff:192.0.2.9:443");
	check_nothing_arrives();
}

TEST(the_loopback_is_the_sandbox_s_own)
{
	static const char *const own[] = {"127.0.0.1", "127.200.1.1", "::1"};

	enter();
	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		union address address = address_of(own[i], 8080);
		cleanup_fd int server =
			socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		cleanup_fd int client = -1, got = -1;

		CHECK_INT(dial(SOCK_STREAM, own[i], 8080), -ECONNREFUSED);
		CHECK_INT(bind(server, &address.any, sizeof address), 0);
		CHECK_INT(listen(server, 1), 0);
		client = dial(SOCK_STREAM, own[i], 8080);
		got = accept(server, NULL, NULL);
		CHECK(client >= 0 && got >= 0);
	}
	check_nothing_arrives();
	/* The proxy is there. */
	check_arrives("127.0.0.1", EGRESS_PORT, "::ffff:127.0.0.1:1023");
	check_arrives("::1", EGRESS_PORT, "::1:1023");
}

TEST(nobody_else_can_be_at_an_address_of_the_outside)
{
	union address address = address_of("192.0.2.1", 8443);
	cleanup_fd int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	enter();
	CHECK_INT(bind(server, &address.any, sizeof address), 0);
	CHECK_INT(listen(server, 1), 0);
	check_arrives("192.0.2.1", 8443, "::ffff:192.0.2.1:8443");
}

TEST(queries_over_tcp_arrive_whoever_they_are_meant_for)
{
	enter();
	check_arrives("127.0.0.53", 53, "::ffff:127.0.0.53:53");
	check_arrives("8.8.8.8", 53, "::ffff:8.8.8.8:53");
	check_arrives("::1", 53, "::1:53");
}

/* The answer to one query must come from the address that it was sent to. */
static void answer_query(void)
{
	char data[64], control[256];
	union address from;
	struct iovec io = {.iov_base = data, .iov_len = sizeof data};
	struct msghdr message = {.msg_name = &from,
				 .msg_namelen = sizeof from,
				 .msg_iov = &io,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof control};
	ssize_t got = recvmsg(fds[1], &message, 0);
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);

	CHECK(got > 0);
	CHECK(cmsg && cmsg->cmsg_level == SOL_IPV6 && cmsg->cmsg_type == IPV6_PKTINFO);
	io.iov_len = (size_t)got;
	CHECK_INT(sendmsg(fds[1], &message, 0), got);
}

TEST(queries_arrive_and_are_answered_from_any_address)
{
	static const char *const resolvers[] = {"8.8.8.8", "127.0.0.53", "10.0.0.1", "2001:db8::53",
						"::1"};

	enter();
	if (!has_v6)
		test_skip("IPv6");
	for (size_t i = 0; i < ARRAY_SIZE(resolvers); i++) {
		cleanup_fd int client = dial(SOCK_DGRAM, resolvers[i], 53);
		char data[16];

		CHECK(client >= 0);
		CHECK_INT(send(client, "query", 5, 0), 5);
		answer_query();
		/* It is connected: from elsewhere nothing would get through. */
		CHECK_INT(recv(client, data, sizeof data, MSG_DONTWAIT), 5);
	}
}

TEST(other_datagrams_reach_nobody)
{
	static const char *const servers[] = {"192.0.2.1", "2001:db8::1", "127.0.0.1"};

	enter();
	for (size_t i = 0; i < ARRAY_SIZE(servers); i++) {
		cleanup_fd int client = dial(SOCK_DGRAM, servers[i], 443);

		CHECK(client >= 0);
		CHECK_INT(send(client, "quic", 4, 0), 4);
		CHECK_INT(send(client, "quic", 4, 0), -1);
		CHECK_INT(errno, ECONNREFUSED);
	}
}

/* With all capabilities of the namespace, which the command does not have. */
TEST(the_sockets_cannot_be_shared)
{
	static const struct {
		int type;
		uint16_t port;
		const char *address;
	} sockets[] = {
		{SOCK_STREAM, EGRESS_PORT, "::"},
		{SOCK_STREAM, EGRESS_PORT, "0.0.0.0"},
		{SOCK_STREAM, EGRESS_PORT, "127.0.0.1"},
		{SOCK_DGRAM, 53, "::"},
		{SOCK_DGRAM, 53, "0.0.0.0"},
		{SOCK_DGRAM, 53, "8.8.8.8"},
	};

	enter();
	for (size_t i = 0; i < ARRAY_SIZE(sockets); i++) {
		union address address = address_of(sockets[i].address, sockets[i].port);
		cleanup_fd int fd =
			socket(address.any.sa_family, sockets[i].type | SOCK_CLOEXEC, 0);
		const int on = 1;

		CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on), 0);
		CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
		CHECK_INT(bind(fd, &address.any, sizeof address), -1);
		CHECK_INT(errno, EADDRINUSE);
	}
}

TEST(names_are_looked_up_for_programs_that_want_what_is_configured)
{
	const struct addrinfo hints = {
		.ai_family = AF_INET, .ai_flags = AI_ADDRCONFIG, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;

	enter();
	CHECK_INT(getaddrinfo("192.0.2.1", "80", &hints, &found), 0);
	freeaddrinfo(found);
}
