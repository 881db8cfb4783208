/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "isolate/ns/cell.h"
#include "spec/spec.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>

/*
 * `root: layer`
 *
 * System directories get a writable layer in the private storage, so that packages can be
 * installed, and vanish. That takes ids: what belongs to root on the host has to belong to somebody
 * inside. Root gives such a sandbox a range of ids of its own, shows the system's trees with their
 * owners mapped to it, and lets the command be root there, with the few capabilities over these ids
 * that a package manager needs. An ordinary user has one id, which owns nothing of the system: he
 * gets a private /var, his home, and a layer over /opt for what is new there. New directories can
 * be made at the top, unless the contract names something of the host's: see is_delicate() in
 * prepare.c.
 *
 * Root inside owns what root owns on the host, and could read what only root may read there. The
 * kernel refuses such files (public.c), whenever they were made. In the trees that an administrator
 * writes to, and at a few places of /usr, such names are taken out besides: a name that is refused
 * can be removed and replaced, but neither be changed, renamed nor linked, which accounts
 * (/etc/shadow) and upgrades of packages need. A tree that lies on an overlay itself cannot have
 * it: the run is refused.
 */

#define NAMES_MAX (1 << 18)
#define DEPTH_MAX 64

/* Those of the defaults. */
static const char *const trees[] = {"/usr", "/etc",   "/opt",	"/bin",	   "/sbin",
				    "/lib", "/lib32", "/lib64", "/libx32", NULL};

/* What is installed, for the tools that ask; the rest of /var is empty. */
static const char *const states[] = {
	"/var/lib/dpkg", "/var/lib/apt", "/var/cache/apt",  "/var/cache/debconf",  "/var/lib/ucf",
	"/var/lib/rpm",	 "/var/lib/dnf", "/var/lib/pacman", "/var/cache/ldconfig", NULL};

/* Where packages of /usr have files that others may not read, and upgrades link them. */
static const char *const few_of_usr[] = {"/usr/local", "/usr/lib/dbus-1.0", "/usr/lib/cups/backend",
					 "/usr/share/polkit-1"};

/* Lists and scripts of packages: everybody has them, and there are thousands. */
static const char from_packages[] = "/var/lib/dpkg/info";

struct scan {
	struct ns_mount *mount;
	char path[PATH_MAX];
	size_t n_names;
	int watch_fd; /* every directory is watched, before it is read; 0: none */
};

static int scan_dir(struct scan *scan, int parent_fd, const char *name, unsigned depth,
		    struct atoll_error *err);

/* May everybody read it, and go into it? A link's target counts. */
static bool is_public(const struct stat *st)
{
	const mode_t need = S_ISDIR(st->st_mode) ? S_IROTH | S_IXOTH : S_IROTH;

	return S_ISLNK(st->st_mode) || (st->st_mode & need) == need;
}

static int scan_name(struct scan *scan, int dir_fd, const char *name, unsigned depth,
		     struct atoll_error *err)
{
	size_t length = strlen(scan->path);
	struct stat st;
	int r = 0;

	if (streq(name, ".") || streq(name, "..") ||
	    length + strlen(name) + 2 > sizeof scan->path ||
	    fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (++scan->n_names > NAMES_MAX || depth > DEPTH_MAX)
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "root: layer: '%s' has more names than can be looked at",
				 scan->mount->path);
	snprintf(scan->path + length, sizeof scan->path - length, "/%s", name);
	if (!is_public(&st))
		r = ns_add_mask(scan->mount, scan->path, err);
	else if (S_ISDIR(st.st_mode) && !streq(scan->path, from_packages))
		r = scan_dir(scan, dir_fd, name, depth + 1, err);
	scan->path[length] = '\0';
	return r;
}

