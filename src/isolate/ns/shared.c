/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uapi.h"
#include "isolate/ns/cell.h"
#include "spec/spec.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

/*
 * One layer for several of the system's trees
 *
 * Every overlay is a file system of its own, for which the kernel keeps some 25 kB, and a part of a
 * table in each memory control group of the machine. Root's `root: layer` has eight of them. But
 * those trees mostly lie on one mount, the host's root or the image. So one overlay lies over the
 * top of that, where no path inside leads, and what is seen inside are mounts of its directories:
 * of /usr, of /var/lib/dpkg. Nothing leads from one of them to another, or to what is not shown:
 * whatever is renamed or linked stays in its own mount, and each mount's top is the end of its way
 * up. Should that ever fail, there is still nothing to find: on the way to the trees the overlay
 * has no other name than theirs.
 *
 * Not for a root that was kept (saved-root.c): what an earlier cell has written may have anything
 * in the place of a directory on the way.
 */

#define STAGE NS_STAGE_DIR
#define HOST  STAGE "/system-host"
#define MASK  STAGE "/system-mask"
#define UPPER STAGE "/" SHARED_UPPER
#define WORK  STAGE "/system-work"
#define WHOLE STAGE "/system"

/* Of the host's tree what everybody may read: see public.c. */
#define PUBLIC STAGE "/system-public"

static int fail(struct atoll_error *err, const char *what, const char *path)
{
	return error_set(err, ATOLL_FAULT_HOST, errno, "%s '%s'", what, path);
}

/* A directory on the same mount as `top_fd`, and no link on the way. */
static int open_beneath(int top_fd, const char *path)
{
	return fd_openat2(top_fd, path + 1, O_PATH | O_DIRECTORY, 0,
			  RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | RESOLVE_BENEATH);
}

/* Is that the object that was looked at? */
static bool is_it(int top_fd, const struct ns_mount *mount)
{
	cleanup_fd int fd = open_beneath(top_fd, mount->path);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == mount->dev && st.st_ino == mount->ino;
}

static bool can_share(int top_fd, const struct ns_mount *mount)
{
	return mount->kind == NS_BIND && mount->is_ephemeral && mount->is_dir &&
	       is_it(top_fd, mount);
}

int shared_prepare(struct cell *cell, struct atoll_error *err)
{
	const char *top = cell->spec->image ? cell->spec->image : "/";
	cleanup_fd int fd = -1;
	struct ns_mount *mount, made;
	size_t n = 0;
	int r;

	/* Of the host's root an ordinary user can have no copy without what is mounted in it. */
	if (!cell->spec->root_is_layer || kept_is_there(cell) ||
	    (cell->spec->image ? ns_has_submounts(top, NULL) : !cell->ids.has_many))
		return 0;
	fd = open(top, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	for (size_t i = 0; fd >= 0 && i < cell->n_mounts; i++)
		n += can_share(fd, &cell->mounts[i]);
	if (n < 2)
		return 0;
	r = layer_stage(top, false, &made, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < cell->n_mounts; i++)
		cell->mounts[i].is_shared = can_share(fd, &cell->mounts[i]);
	mount = ns_add_mount(cell, NS_STAGE, top);
	if (!mount)
		return error_oom(err);
	made.path = mount->path;
	made.is_base = true;
	made.is_public = !cell->spec->image && public_can_mount(top);
	*mount = made;
	return 0;
}

/* ---- in the child ---- */

static int check_all(const struct cell *cell, struct atoll_error *err)
{
	cleanup_fd int fd = open(HOST, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return fail(err, "open", HOST);
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (cell->mounts[i].is_shared && !is_it(fd, &cell->mounts[i]))
			return error_set(err, ATOLL_FAULT_POLICY, 0,
					 "'%s' has changed while starting",
					 ns_source(&cell->mounts[i]));
	}
	return 0;
}

/* Is it one of the trees, or on the way to one? */
static bool leads_to_one(const struct cell *cell, const char *path)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (cell->mounts[i].is_shared && path_is_within(cell->mounts[i].path, path))
			return true;
	}
	return false;
}

