/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/str.h"
#include "base/uapi.h"
#include "layer/object.h"

#include <dirent.h>
#include <errno.h>
#include <linux/openat2.h>
#include <stdio.h>

#define DEPTH_MAX 400 /* a descriptor each */

/* A directory on the same mount: what is mounted in a tree is no part of it. */
static int open_dir(int dir_fd, const char *name)
{
	struct stat above, st;
	int fd = fd_openat2(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
			    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);

	if (fd == -ENOSYS) { /* before 5.6 */
		fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		fd = fd < 0 ? -errno : fd;
	}
	if (fd >= 0 && fstat(dir_fd, &above) == 0 && fstat(fd, &st) == 0 &&
	    above.st_dev != st.st_dev) {
		close(fd);
		return -EXDEV;
	}
	return fd;
}

/* Its content can be read and changed by its owner from now on. */
static int open_to_empty(int dir_fd, const char *name)
{
	int fd = open_dir(dir_fd, name);
	struct stat st;

	if (fd == -EACCES && fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode)) {
		/* Ours, in a directory of ours: nobody puts a link in its place meanwhile. */
		if (fchmodat(dir_fd, name, 0700, 0) == 0)
			fd = open_dir(dir_fd, name);
	} else if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700) {
		fchmod(fd, 0700);
	}
	return fd;
}

static int remove_tree(int dir_fd, const char *name, int depth);

static int remove_content(int fd, int depth)
{
	int own_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = own_fd < 0 ? NULL : fdopendir(own_fd);
	struct dirent *entry;
	int r = 0;

	if (!dir) {
		r = -errno;
		if (own_fd >= 0)
			close(own_fd);
		return r;
	}
	while (r == 0 && (errno = 0, entry = readdir(dir)))
		if (!streq(entry->d_name, ".") && !streq(entry->d_name, ".."))
			r = remove_tree(fd, entry->d_name, depth + 1);
	if (r == 0 && errno)
		r = -errno;
	closedir(dir);
	return r;
}

static int remove_tree(int dir_fd, const char *name, int depth)
{
	cleanup_fd int fd = -1;
	int r;

	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST && errno != EACCES)
		return -errno;
	if (depth > DEPTH_MAX)
		return -ELOOP;
	fd = open_to_empty(dir_fd, name);
	if (fd < 0)
		return fd;
	r = remove_content(fd, depth);
	if (r < 0)
		return r;
	return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

int object_remove(int dir_fd, const char *name)
{
	return remove_tree(dir_fd, name, 0);
}

static int walk(int fd, const char *above, int depth, object_seen_fn *seen, void *data);

static int walk_entry(int fd, const char *above, const char *name, int depth, object_seen_fn *seen,
		      void *data)
{
	cleanup_free char *path = NULL;
	cleanup_fd int inner_fd = -1;
	struct stat st;
	int r;

	if (asprintf(&path, "%s%s%s", above, above[0] ? "/" : "", name) < 0)
		return -ENOMEM;
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	r = seen(path, &st, data);
	if (r != 0 || !S_ISDIR(st.st_mode))
		return r;
	if (depth > DEPTH_MAX)
		return -ELOOP;
	inner_fd = open_dir(fd, name);
	if (inner_fd < 0)
		return inner_fd == -ENOENT ? 0 : inner_fd;
	return walk(inner_fd, path, depth + 1, seen, data);
}

static int walk(int fd, const char *above, int depth, object_seen_fn *seen, void *data)
{
	int own_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = own_fd < 0 ? NULL : fdopendir(own_fd);
	struct dirent *entry;
	int r = 0;

	if (!dir) {
		r = -errno;
		if (own_fd >= 0)
			close(own_fd);
		return r;
	}
	while (r == 0 && (errno = 0, entry = readdir(dir)))
		if (!streq(entry->d_name, ".") && !streq(entry->d_name, ".."))
			r = walk_entry(fd, above, entry->d_name, depth, seen, data);
	if (r == 0 && errno)
		r = -errno;
	closedir(dir);
	return r;
}

int object_walk(int fd, object_seen_fn *seen, void *data)
{
	return walk(fd, "", 0, seen, data);
}

static uint64_t mix(uint64_t sum, uint64_t value)
{
	sum ^= value + UINT64_C(0x9e3779b97f4a7c15) + (sum << 6) + (sum >> 2);
	return sum * UINT64_C(0xff51afd7ed558ccd);
}

/* Sums do not depend on the order in which names are read. */
static int add_print(const char *path, const struct stat *st, void *data)
{
	uint64_t sum = 1, *print = data;

	for (; *path; path++)
		sum = mix(sum, (unsigned char)*path);
	sum = mix(mix(sum, st->st_ino), st->st_mode);
	/* Moving one name of a file moves the ctime of all its names. */
	if (st->st_nlink > 1 && !S_ISDIR(st->st_mode))
		sum = mix(mix(sum, (uint64_t)st->st_mtim.tv_sec), (uint64_t)st->st_size);
	else
		sum = mix(mix(sum, (uint64_t)st->st_ctim.tv_sec), (uint64_t)st->st_ctim.tv_nsec);
	*print += sum;
	return 0;
}

uint64_t object_print(int fd)
{
	uint64_t print = 0;

	return object_walk(fd, add_print, &print) < 0 ? 0 : print;
}
