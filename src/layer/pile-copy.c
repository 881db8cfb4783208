/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/str.h"
#include "layer/layer-tree.h"
#include "layer/object.h"
#include "layer/pile.h"

#include <errno.h>
#include <limits.h>
#include <sys/xattr.h>

/*
 * Copying what is in a layer into another: with all that belongs to it, and with what the overlay
 * notes about it
 */

/* ---- attributes ---- */

static void scope_free_list(char **list)
{
	free(*list);
}

/* Labels of a security module come with the place. Of a root there are no lists of access, whose
 * ids nobody maps, and no capabilities. */
static bool is_copied(const struct pile *pile, const char *name)
{
	if (pile->is_root)
		return starts_with(name, "user.") && !starts_with(name, "user.overlay.");
	return (!starts_with(name, "security.") || streq(name, "security.capability")) &&
	       !streq(name, "user.overlay.opaque");
}

/* All of them: those of the overlay, too, but whether it is opaque. */
static void copy_xattrs(struct pile_copier *copier, int from_fd, int to_fd)
{
	ssize_t size = flistxattr(from_fd, NULL, 0);
	cleanup_with(scope_free_list) char *list = size > 0 ? malloc((size_t)size) : NULL;
	char value[65536];

	size = list ? flistxattr(from_fd, list, (size_t)size) : 0;
	for (ssize_t at = 0; at < size; at += (ssize_t)strlen(list + at) + 1) {
		const char *name = list + at;
		ssize_t got;

		if (!is_copied(copier->pile, name))
			continue;
		got = tree_get_xattr(from_fd, name, value, sizeof value);
		if (got >= 0 && fsetxattr(to_fd, name, value, (size_t)got, 0) < 0 &&
		    streq(name, "user.overlay.origin"))
			copier->pile->has_lost_origins = true;
	}
}

/* Only root can give files away, and only for it they belong to others. */
static int set_owner(const struct pile_copier *copier, int dir_fd, const char *name,
		     const struct stat *st)
{
	const struct pile *pile = copier->pile;
	uid_t uid = pile->has_owner ? pile->uid : st->st_uid;
	gid_t gid = pile->has_owner ? pile->gid : st->st_gid;

	if (geteuid() != 0)
		return 0;
	if (pile->root && pile->root->kept_id) {
		uid = pile->root->kept_id(pile->root->data, false, st->st_uid);
		gid = pile->root->kept_id(pile->root->data, true, st->st_gid);
	}
	return fchownat(dir_fd, name, uid, gid, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0 ? -errno
											 : 0;
}

static int set_attributes(const struct pile_copier *copier, int fd, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	const bool has_no_ids = copier->pile->is_root && S_ISREG(st->st_mode);
	int r = set_owner(copier, fd, "", st);

	if (r < 0)
		return r;
	/* After the owner, whose change takes set-id bits away. */
	if (fchmod(fd, st->st_mode & (has_no_ids ? 01777 : 07777)) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

/* ---- names of one file ---- */

static struct pile_linked *find_linked(struct pile_linked *table, size_t room,
				       const struct stat *st)
{
	size_t at = (size_t)((st->st_ino * UINT64_C(0x9e3779b97f4a7c15)) >> 17) & (room - 1);

	while (table[at].path && (table[at].ino != st->st_ino || table[at].dev != st->st_dev))
		at = (at + 1) & (room - 1);
	return &table[at];
}

static int grow_linked(struct pile_copier *copier)
{
	size_t room = copier->room ? copier->room * 2 : 256;
	struct pile_linked *table = calloc(room, sizeof *table);

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < copier->room; i++) {
		const struct pile_linked *old = &copier->linked[i];
		struct stat st = {.st_dev = old->dev, .st_ino = old->ino};

		if (old->path)
			*find_linked(table, room, &st) = *old;
	}
	free(copier->linked);
	copier->linked = table;
	copier->room = room;
	return 0;
}

/* 1 if `to` has become another name of a file that was copied; 0 if it is the first. */
static int link_again(struct pile_copier *copier, const struct stat *st, int out_dir,
		      const char *name, const char *path)
{
	cleanup_fd int dir = -1;
	struct pile_linked *linked;
	const char *first;

	if (copier->n_linked * 2 >= copier->room && grow_linked(copier) < 0)
		return -ENOMEM;
	linked = find_linked(copier->linked, copier->room, st);
	if (!linked->path) {
		*linked = (struct pile_linked){st->st_dev, st->st_ino, strdup(path)};
		copier->n_linked++;
		return linked->path ? 0 : -ENOMEM;
	}
	dir = tree_open_parent(copier->upper_fd, linked->path, true, &first);
	if (dir < 0)
		return dir;
	return linkat(dir, first, out_dir, name, 0) < 0 ? -errno : 1;
}

/* ---- one object ---- */

static int copy_file(struct pile_copier *copier, int from_dir, int out_dir, const char *name,
		     const struct stat *st)
{
	cleanup_fd int from = tree_open_at(from_dir, name, O_RDONLY | O_NONBLOCK, true);
	cleanup_fd int to = -1;
	int r;

	if (from < 0)
		return from;
	to = openat(out_dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	r = object_copy_data(from, to, st->st_size);
	if (r < 0)
		return r;
	return pile_copy_attributes(copier, from, to, st);
}

static int copy_special(const struct pile_copier *copier, int from_dir, int out_dir,
			const char *name, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	char target[PATH_MAX];
	int r;

	if (copier->pile->is_root && !S_ISLNK(st->st_mode) && !S_ISFIFO(st->st_mode))
		return 0;
	if (S_ISLNK(st->st_mode)) {
		r = tree_read_link(from_dir, name, true, target, sizeof target);
		if (r == 0 && symlinkat(target, out_dir, name) < 0)
			r = -errno;
	} else {
		r = mknodat(out_dir, name, st->st_mode, st->st_rdev) < 0 ? -errno : 0;
		if (r == 0 && fchmodat(out_dir, name, st->st_mode & 07777, 0) < 0)
			r = -errno;
	}
	if (r == 0)
		r = set_owner(copier, out_dir, name, st);
	if (r == 0 && utimensat(out_dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	return r;
}

int pile_copy_object(struct pile_copier *copier, int from_dir, int out_dir, const char *name,
		     const char *path, const struct stat *st)
{
	int r = 0;

	if (!S_ISREG(st->st_mode))
		return copy_special(copier, from_dir, out_dir, name, st);
	if (st->st_nlink > 1)
		r = link_again(copier, st, out_dir, name, path);
	return r == 0 ? copy_file(copier, from_dir, out_dir, name, st) : r < 0 ? r : 0;
}

int pile_copy_attributes(struct pile_copier *copier, int from_fd, int to_fd, const struct stat *st)
{
	copy_xattrs(copier, from_fd, to_fd);
	return set_attributes(copier, to_fd, st);
}

void pile_copier_done(struct pile_copier *copier)
{
	for (size_t i = 0; i < copier->room; i++)
		free(copier->linked[i].path);
	free(copier->linked);
	if (copier->upper_fd >= 0)
		close(copier->upper_fd);
}
