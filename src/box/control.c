/* SPDX-License-Identifier: Apache-2.0 */
#include "box/control.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/daemon-state.h"
#include "box/tenant.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#define WAIT_S 10
#define TRIES  5 /* to send a word; a client that is slow to send it is disconnected */

/* By way of a descriptor, because a path in a socket's address may only be short. */
static int address_of(const char *dir, struct sockaddr_un *ret, int *ret_fd)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	*ret_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*ret_fd < 0)
		return -errno;
	snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/control", *ret_fd);
	return 0;
}

/* Receive one message. recv() with a time limit fails with EINTR also without a signal handler, if
 * the process was stopped and continued meanwhile (signal(7)): receive again. Returns the length,
 * or -1 with errno. */
static ssize_t receive_text(int fd, char *text, size_t size)
{
	ssize_t n;

	do
		n = recv(fd, text, size - 1, 0);
	while (n < 0 && errno == EINTR);
	text[n > 0 ? n : 0] = '\0';
	return n;
}

/* The client sends its word right after connect(), so the daemon's event loop waits for it only a
 * moment. */
static void serve(struct daemon *daemon, int fd)
{
	const struct timeval patience = {.tv_usec = 200000};
	struct atoll_error err = {0};
	char word[32];

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	if (receive_text(fd, word, sizeof word) < 0)
		return; /* the client sees the closed connection, and connects again */
	if (streq(word, "reload"))
		tenants_reload(daemon, &err);
	else
		error_set(&err, ATOLL_FAULT_REQUEST, EINVAL, "an unknown word");
	send(fd, err.fault ? err.text : "ok", strlen(err.fault ? err.text : "ok"),
	     MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void somebody_came(struct loop_watch *watch, uint32_t events)
{
	struct daemon *daemon = (struct daemon *)((char *)watch - offsetof(struct daemon, control));
	cleanup_fd int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC);

	(void)events;
	if (fd >= 0)
		serve(daemon, fd);
}

int control_open(struct daemon *daemon, struct atoll_error *err)
{
	cleanup_fd int fd = -1, dir_fd = -1;
	struct sockaddr_un address;
	int r = address_of(daemon->dir, &address, &dir_fd);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "open '%s'", daemon->dir);
	unlinkat(dir_fd, "control", 0);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
	    listen(fd, 16) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "listen at '%s/control'",
				 daemon->dir);
	daemon->control = (struct loop_watch){.fd = fd, .ready = somebody_came};
	r = loop_watch(daemon->loop, &daemon->control, EPOLLIN);
	if (r < 0) {
		daemon->control.fd = -1;
		return error_set(err, ATOLL_FAULT_HOST, -r, "watch '%s/control'", daemon->dir);
	}
	take_fd(&fd);
	return 0;
}

void control_close(struct daemon *daemon)
{
	char path[PATH_MAX];

	if (daemon->control.fd < 0)
		return;
	snprintf(path, sizeof path, "%.*s/control", PATH_MAX - 16, daemon->dir);
	unlink(path);
	loop_unwatch(daemon->loop, &daemon->control);
	close(daemon->control.fd);
	daemon->control.fd = -1;
}

/* Connect, send "reload" and read the answer. Returns -ENOENT if no daemon listens, -ECONNRESET if
 * the daemon closed the connection without reading the word. */
static int request_reload(const struct sockaddr_un *address, struct atoll_error *err)
{
	const struct timeval patience = {.tv_sec = WAIT_S};
	cleanup_fd int fd = -1;
	char answer[512];
	ssize_t n;

	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address) < 0)
		return -ENOENT;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	if (send(fd, "reload", 6, MSG_NOSIGNAL) < 0)
		return -ECONNRESET;
	n = receive_text(fd, answer, sizeof answer);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return -ECONNRESET;
	if (streq(answer, "ok"))
		return 0;
	return error_set(err, ATOLL_FAULT_HOST, n < 0 ? errno : 0,
			 "the daemon has not read the change yet: %s", answer);
}

int control_reload(const char *dir, struct atoll_error *err)
{
	cleanup_fd int dir_fd = -1;
	struct sockaddr_un address;
	int r = -ECONNRESET;

	if (address_of(dir, &address, &dir_fd) < 0)
		return -ENOENT;
	for (int tries = 0; tries < TRIES && r == -ECONNRESET; tries++)
		r = request_reload(&address, err);
	if (r == -ECONNRESET)
		return error_set(err, ATOLL_FAULT_HOST, ECONNRESET,
				 "the daemon has not read the change yet");
	return r;
}
