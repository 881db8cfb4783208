/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-protocol.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/state.h"
#include "layer/layer.h"
#include "sandbox/holder.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/*
 * The holder's socket: listen, connect, ask
 *
 * The holder listens on records/ID/socket. Clients connect by the record's descriptor or by a full
 * id; a client that finds no holder starts one (holder_start()) and tries again. Both sides check
 * that the peer has their own uid.
 */

/* How long a holder may need between its lock and its socket, at its start or its end. */
#define PATIENCE_NS (20 * INT64_C(1000000000))

#define BACKLOG 128

#define ID_LENGTH 8

/* Through the record's descriptor: the store's path may be longer than sun_path. */
static void make_address(const struct layer_record *record, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/socket", record->fd);
}

/* A holder has one thread and the working directory "/", so it can bind from inside the record. The
 * first access to /proc/self would make the kernel create inodes that cost time at the process's
 * end. */
static int bind_within(int fd, int dir)
{
	const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
	const mode_t before = umask(0177);
	int r = fchdir(dir), errnum;

	if (r == 0)
		r = bind(fd, (const struct sockaddr *)&address, sizeof address);
	errnum = errno;
	umask(before);
	if (chdir("/") < 0)
		return -1;
	errno = errnum;
	return r;
}

int holder_listen(const struct layer_record *record, struct atoll_error *err)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	unlinkat(record->fd, "socket",
		 0); /* left by a holder that was killed; this holder has the lock */
	if (fd < 0 || bind_within(fd, record->fd) < 0 || listen(fd, BACKLOG) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "listen for steps of sandbox '%s'",
				 record->info.id);
	return take_fd(&fd);
}

/* A foreign process that listens there would see what a step prints. */
static int check_peer(int fd, const char *id, struct atoll_error *err)
{
	struct ucred peer;
	socklen_t size = sizeof peer;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid())
		return 0;
	return error_set(err, ATOLL_FAULT_POLICY, EPERM,
			 "the socket of sandbox '%s' is somebody else's", id);
}

static int connect_to(const struct sockaddr_un *address, const char *id, bool waits,
		      struct atoll_error *err)
{
	const int how = waits ? 0 : SOCK_NONBLOCK;
	cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | how, 0);
	int r;

	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a socket");
	if (connect(fd, (const struct sockaddr *)address, sizeof *address) < 0)
		return errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR
			       ? -ENOENT
			       : error_set(err, ATOLL_FAULT_HOST, errno, "reach sandbox '%s'", id);
	/* Non-blocking only for connect(): the queue of a stopped holder can be full. */
	if (!waits && fcntl(fd, F_SETFL, O_RDWR) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "fcntl");
	r = check_peer(fd, id, err);
	return r < 0 ? r : take_fd(&fd);
}

int holder_connect(const struct layer_record *record, struct atoll_error *err)
{
	struct sockaddr_un address;

	make_address(record, &address);
	return connect_to(&address, record->info.id, true, err);
}

static bool is_whole_id(const char *id)
{
	return strlen(id) == ID_LENGTH &&
	       strspn(id, "abcdefghijklmnopqrstuvwxyz234567") == ID_LENGTH;
}

int holder_connect_id(const char *id, bool waits, struct atoll_error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	cleanup_fd int dir = -1;
	char path[PATH_MAX], place[PATH_MAX + 32];
	int r;

	if (!id || !is_whole_id(id))
		return -ENOENT;
	r = state_path(path, err);
	if (r < 0)
		return r;
	if ((size_t)snprintf(address.sun_path, sizeof address.sun_path, "%s/records/%s/socket",
			     path, id) < sizeof address.sun_path)
		return connect_to(&address, id, waits, err);
	snprintf(place, sizeof place, "%s/records/%s", path, id);
	dir = open(place, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return -ENOENT;
	snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/socket", dir);
	return connect_to(&address, id, waits, err);
}

int holder_connect_or_start(struct layer_record *record, struct atoll_error *err)
{
	const int64_t until_ns = clock_monotonic_ns() + PATIENCE_NS;
	int r = holder_connect(record, err);

	/* A holder that is just ending has the lock, and does not listen any more. */
	while (r == -ENOENT && clock_monotonic_ns() < until_ns) {
		r = holder_start(record->info.id, false, err);
		if (r < 0 && r != -EBUSY)
			return r;
		if (r == -EBUSY)
			poll(NULL, 0, 2);
		r = holder_connect(record, err);
	}
	return r == -ENOENT ? error_set(err, ATOLL_FAULT_HOST, ETIMEDOUT,
					"the holder of sandbox '%s' does not answer; `atoll rm "
					"--force` ends it",
					record->info.id)
			    : r;
}

int holder_ask(int fd, const struct holder_request *request, const int *fds, size_t n,
	       struct holder_reply *ret, struct atoll_error *err)
{
	size_t none = 0;
	ssize_t got;
	int r = fd_send(fd, request, sizeof *request, fds, n);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, r == -EPIPE ? ECONNRESET : -r,
				 "ask the sandbox's holder");
	got = fd_receive(fd, ret, sizeof *ret, 0, NULL, &none);
	if (got != sizeof *ret)
		return error_set(err, ATOLL_FAULT_HOST, got < 0 ? (int)-got : EPIPE,
				 "the sandbox's holder has ended, and everything in it");
	if (ret->code < 0) {
		ret->error.text[sizeof ret->error.text - 1] = '\0';
		*err = ret->error;
	}
	return ret->code;
}
