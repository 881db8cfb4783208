/* SPDX-License-Identifier: Apache-2.0 */
#include "base/announce.h"
#include "base/fd.h"
#include "base/test.h"

#include <arpa/inet.h>
#include <atoll/error.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

static int bound(uint16_t *ret_port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
	*ret_port = ntohs(address.sin_port);
	return fd;
}

TEST(a_port_is_announced_for_as_long_as_its_descriptor_is_open)
{
	uint16_t port;
	cleanup_fd int fd = bound(&port), asker = announce_open();
	struct atoll_error err = {0};
	int first, second;

	CHECK(asker >= 0 && !announce_has(asker, port));
	first = announce_listener(fd, &err);
	second = announce_listener(fd, &err);
	CHECK(first >= 0 && second >= 0 && announce_has(asker, port));
	close(first);
	CHECK(announce_has(asker, port));
	close(second);
	CHECK(!announce_has(asker, port));
}

TEST(who_cannot_ask_takes_every_port_for_announced)
{
	CHECK(announce_has(-1, 1));
}

TEST(a_socket_without_a_port_cannot_be_announced)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct atoll_error err = {0};

	CHECK_INT(announce_listener(fd, &err), -EAFNOSUPPORT);
}
