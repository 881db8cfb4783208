/* SPDX-License-Identifier: Apache-2.0 */
#include "base/announce.h"
#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The same port may be listened at on several addresses, by several processes. */
#define SLOTS 8

/* "\0atoll-listener-8080-0" */
static socklen_t name_of(uint16_t port, int slot, struct sockaddr_un *ret)
{
	int n;

	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "atoll-listener-%u-%d", port,
		     slot);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int announce_open(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : fd;
}

static int port_of(int socket_fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_storage room;
	} address = {0};
	socklen_t size = sizeof address;

	if (getsockname(socket_fd, &address.any, &size) < 0)
		return -errno;
	if (address.any.sa_family == AF_INET)
		return ntohs(address.v4.sin_port);
	return address.any.sa_family == AF_INET6 ? ntohs(address.v6.sin6_port) : -EAFNOSUPPORT;
}

int announce_listener(int socket_fd, struct atoll_error *err)
{
	cleanup_fd int fd = announce_open();
	int port = port_of(socket_fd), r = fd < 0 ? fd : port < 0 ? port : -EADDRINUSE;

	for (int slot = 0; r == -EADDRINUSE && slot < SLOTS; slot++) {
		struct sockaddr_un name;
		socklen_t size = name_of((uint16_t)port, slot, &name);

		r = bind(fd, (const struct sockaddr *)&name, size) < 0 ? -errno : 0;
	}
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r,
				 "announce port %d, so that no sandbox reaches it", port);
	/* The socket is never read. */
	shutdown(fd, SHUT_RD);
	return take_fd(&fd);
}

bool announce_has(int fd, uint16_t port)
{
	for (int slot = 0; slot < SLOTS; slot++) {
		struct sockaddr_un name;
		socklen_t size = name_of(port, slot, &name);

		/* ECONNREFUSED: no socket has this name. Landlock answers EPERM where one has. */
		if (connect(fd, (const struct sockaddr *)&name, size) == 0 || errno != ECONNREFUSED)
			return true;
	}
	return false;
}
