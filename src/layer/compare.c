/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/uapi.h"
#include "layer/layer-tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PIECE_SIZE ((size_t)256 << 10)

static ssize_t read_at(int fd, char *data, size_t size, off_t at)
{
	size_t used = 0;

	while (used < size) {
		ssize_t got = pread(fd, data + used, size - used, at + (off_t)used);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		used += (size_t)got;
	}
	return (ssize_t)used;
}

/* Where the next data is at or behind `at`; the file's end if only a hole follows. A file system
 * that knows no holes says `at`. */
static off_t next_data(int fd, off_t at, off_t end)
{
	off_t data = lseek(fd, at, SEEK_DATA);

	if (data >= 0)
		return data < end ? data : end;
	return errno == ENXIO ? end : at;
}

bool tree_same_content(int a_fd, int b_fd, uint64_t size)
{
	cleanup_free char *pieces = malloc(2 * PIECE_SIZE);
	off_t end = (off_t)size, at = 0;

	if (!pieces)
		return false;
	for (;;) {
		off_t a = next_data(a_fd, at, end), b = next_data(b_fd, at, end);
		size_t want;
		ssize_t a_got, b_got;

		at = a < b ? a : b;
		if (at >= end)
			return true;
		want = (uint64_t)(end - at) < PIECE_SIZE ? (size_t)(end - at) : PIECE_SIZE;
		a_got = read_at(a_fd, pieces, want, at);
		b_got = read_at(b_fd, pieces + PIECE_SIZE, want, at);
		if (a_got != (ssize_t)want || b_got != (ssize_t)want ||
		    memcmp(pieces, pieces + PIECE_SIZE, want) != 0)
			return false;
		at += (off_t)want;
	}
}

ssize_t tree_get_xattr(int fd, const char *name, void *ret, size_t size)
{
	ssize_t got = fgetxattr(fd, name, ret, size);
	struct stat st;
	int problem;

	if (got >= 0 || errno != EACCES)
		return got < 0 ? -errno : got;
	/* The mode counts, not the descriptor. The overlay itself is not bound by it. */
	if (fstat(fd, &st) < 0 || fchmod(fd, (st.st_mode | S_IRUSR) & 07777) < 0)
		return -EACCES;
	got = fgetxattr(fd, name, ret, size);
	problem = errno;
	return fchmod(fd, st.st_mode & 07777) < 0 ? -errno : got < 0 ? -problem : got;
}

bool tree_lacks_xattr(int dir_fd, const char *file, const char *name)
{
	struct { /* struct xattr_args, of Linux 6.13 */
		uint64_t value;
		uint32_t size, flags;
	} args = {0};

	return syscall(SYS_getxattrat, dir_fd, file, AT_SYMLINK_NOFOLLOW, name, &args,
		       sizeof args) < 0 &&
	       errno == ENODATA;
}

bool tree_is_own_xattr(const char *name)
{
	/* What a command calls user.overlay.x the overlay keeps as user.overlay.overlay.x. */
	if (starts_with(name, "user.overlay."))
		return starts_with(name, "user.overlay.overlay.");
	return starts_with(name, "user.") || starts_with(name, "system.posix_acl_");
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

#define XATTRS_MAX 65536 /* bytes of all names, as the kernel has it; of one value likewise */

/* The names that count, in order, and how many; they point into `text`. -1: that cannot be told. */
static ssize_t own_xattrs(int fd, char text[XATTRS_MAX], char ***ret)
{
	ssize_t size = flistxattr(fd, text, XATTRS_MAX);
	size_t n = 0;
	char **names;

	if (size < 0)
		return errno == EOPNOTSUPP ? 0 : -1;
	for (char *name = text; name < text + size; name += strlen(name) + 1)
		n += tree_is_own_xattr(name);
	if (n == 0)
		return 0;
	names = calloc(n, sizeof *names);
	if (!names)
		return -1;
	n = 0;
	for (char *name = text; name < text + size; name += strlen(name) + 1)
		if (tree_is_own_xattr(name))
			names[n++] = name;
	qsort(names, n, sizeof *names, compare_names);
	*ret = names;
	return (ssize_t)n;
}

static bool is_same_value(int a_fd, int b_fd, const char *name, char *values)
{
	ssize_t a = fgetxattr(a_fd, name, values, XATTRS_MAX);
	ssize_t b = fgetxattr(b_fd, name, values + XATTRS_MAX, XATTRS_MAX);

	return a >= 0 && a == b && memcmp(values, values + XATTRS_MAX, (size_t)a) == 0;
}

bool tree_same_xattrs(int a_fd, int b_fd)
{
	cleanup_free char *memory = NULL;
	cleanup_free char **a_names = NULL, **b_names = NULL;
	ssize_t a, b;

	/* Mostly there is none at all. */
	if (flistxattr(a_fd, NULL, 0) == 0 && flistxattr(b_fd, NULL, 0) == 0)
		return true;
	memory = malloc(4 * (size_t)XATTRS_MAX);
	if (!memory)
		return false;
	a = own_xattrs(a_fd, memory, &a_names);
	b = own_xattrs(b_fd, memory + XATTRS_MAX, &b_names);
	if (a != b || a < 0)
		return false;
	for (ssize_t i = 0; i < a; i++)
		if (!streq(a_names[i], b_names[i]) ||
		    !is_same_value(a_fd, b_fd, a_names[i], memory + 2 * (size_t)XATTRS_MAX))
			return false;
	return true;
}

int tree_read_file(int fd, size_t limit, struct buf *out)
{
	char chunk[16384];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((uint64_t)st.st_size > limit)
		return -EFBIG;
	for (off_t at = 0;;) {
		ssize_t got = read_at(fd, chunk, sizeof chunk, at);

		if (got <= 0)
			return got < 0 ? (int)got : buf_error(out);
		at += got;
		if ((uint64_t)at > limit)
			return -EFBIG;
		buf_add(out, chunk, (size_t)got);
	}
}