/* All else that is in a directory ("", "/var/lib") disappears. */
static int empty_way(const struct cell *cell, struct ns_masking *masking, const char *way,
		     struct atoll_error *err)
{
	cleanup_fd int fd = openat(masking->host_fd, way[0] ? way + 1 : ".",
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char entries[8192] __attribute__((aligned(8))), path[PATH_MAX];
	ssize_t got;
	int r = 0;

	while (r == 0 && fd >= 0 && (got = getdents64(fd, (void *)entries, sizeof entries)) > 0) {
		for (ssize_t at = 0; r == 0 && at < got;) {
			const struct dirent64 *entry = (const void *)(entries + at);

			at += entry->d_reclen;
			snprintf(path, sizeof path, "%s/%s", way, entry->d_name);
			if (!streq(entry->d_name, ".") && !streq(entry->d_name, "..") &&
			    !leads_to_one(cell, path))
				r = masks_add(masking, path + 1, err);
		}
	}
	return r == 0 && (fd < 0 || got < 0) ? fail(err, "read", way) : r;
}

/* The directories that lead to a tree, but for those that led to the one before: they are sorted.
 */
static int empty_ways(const struct cell *cell, struct ns_masking *masking, const char *path,
		      const char *before, struct atoll_error *err)
{
	char way[PATH_MAX];
	int r = 0;

	for (size_t i = 0; r == 0 && path[i]; i++) {
		if (path[i] != '/')
			continue;
		snprintf(way, sizeof way, "%.*s", (int)i, path);
		if (!path_is_within(before, i ? way : "/"))
			r = empty_way(cell, masking, way, err);
	}
	return r;
}

static int mask_all(const struct cell *cell, struct atoll_error *err)
{
	struct ns_masking masking;
	const char *before = "";
	int r = masks_begin(&masking, MASK, HOST, err);

	for (size_t i = 0; r == 0 && i < cell->n_mounts; i++) {
		const struct ns_mount *spot = &cell->mounts[i];
		char path[PATH_MAX];

		if (!spot->is_shared)
			continue;
		r = empty_ways(cell, &masking, spot->path, before, err);
		for (size_t j = 0; r == 0 && j < spot->n_masks; j++) {
			snprintf(path, sizeof path, "%s/%s", spot->path + 1, spot->masks[j]);
			r = masks_add(&masking, path, err);
		}
		before = spot->path;
	}
	masks_end(&masking);
	return r;
}

/* Its directory in the upper layer, which looks like the host's: whoever keeps what was written
 * finds it there. */
static int make_upper(int host_fd, int upper_fd, const char *path, struct atoll_error *err)
{
	char part[PATH_MAX];
	struct stat st;

	for (size_t i = 1; path[i] && i < sizeof part; i++) {
		part[i - 1] = path[i];
		if (path[i + 1] != '/' && path[i + 1] != '\0')
			continue;
		part[i] = '\0';
		if (fstatat(host_fd, part, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    (mkdirat(upper_fd, part, st.st_mode & 0777) < 0 && errno != EEXIST))
			return fail(err, "create a layer for", path);
	}
	return 0;
}

static int make_uppers(const struct cell *cell, struct atoll_error *err)
{
	cleanup_fd int host = open(HOST, O_PATH | O_DIRECTORY | O_CLOEXEC), upper = -1;
	int r = 0;

	if (mkdir(UPPER, 0755) < 0 || mkdir(WORK, 0700) < 0 || mkdir(WHOLE, 0700) < 0)
		return fail(err, "create", UPPER);
	upper = open(UPPER, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (host < 0 || upper < 0)
		return fail(err, "open", UPPER);
	for (size_t i = 0; r == 0 && i < cell->n_mounts; i++) {
		if (cell->mounts[i].is_shared)
			r = make_upper(host, upper, cell->mounts[i].path, err);
	}
	return r;
}

int shared_build(const struct cell *cell, struct atoll_error *err)
{
	static const char all[] =
		"lowerdir=" MASK ":" HOST ",userxattr,upperdir=" UPPER ",workdir=" WORK;
	static const char public[] =
		"lowerdir=" PUBLIC ",userxattr,upperdir=" UPPER ",workdir=" WORK;
	const struct ns_mount *base = NULL;
	int r;

	for (size_t i = 0; i < cell->n_mounts && !base; i++)
		base = cell->mounts[i].is_base ? &cell->mounts[i] : NULL;
	if (!base)
		return 0;
	r = mkdir(HOST, 0700) < 0 ? fail(err, "create", HOST) : ns_attach(base->tree_fd, HOST, err);
	if (r == 0)
		r = check_all(cell, err);
	if (r == 0)
		r = mask_all(cell, err);
	if (r == 0)
		r = make_uppers(cell, err);
	if (r == 0 && base->is_public)
		r = public_mount(cell, MASK, HOST, PUBLIC, err);
	if (r == 0 && mount("overlay", WHOLE, "overlay", MS_NOSUID | MS_NODEV,
			    base->is_public ? public : all) < 0)
		r = fail(err, "put a layer over", "the system's trees");
	return r;
}

int shared_place(const struct ns_mount *spot, struct atoll_error *err)
{
	cleanup_fd int whole = open(WHOLE, O_PATH | O_DIRECTORY | O_CLOEXEC), dir = -1, tree = -1;

	dir = whole < 0 ? -1 : open_beneath(whole, spot->path);
	tree = dir < 0 ? -1
		       : open_tree(dir, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (tree < 0)
		return fail(err, "copy the layer over", spot->path);
	return ns_attach(tree, spot->path + 1, err);
}
