/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include "base/buf.h"
#include "base/uapi.h"

#include <errno.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>

int fd_write_all(int fd, const void *data, size_t size)
{
	const char *p = data;

	while (size > 0) {
		ssize_t done = write(fd, p, size);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		p += done;
		size -= (size_t)done;
	}
	return 0;
}

int fd_read_exact(int fd, void *data, size_t size)
{
	char *p = data;

	while (size > 0) {
		ssize_t got = read(fd, p, size);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return -EPIPE;
		p += got;
		size -= (size_t)got;
	}
	return 0;
}

int fd_read_all(int fd, struct buf *buf)
{
	char chunk[16384];

	for (;;) {
		ssize_t got = read(fd, chunk, sizeof chunk);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return buf_error(buf);
		buf_add(buf, chunk, (size_t)got);
		if (buf_error(buf) < 0)
			return buf_error(buf);
	}
}

int fd_openat2(int dir_fd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	/* O_TMPFILE holds the bit of O_DIRECTORY; a mode beside that one alone is refused. */
	bool makes_file = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.mode = makes_file ? mode : 0,
		.resolve = resolve,
	};
	int tries = 0;
	long fd;

	/* A rename elsewhere makes a confined walk start over; the kernel leaves the loop to us,
	 * and somebody may rename for ever. With RESOLVE_CACHED the same errno is the answer. */
	do
		fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof how);
	while (fd < 0 && errno == EAGAIN && !(flags & O_NONBLOCK) && !(resolve & RESOLVE_CACHED) &&
	       ++tries < 128);
	return fd < 0 ? -errno : (int)fd;
}

bool fd_path_has_no_links(const char *path)
{
	cleanup_fd int fd = fd_openat2(AT_FDCWD, path, O_PATH, 0, RESOLVE_NO_SYMLINKS);

	return fd >= 0 || fd == -ENOENT || fd == -ENOTDIR;
}

void fd_real_path(const char *path, char ret[PATH_MAX])
{
	char above[PATH_MAX], real[PATH_MAX];
	const char *rest;
	char *slash;

	snprintf(ret, PATH_MAX, "%s", path);
	if (fd_path_has_no_links(path))
		return;
	snprintf(above, sizeof above, "%s", path);
	while (!realpath(above, real)) {
		slash = strrchr(above, '/');
		if (!slash || slash == above)
			return;
		*slash = '\0';
	}
	rest = path + strlen(above);
	/* A result that is too long has no name for the kernel either. */
	if (snprintf(ret, PATH_MAX, "%s%s", real[1] || !rest[0] ? real : "", rest) >= PATH_MAX)
		snprintf(ret, PATH_MAX, "%s", path);
}

int fd_above_stdio(int fd)
{
	int above;

	if (fd > STDERR_FILENO)
		return fd;
	above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (above < 0)
		above = -errno;
	close(fd);
	return above;
}

int fd_write_text(const char *path, const char *text)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	return fd_write_all(fd, text, strlen(text));
}

/* Numbers, not entries, are the positions in this directory: closing does not upset the walk. */
static int close_listed(int dir_fd, unsigned first, unsigned last, bool at_exec)
{
	_Alignas(uint64_t) char room[2048];
	long got;

	while ((got = syscall(SYS_getdents64, dir_fd, room, sizeof room)) > 0) {
		for (long at = 0; at < got;) {
			/* struct linux_dirent64: inode, offset, u16 length, u8 type, name */
			const char *name = room + at + 19;
			unsigned fd = (unsigned)atoi(name);
			uint16_t length;

			memcpy(&length, room + at + 16, sizeof length);
			at += length;
			if (name[0] == '.' || fd < first || fd > last || (int)fd == dir_fd)
				continue;
			if (!at_exec)
				close((int)fd);
			else if (fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
				return -errno;
		}
	}
	return got < 0 ? -errno : 0;
}

int fd_close_range(unsigned first, unsigned last, bool at_exec)
{
	cleanup_fd int dir = -1;

	if (close_range(first, last, at_exec ? CLOSE_RANGE_CLOEXEC : 0) == 0)
		return 0;
	dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? -errno : close_listed(dir, first, last, at_exec);
}

int fd_close_others(const int *keep, size_t n)
{
	for (int fd = STDERR_FILENO + 1;;) {
		int next = INT_MAX, r = 0;

		for (size_t i = 0; i < n; i++)
			next = keep[i] >= fd && keep[i] < next ? keep[i] : next;
		if (next > fd)
			r = fd_close_range((unsigned)fd,
					   next == INT_MAX ? UINT_MAX : (unsigned)next - 1, false);
		if (r < 0 || next == INT_MAX)
			return r;
		fd = next + 1;
	}
}

int fd_blank_stdio(void)
{
	int made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (made < 0)
		return -errno;
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		if (fd != made && dup3(made, fd, O_CLOEXEC) < 0)
			return -errno;
	}
	/* The caller may have had one of the three closed: then it lies there. */
	if (made > STDERR_FILENO)
		close(made);
	return 0;
}

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(FD_RECEIVE_MAX * sizeof(int))];
};

int fd_send(int socket_fd, const void *data, size_t size, const int *fds, size_t n)
{
	struct iovec io = {.iov_base = (void *)data, .iov_len = size};
	union control control;
	struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1};

	if (n) {
		memset(&control, 0, CMSG_SPACE(n * sizeof(int)));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, n * sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(n * sizeof(int));
	}
	return sendmsg(socket_fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

ssize_t fd_receive(int socket_fd, void *data, size_t size, int flags, int *ret_fds, size_t *n)
{
	struct iovec io = {.iov_base = data, .iov_len = size};
	union control control;
	struct msghdr message = {
		.msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = &control,
		/* Not CMSG_SPACE(): the kernel would put one more into the padding. */
		.msg_controllen = CMSG_LEN(*n * sizeof(int)),
	};
	struct cmsghdr *cmsg;
	ssize_t got;

	do
		got = recvmsg(socket_fd, &message, flags | MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	cmsg = CMSG_FIRSTHDR(&message);
	*n = 0;
	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS) {
		*n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(ret_fds, CMSG_DATA(cmsg), *n * sizeof(int));
	}
	return got;
}

void fd_close_strange(int fd)
{
	const struct linger none = {0};

	if (fd < 0)
		return;
	/* What is no socket has no such thing. */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	close(fd);
}
