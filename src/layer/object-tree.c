/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/uapi.h"
#include "layer/layer-tree.h"
#include "layer/object.h"

#include <errno.h>
#include <linux/openat2.h>
#include <stdio.h>

#define PATH_BYTES_MAX ((size_t)64 << 20) /* 32 million levels take longer than anybody waits */

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

/*
 * Of any depth, with few descriptors: beneath so many levels the directory above is closed while
 * one is inside, and found again by "..", which has to be the same one.
 */
#define HELD_MAX 100

/* Before the way down to `depth`. */
static int let_go(int *fd, int depth, struct stat *ret)
{
	if (depth < HELD_MAX)
		return 0;
	if (fstat(*fd, ret) < 0)
		return -errno;
	close(take_fd(fd));
	return 0;
}

/* And back up. */
static int come_back(int inner_fd, int *fd, const struct stat *was)
{
	struct stat st;

	if (*fd >= 0)
		return 0;
	*fd = openat(inner_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*fd < 0 || fstat(*fd, &st) < 0)
		return -errno;
	/* Somebody has moved what we were in. */
	return st.st_ino == was->st_ino && st.st_dev == was->st_dev ? 0 : -ESTALE;
}

static int remove_content(int *fd, int depth);

/* On failure *fd may be closed, and -1. */
static int remove_tree(int *fd, const char *name, int depth)
{
	cleanup_fd int inner_fd = -1;
	struct stat was;
	int r;

	if (unlinkat(*fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (unlinkat(*fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST && errno != EACCES)
		return -errno;
	inner_fd = open_to_empty(*fd, name);
	if (inner_fd < 0)
		return inner_fd;
	r = let_go(fd, depth, &was);
	if (r == 0)
		r = remove_content(&inner_fd, depth + 1);
	if (r == 0)
		r = come_back(inner_fd, fd, &was);
	if (r < 0)
		return r;
	return unlinkat(*fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

static int remove_content(int *fd, int depth)
{
	cleanup_with(tree_names_done) struct tree_names names = {0};
	int r = tree_list(*fd, &names);
	const char *at = names.text;

	for (size_t i = 0; r == 0 && i < names.n; i++, at += strlen(at) + 1)
		r = remove_tree(fd, at, depth);
	return r;
}

int object_remove(int dir_fd, const char *name)
{
	/* Never let go: it is the caller's. */
	return remove_tree(&dir_fd, name, 0);
}

struct walker {
	object_seen_fn *seen;
	void *data;
	struct buf path;
};

static int walk(struct walker *walker, int *fd, int depth);

/* At walker->path. */
static int walk_entry(struct walker *walker, int *fd, const char *name, int depth)
{
	cleanup_fd int inner_fd = -1;
	struct stat st, was;
	int r;

	if (fstatat(*fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	r = walker->seen(walker->path.data, &st, walker->data);
	if (r != 0 || !S_ISDIR(st.st_mode))
		return r;
	inner_fd = open_dir(*fd, name);
	if (inner_fd < 0)
		return inner_fd == -ENOENT ? 0 : inner_fd;
	r = let_go(fd, depth, &was);
	if (r == 0)
		r = walk(walker, &inner_fd, depth + 1);
	return r != 0 ? r : come_back(inner_fd, fd, &was);
}

static int walk(struct walker *walker, int *fd, int depth)
{
	cleanup_with(tree_names_done) struct tree_names names = {0};
	const size_t above = walker->path.used;
	int r = tree_list(*fd, &names);
	const char *at = names.text;

	for (size_t i = 0; r == 0 && i < names.n; i++, at += strlen(at) + 1) {
		if (above)
			buf_add_char(&walker->path, '/');
		buf_add(&walker->path, at, strlen(at));
		r = buf_error(&walker->path);
		if (r == 0)
			r = walk_entry(walker, fd, at, depth);
		walker->path.used = above;
	}
	return r;
}

int object_walk(int fd, object_seen_fn *seen, void *data)
{
	struct walker walker = {seen, data, BUF_INIT(PATH_BYTES_MAX)};
	cleanup_fd int own_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = own_fd < 0 ? -errno : walk(&walker, &own_fd, 0);

	buf_done(&walker.path);
	return r;
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
