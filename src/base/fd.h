/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scope.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;

/* All of it or a negative errno; interrupted and short calls are repeated. */
int fd_write_all(int fd, const void *data, size_t size);

/* Exactly `size` bytes; -EPIPE if the other side ended early. */
int fd_read_exact(int fd, void *data, size_t size);

/* Until the end, into `buf`; -E2BIG past its limit. */
int fd_read_all(int fd, struct buf *buf);

/* openat2(2): `resolve` are RESOLVE_ flags. Returns a descriptor, O_CLOEXEC, or a negative errno.
 * On a kernel without the call (before 5.6) -ENOSYS. */
int fd_openat2(int dir_fd, const char *path, int flags, mode_t mode, uint64_t resolve);

/* Is no part of the path a symbolic link, as far as the path exists? One system call; realpath(3)
 * makes one for each part. False also if the kernel has no openat2(). */
bool fd_path_has_no_links(const char *path);

/* Write the path that the kernel reaches from `path`, which is plain and absolute: as realpath(3),
 * but names that do not exist are kept behind the deepest directory that exists. */
void fd_real_path(const char *path, char ret[PATH_MAX]);

/* Not 0, 1 or 2: `fd`, or another in its place, which it takes. Or a negative errno; then both are
 * closed. */
int fd_above_stdio(int fd);

/* close_range(2), or only marked to close at exec. Before 5.9 (5.11), and where a container's
 * profile refuses it, by way of /proc/self/fd. Does not allocate. */
int fd_close_range(unsigned first, unsigned last, bool at_exec);

/* Closes every descriptor from 3 on that is not among the `n` of `keep`; entries below 3 and
 * repeated ones mean nothing. Does not allocate. */
int fd_close_others(const int *keep, size_t n);

/* Puts a counter of the kernel's (eventfd) in the place of 0, 1 and 2: reading there answers
 * EAGAIN, text cannot be written, and no file's name leads there or away from there. */
int fd_blank_stdio(void);

/* How many descriptors one message of ours may carry, and one of anybody's (the kernel's limit). */
#define FD_PASS_MAX    128
#define FD_RECEIVE_MAX 253

/* One message with `n` descriptors, which stay ours as well. 0 or a negative errno. */
int fd_send(int socket_fd, const void *data, size_t size, const int *fds, size_t n);

/* One message with at most `*n` descriptors (`flags` as for recvmsg), which are O_CLOEXEC and of
 * which
 * `*n` came. Returns its size, 0 at the end, or a negative errno; repeated when interrupted. */
ssize_t fd_receive(int socket_fd, void *data, size_t size, int flags, int *ret_fds, size_t *n);

/* Closes a descriptor that came from a stranger, who may have a duplicate: of a socket on which he
 * has set SO_LINGER close(2) would wait until somebody has taken what was written to it, however
 * long he said, and whether it is nonblocking or not. Nothing for -1. */
void fd_close_strange(int fd);

/* Replace what a plain file of ours holds by `text`, or make it (0600). Not through a symlink in
 * the last place. A failed write may leave a part. */
int fd_write_text(const char *path, const char *text);
