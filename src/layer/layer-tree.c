/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/layer-tree.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/uapi.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>

#define RESOLVE_IN_TREE                                                                            \
	(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)

/* fchmod() takes no O_PATH descriptor, and fchmodat2() is young (6.6). */
static int change_mode(int fd, mode_t mode)
{
	char path[32];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return chmod(path, mode & 07777) < 0 ? -errno : 0;
}

/* Open again what an O_PATH descriptor stands for, though its mode does not let its owner. */
static int reopen(int path_fd, int flags)
{
	char path[32];
	struct stat st;
	int fd, problem;

	if (fstat(path_fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return -EACCES;
	if (change_mode(path_fd, st.st_mode | S_IRUSR) < 0)
		return -EACCES;
	snprintf(path, sizeof path, "/proc/self/fd/%d", path_fd);
	fd = open(path, (flags & ~O_NOFOLLOW) | O_CLOEXEC);
	problem = errno;
	change_mode(path_fd, st.st_mode);
	return fd < 0 ? -problem : fd;
}

/* The same as openat() in a directory, and of an object, that shut their owner out. */
static int open_shut(int dir_fd, const char *name, int flags)
{
	struct stat dir;
	bool is_shut;
	int fd, object;

	if (fstat(dir_fd, &dir) < 0)
		return -errno;
	is_shut = !(dir.st_mode & S_IXUSR);
	if (is_shut && change_mode(dir_fd, dir.st_mode | S_IRWXU) < 0)
		return -EACCES;
	object = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	fd = object < 0 ? -errno : object;
	if (is_shut)
		change_mode(dir_fd, dir.st_mode);
	if (object < 0 || flags & O_PATH)
		return fd;
	fd = reopen(object, flags);
	close(object);
	return fd;
}

int tree_open_at(int dir_fd, const char *name, int flags, bool is_ours)
{
	int fd = openat(dir_fd, name, flags | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	return errno == EACCES && is_ours ? open_shut(dir_fd, name, flags) : -errno;
}

int tree_stat_at(int dir_fd, const char *name, bool is_ours, struct stat *ret)
{
	int fd;

	if (fstatat(dir_fd, name, ret, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (errno != EACCES || !is_ours)
		return -errno;
	fd = open_shut(dir_fd, name, O_PATH);
	if (fd < 0)
		return fd;
	fstat(fd, ret);
	close(fd);
	return 0;
}

int tree_open_object(int dir_fd, const char *name, bool is_ours)
{
	cleanup_fd int fd = -1;
	struct stat st;
	int r = tree_stat_at(dir_fd, name, is_ours, &st);

	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return tree_open_at(dir_fd, name, O_PATH, is_ours);
	fd = tree_open_at(dir_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, is_ours);
	if (fd < 0)
		return fd;
	/* It may have been replaced in between. */
	if (fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
		return -ESTALE;
	return take_fd(&fd);
}

/* Component by component: before 5.6, and through directories that shut their owner out. */
static int walk_slowly(int root_fd, const char *path, bool is_ours)
{
	cleanup_fd int fd = openat(root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat root, st;
	char name[NAME_MAX + 1];

	if (fd < 0 || fstat(fd, &root) < 0)
		return -errno;
	while (*path) {
		size_t length = strcspn(path, "/");
		int next;

		if (length == 0 || length > NAME_MAX)
			return length ? -ENAMETOOLONG : -EINVAL;
		memcpy(name, path, length);
		name[length] = '\0';
		if (streq(name, ".") || streq(name, ".."))
			return -EINVAL;
		next = tree_open_at(fd, name, O_PATH | O_DIRECTORY, is_ours);
		if (next < 0)
			return next;
		close(fd);
		fd = next;
		if (fstat(fd, &st) < 0)
			return -errno;
		if (!S_ISDIR(st.st_mode))
			return -ENOTDIR;
		if (st.st_dev != root.st_dev)
			return -EXDEV;
		path += length + (path[length] == '/');
	}
	return take_fd(&fd);
}

/* Where to cut a path that is longer than the kernel takes in one go. */
static size_t piece_length(const char *path, size_t length)
{
	if (length < PATH_MAX)
		return length;
	for (length = PATH_MAX - 1; length > 0 && path[length] != '/'; length--)
		;
	return length;
}

/* The directory that the first `length` bytes of `path` name, O_PATH. */
static int walk_to(int root_fd, const char *path, size_t length, bool is_ours)
{
	char piece[PATH_MAX];
	int fd = root_fd, next = -1;

	if (length == 0)
		next = openat(root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	while (length > 0) {
		size_t part = piece_length(path, length);

		memcpy(piece, path, part);
		piece[part] = '\0';
		next = part ? fd_openat2(fd, piece, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0,
					 RESOLVE_IN_TREE)
			    : -ENAMETOOLONG;
		if (next == -ENOSYS || (next == -EACCES && is_ours))
			next = walk_slowly(fd, piece, is_ours);
		if (fd != root_fd)
			close(fd);
		if (next < 0)
			return next;
		fd = next;
		path += part;
		length -= part;
		while (length > 0 && *path == '/')
			path++, length--;
	}
	return next < 0 ? -errno : next;
}

int tree_open_dir(int root_fd, const char *path, bool is_ours)
{
	cleanup_fd int fd = -1;
	int flags = O_RDONLY | O_DIRECTORY, opened;

	/* Mostly it takes one call. */
	opened = fd_openat2(root_fd, *path ? path : ".", flags | O_NOFOLLOW, 0, RESOLVE_IN_TREE);
	if (opened != -ENOSYS && opened != -EACCES && opened != -ENAMETOOLONG)
		return opened;
	fd = walk_to(root_fd, path, strlen(path), is_ours);
	if (fd < 0)
		return fd;
	opened = openat(fd, ".", flags | O_CLOEXEC);
	if (opened >= 0)
		return opened;
	return errno == EACCES && is_ours ? reopen(fd, flags) : -errno;
}

int tree_open_parent(int root_fd, const char *path, bool is_ours, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	int fd = walk_to(root_fd, path, slash ? (size_t)(slash - path) : 0, is_ours);

	if (fd >= 0)
		*ret_name = slash ? slash + 1 : path;
	return fd;
}

int tree_open_quickly(int root_fd, const char *path)
{
	return fd_openat2(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0,
			  RESOLVE_IN_TREE);
}

int tree_dirs_add(struct tree_dirs *dirs, size_t above, const char *name)
{
	const size_t at = dirs->names.used;

	if (dirs->n == dirs->room) {
		size_t more = dirs->room ? dirs->room * 2 : 64;
		struct tree_dir *bigger = reallocarray(dirs->items, more, sizeof *bigger);

		if (!bigger)
			return -ENOMEM;
		dirs->items = bigger;
		dirs->room = more;
	}
	buf_add(&dirs->names, name, strlen(name) + 1);
	if (buf_error(&dirs->names) < 0)
		return buf_error(&dirs->names);
	dirs->items[dirs->n++] = (struct tree_dir){.above = above, .name = at};
	return 0;
}

char *tree_dirs_path(const struct tree_dirs *dirs, size_t i)
{
	size_t length = 0;
	char *path, *end;

	for (size_t at = i; at; at = dirs->items[at].above)
		length += strlen(dirs->names.data + dirs->items[at].name) + 1;
	path = malloc(length + 1);
	if (!path)
		return NULL;
	/* From its end, each name with the slash behind it, the last one's becoming the end. */
	end = path + length;
	*end = '\0';
	for (size_t at = i; at; at = dirs->items[at].above) {
		const char *name = dirs->names.data + dirs->items[at].name;
		size_t size = strlen(name);

		*--end = at == i ? '\0' : '/';
		end -= size;
		memcpy(end, name, size);
	}
	return path;
}

void tree_dirs_done(struct tree_dirs *dirs)
{
	free(dirs->items);
	buf_done(&dirs->names);
	*dirs = TREE_DIRS_INIT;
}

#define LIST_BYTES_MAX ((size_t)1 << 30)

int tree_list(int dir_fd, struct tree_names *ret)
{
	cleanup_buf struct buf names = BUF_INIT(LIST_BYTES_MAX);
	_Alignas(struct dirent64) char chunk[32768];
	size_t n = 0;
	ssize_t got;

	while ((got = getdents64(dir_fd, (void *)chunk, sizeof chunk)) > 0) {
		for (ssize_t at = 0; at < got;) {
			const struct dirent64 *entry = (const void *)(chunk + at);

			at += entry->d_reclen;
			if (streq(entry->d_name, ".") || streq(entry->d_name, ".."))
				continue;
			buf_add(&names, entry->d_name, strlen(entry->d_name) + 1);
			n++;
		}
	}
	if (got < 0)
		return -errno;
	if (buf_error(&names) < 0)
		return buf_error(&names);
	*ret = (struct tree_names){names.data, names.used, n};
	names.data = NULL;
	return 0;
}

void tree_names_done(struct tree_names *names)
{
	free(names->text);
	*names = (struct tree_names){0};
}

int tree_read_link(int dir_fd, const char *name, bool is_ours, char *ret, size_t size)
{
	ssize_t length = readlinkat(dir_fd, name, ret, size);

	if (length < 0 && errno == EACCES && is_ours) {
		cleanup_fd int fd = open_shut(dir_fd, name, O_PATH);

		if (fd < 0)
			return fd;
		length = readlinkat(fd, "", ret, size);
	}
	if (length < 0)
		return -errno;
	if ((size_t)length >= size)
		return -ENAMETOOLONG;
	ret[length] = '\0';
	return 0;
}
