/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * Trees that a stranger filled, by descriptor
 *
 * Paths are relative to a directory that is open, of any length and any bytes; no link is followed,
 * no other file system entered, no fifo waited for. In a tree that is our own (`is_ours`: a layer)
 * a command may have left directories and files that even their owner cannot read: they are opened
 * by a mode that is changed for the moment and then put back. The host's are left as they are.
 */

/* `path` "" is `root_fd` itself. A directory for reading, or a negative errno. */
int tree_open_dir(int root_fd, const char *path, bool is_ours);
/* The directory that `path` lies in, O_PATH, and its last component, which points into `path`. */
int tree_open_parent(int root_fd, const char *path, bool is_ours, const char **ret_name);

/* One component; `flags` as for openat(). */
int tree_open_at(int dir_fd, const char *name, int flags, bool is_ours);
int tree_stat_at(int dir_fd, const char *name, bool is_ours, struct stat *ret);
/* Regular files and directories for reading, other things O_PATH. */
int tree_open_object(int dir_fd, const char *name, bool is_ours);

/* What is most likely a regular file, at a path, in one call: for reading, and without waiting.
 * Where that is not enough (an old kernel, a long path, a mode) it fails. */
int tree_open_quickly(int root_fd, const char *path);

/* The names in a directory, without "." and "..", in no order. 0 or a negative errno. */
struct tree_names {
	char *text; /* one behind the other, each with its NUL */
	size_t size, n;
};
int tree_list(int dir_fd, struct tree_names *ret);
void tree_names_done(struct tree_names *names);

/*
 * Directories of a tree that are still to be visited, in the order in which they were added. Each
 * is its name and the number of the one above, so that memory does not grow with the square of the
 * depth, as a list of paths would. Number 0 is the root, added with name "".
 */
struct tree_dirs {
	struct tree_dir {
		size_t above, name;
	} * items;
	size_t n, room;
	struct buf names;
};
#define TREE_DIRS_INIT ((struct tree_dirs){.names = BUF_INIT((size_t)1 << 30)})
/* 0, -ENOMEM, or what buf_error() says. */
int tree_dirs_add(struct tree_dirs *dirs, size_t above, const char *name);
/* From the root, "" for that; free() it. NULL: no memory. */
char *tree_dirs_path(const struct tree_dirs *dirs, size_t i);
void tree_dirs_done(struct tree_dirs *dirs);

/* Where a link points to, in `ret`; -ENAMETOOLONG if it does not fit. */
int tree_read_link(int dir_fd, const char *name, bool is_ours, char *ret, size_t size);

/* Do two regular files of the same size hold the same? Holes are not read. What cannot be read
 * differs. */
bool tree_same_content(int a_fd, int b_fd, uint64_t size);

/* An attribute of a file or directory of ours, also of one that its owner may not read: its size,
 * or a negative errno. */
ssize_t tree_get_xattr(int fd, const char *name, void *ret, size_t size);
/* Has the file of that name surely no such attribute? One call where the kernel has it, and without
 * opening anything; false also where that is not known. */
bool tree_lacks_xattr(int dir_fd, const char *file, const char *name);
/* Is this attribute the command's own, and kept: user.*, access lists, but not the overlay's? */
bool tree_is_own_xattr(const char *name);
/* Do two files or directories have the same of these? */
bool tree_same_xattrs(int a_fd, int b_fd);

/* The whole of a file of at most `limit` bytes into `out`, whose limit is at least that. -EFBIG. */
int tree_read_file(int fd, size_t limit, struct buf *out);

static inline uint64_t tree_ctime_ns(const struct stat *st)
{
	return (uint64_t)st->st_ctim.tv_sec * 1000000000U + (uint64_t)st->st_ctim.tv_nsec;
}
