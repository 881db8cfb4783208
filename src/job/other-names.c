/* SPDX-License-Identifier: Apache-2.0 */
#include "job/other-names.h"

#include "base/fd.h"
#include "base/mounts.h"
#include "base/path.h"
#include "base/str.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

/*
 * Other names that mounts give to a file or directory
 *
 * A bind mount shows a directory of a workspace, or a single file, at another path. What a run has
 * written there is then read under a name that no run could write. /proc/self/mountinfo says which
 * directory of which file system each mount shows, so the other names can be computed. Called by
 * job-file.c for each directory on the way to a job file, and for the file.
 */

/* The mount that a path lies on: the deepest, and of several at one point the latest. */
static bool find_mount(const char *text, const char *path, struct mounts_line *ret)
{
	struct mounts_line line;
	bool is_found = false;

	while (mounts_next(&text, &line)) {
		if (path_is_within(path, line.point) &&
		    (!is_found || strlen(line.point) >= strlen(ret->point))) {
			*ret = line;
			is_found = true;
		}
	}
	return is_found;
}

static bool is_same(const char *a, const char *b)
{
	struct stat x, y;

	return lstat(a, &x) == 0 && lstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* `path` in another tree: `above` becomes `instead`. Both may be "/". */
static bool move(const char *path, const char *above, const char *instead, char ret[PATH_MAX])
{
	const char *rest = path + (above[1] ? strlen(above) : 0);

	if (streq(rest, "/"))
		rest = "";
	return snprintf(ret, PATH_MAX, "%s%s", instead[1] || !rest[0] ? instead : "", rest) <
	       PATH_MAX;
}

static bool has(const struct buf *names, const char *name)
{
	for (size_t at = 0; at < names->used; at += strlen(names->data + at) + 1)
		if (streq(names->data + at, name))
			return true;
	return false;
}

void other_names_add(const char *path, struct buf *names)
{
	cleanup_fd int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	cleanup_buf struct buf text = BUF_INIT(4 << 20);
	char inner[PATH_MAX], name[PATH_MAX];
	struct mounts_line own, other;
	const char *at;

	if (fd < 0 || fd_read_all(fd, &text) < 0 || !text.data ||
	    !find_mount(text.data, path, &own) || !move(path, own.point, own.root, inner))
		return;
	at = text.data;
	while (mounts_next(&at, &other)) {
		if (streq(other.dev, own.dev) && path_is_within(inner, other.root) &&
		    move(inner, other.root, other.point, name) && !streq(name, path) &&
		    !has(names, name) && is_same(name, path))
			buf_add(names, name, strlen(name) + 1);
	}
}
