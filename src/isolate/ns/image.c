/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"
#include "isolate/ns/cell.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/*
 * System directories of somebody else's
 *
 * `image: {root: DIR}` takes /usr, /etc and the like from an unpacked root file system instead of
 * the host's. It belongs to the caller, so there is nothing in it to be hidden from him, and with
 * `root: layer` an ordinary user can write all of it: under a layer, because the image is never
 * written itself. Only directories and links right in DIR are looked at; a link becomes the same
 * link inside, and is never followed out here.
 */

static int open_image(const struct spec *spec, struct atoll_error *err)
{
	int fd = fd_openat2(AT_FDCWD, spec->image, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
	struct stat st;

	if (fd < 0)
		return error_set(err, fd == -ELOOP ? ATOLL_FAULT_POLICY : ATOLL_FAULT_REQUEST, -fd,
				 "image '%s' (%s)", spec->image, spec->image_origin);
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid())
		return fd;
	close(fd);
	return error_set(err, ATOLL_FAULT_POLICY, 0,
			 "image '%s' (%s) does not belong to you: unpack it under your own id",
			 spec->image, spec->image_origin);
}

/* Does a link right in the image lead out of it, as it is read from its top? */
static bool leads_out(const char *link)
{
	int depth = 0;

	if (link[0] == '/' && !path_is_within(link, "/usr"))
		return true;
	for (const char *at = link; *at;) {
		size_t length = strcspn(at, "/");

		if (length == 2 && memcmp(at, "..", 2) == 0)
			depth--;
		else if (length && !(length == 1 && at[0] == '.'))
			depth++;
		if (depth < 0)
			return true;
		at += length + strspn(at + length, "/");
	}
	return false;
}

/* While the root is built the host's is still there, and an absolute link would lead to it: no way
 * to anything that is made goes through one (make_parents()). */
static int add_link(struct cell *cell, int image_fd, const char *path, struct atoll_error *err)
{
	struct ns_mount *mount = ns_add_mount(cell, NS_LINK, path);
	char link[PATH_MAX];
	ssize_t got = readlinkat(image_fd, path + 1, link, sizeof link - 1);

	if (got < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "read the image's link '%s'", path);
	link[got] = '\0';
	/* In these two something is put. */
	if (leads_out(link) || streq(path, "/var") || streq(path, "/etc"))
		return error_set(
			err, ATOLL_FAULT_POLICY, 0,
			"'%s' in the image '%s' (%s) is a link to '%s': make it a directory", path,
			cell->spec->image, cell->spec->image_origin, link);
	return mount && (mount->link = strdup(link)) ? 0 : error_oom(err);
}

static int add_tree(struct cell *cell, const char *path, const struct stat *st,
		    const struct spec_rule *rule, struct atoll_error *err)
{
	struct ns_mount *mount = ns_add_mount(cell, NS_BIND, path);

	if (!mount || !(mount->source = path_join(cell->spec->image, path + 1)))
		return error_oom(err);
	mount->rule = rule;
	mount->is_dir = true;
	mount->is_ephemeral = cell->spec->root_is_layer;
	mount->dev = st->st_dev;
	mount->ino = st->st_ino;
	if (mount->is_ephemeral && ns_has_submounts(mount->source, NULL))
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "something is mounted in the image's '%s', and a layer covers "
				 "one file system; unmount it",
				 mount->source);
	return 0;
}

int image_add(struct cell *cell, const char *path, const struct spec_rule *rule,
	      struct atoll_error *err)
{
	cleanup_fd int fd = open_image(cell->spec, err);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstatat(fd, path + 1, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT || streq(path, "/usr"))
			return error_set(err, ATOLL_FAULT_REQUEST, errno,
					 "image '%s' (%s) is no root file system: '%s' in it",
					 cell->spec->image, cell->spec->image_origin, path + 1);
		return 0;
	}
	if (S_ISLNK(st.st_mode))
		return add_link(cell, fd, path, err);
	if (!S_ISDIR(st.st_mode))
		return error_set(err, ATOLL_FAULT_REQUEST, ENOTDIR, "'%s' of the image '%s'", path,
				 cell->spec->image);
	return add_tree(cell, path, &st, rule, err);
}

int image_open_file(const struct cell *cell, const char *path)
{
	cleanup_fd int fd = -1;

	if (!cell->spec->image)
		return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	fd = open_image(cell->spec, NULL);
	return fd < 0 ? fd
		      : fd_openat2(fd, path + 1, O_RDONLY | O_NONBLOCK, 0,
				   RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
}
