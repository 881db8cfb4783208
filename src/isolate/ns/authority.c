/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/uapi.h"
#include "isolate/ns/cell.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/*
 * Whom programs inside trust
 *
 * Where egress opens TLS it signs with an authority of the run's own. Programs find it in the file
 * that they look at anyway: where the host has one of those, the sandbox shows the same with one
 * more certificate.
 */

static const char *const known[] = {
	"/etc/ssl/certs/ca-certificates.crt", /* Debian and its like, Alpine, Arch */
	"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora and its like */
	"/etc/ssl/cert.pem",		      /* where OpenSSL itself looks */
	"/etc/ssl/ca-bundle.pem",	      /* SUSE */
};

_Static_assert(ARRAY_SIZE(known) <= CELL_BUNDLES_MAX, "room for each");

/* Often one is a link to another. */
static bool is_found(const struct cell *cell, const char *path)
{
	for (size_t i = 0; i < cell->n_bundles; i++) {
		if (streq(cell->bundles[i], path))
			return true;
	}
	return false;
}

void authority_find_bundles(struct cell *cell)
{
	if (!network_inspects(&cell->spec->network))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		cleanup_free char *path = realpath(known[i], NULL);
		struct stat st;

		if (path && lstat(path, &st) == 0 && S_ISREG(st.st_mode) && !is_found(cell, path))
			cell->bundles[cell->n_bundles++] = take_ptr(path);
	}
}

static int write_file(const char *path, const char *text, struct atoll_error *err)
{
	cleanup_fd int fd = -1;

	if (!text)
		return 0;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	if (fd < 0 || fd_write_all(fd, text, strlen(text)) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "write '/%s'", path);
	return 0;
}

/* A contract may hide the place; then there is nothing to show it at. */
static int show_at(const char *source, const char *path, struct atoll_error *err)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
					      MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
	cleanup_fd int tree = open_tree(AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0 ||
	    (move_mount(tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0 && errno != ENOENT &&
	     errno != ENOTDIR))
		return error_set(err, ATOLL_FAULT_HOST, errno, "show authorities at '/%s'", path);
	return 0;
}

int authority_place(const struct cell *cell, struct atoll_error *err)
{
	/* Relative to the new root. */
	const char *const authority = &CELL_AUTHORITY[1], *const bundle = &CELL_BUNDLE[1];
	int r = write_file(authority, cell->extra->authority, err);

	if (r == 0)
		r = write_file(bundle, cell->extra->bundle, err);
	for (size_t i = 0; r == 0 && cell->extra->bundle && i < cell->n_bundles; i++)
		r = show_at(bundle, cell->bundles[i] + 1, err);
	return r;
}