static int scan_dir(struct scan *scan, int parent_fd, const char *name, unsigned depth,
		    struct atoll_error *err)
{
	cleanup_fd int fd =
		openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char entries[8192] __attribute__((aligned(8)));
	ssize_t got;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "read '%s'", scan->path);
	if (scan->watch_fd > 0 && !known_watch(scan->watch_fd, fd))
		return error_set(err, ATOLL_FAULT_HOST, errno, "watch '%s'", scan->path);
	while ((got = getdents64(fd, (void *)entries, sizeof entries)) > 0) {
		for (ssize_t at = 0; at < got;) {
			const struct dirent64 *entry = (const void *)(entries + at);
			int r = scan_name(scan, fd, entry->d_name, depth, err);

			if (r < 0)
				return r;
			at += entry->d_reclen;
		}
	}
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A parent before what is in it, which is then masked with it. */
static int take_out(struct ns_mount *mount, struct atoll_error *err)
{
	return known_copy(mount, err) ? 0 : system_scan(mount, 0, err);
}

int system_scan(struct ns_mount *mount, int watch_fd, struct atoll_error *err)
{
	const char *all[] = {mount->path};
	struct scan scan = {.mount = mount, .watch_fd = watch_fd};
	const bool is_few = streq(mount->path, "/usr");
	const char *const *from = is_few ? few_of_usr : all;
	int r = 0;

	for (size_t i = 0; r == 0 && i < (is_few ? ARRAY_SIZE(few_of_usr) : 1); i++) {
		snprintf(scan.path, sizeof scan.path, "%s", from[i]);
		r = scan_dir(&scan, AT_FDCWD, from[i], 0, err);
	}
	if (r == 0 && mount->n_masks)
		qsort(mount->masks, mount->n_masks, sizeof *mount->masks, by_text);
	return r;
}

static int add_state(struct cell *cell, const char *path, struct atoll_error *err)
{
	cleanup_fd int fd =
		fd_openat2(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
	struct ns_mount *mount;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !is_public(&st))
		return 0;
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (cell->mounts[i].kind == NS_BIND && path_is_within(path, cell->mounts[i].path))
			return 0; /* the contract shows it */
	}
	mount = ns_add_mount(cell, NS_BIND, path);
	if (!mount)
		return error_oom(err);
	mount->is_dir = mount->is_ephemeral = true;
	mount->dev = st.st_dev;
	mount->ino = st.st_ino;
	return 0;
}

/* An ordinary user's layer: what is new in /opt. Directories of the host's there are root's, and no
 * layer makes them his. */
static int prepare_opt(struct cell *cell, struct atoll_error *err)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		struct ns_mount *mount = &cell->mounts[i];

		if (!streq(mount->path, "/opt"))
			continue;
		mount->is_ephemeral = mount->kind == NS_BIND && mount->is_dir &&
				      !mount->is_writable && !mount->is_explicit &&
				      !mount->n_masks && !ns_has_submounts("/opt", NULL);
		return 0;
	}
	return ns_add_private(cell, "/opt", err);
}

const char *system_tree(size_t i)
{
	const size_t n = ARRAY_SIZE(trees) - 1;

	return i < n ? trees[i] : i - n < ARRAY_SIZE(states) ? states[i - n] : NULL;
}

bool system_is_layer(const struct cell *cell, const struct ns_mount *mount)
{
	if (!cell->spec->root_is_layer || cell->spec->image || !cell->ids.has_many ||
	    mount->kind != NS_BIND || !mount->is_dir || mount->is_writable || mount->is_explicit)
		return false;
	for (size_t i = 0; trees[i]; i++) {
		if (streq(mount->path, trees[i]))
			return true;
	}
	return false;
}

int system_prepare(struct cell *cell, struct atoll_error *err)
{
	int r = 0;

	if (!cell->spec->root_is_layer || cell->spec->image)
		return 0;
	if (!cell->ids.has_many)
		return prepare_opt(cell, err);
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (system_is_layer(cell, &cell->mounts[i]))
			cell->mounts[i].is_ephemeral = true;
	}
	for (size_t i = 0; r == 0 && states[i]; i++)
		r = add_state(cell, states[i], err);
	for (size_t i = 0; r == 0 && i < cell->n_mounts; i++) {
		if (!cell->mounts[i].is_ephemeral)
			continue;
		r = public_prepare(cell, &cell->mounts[i], err);
		if (r == 0)
			r = take_out(&cell->mounts[i], err);
	}
	return r;
}
