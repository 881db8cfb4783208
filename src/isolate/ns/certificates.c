/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/uapi.h"
#include "isolate/ns/cell.h"

#include <errno.h>
#include <glob.h>
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
 * more certificate. Java has files and a format of its own.
 */

static const char *const known[] = {
	"/etc/ssl/certs/ca-certificates.crt", /* Debian and its like, Alpine, Arch */
	"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora and its like */
	"/etc/ssl/cert.pem",		      /* where OpenSSL itself looks */
	"/etc/ssl/ca-bundle.pem",	      /* SUSE */
};

_Static_assert(ARRAY_SIZE(known) <= CELL_BUNDLES_MAX, "room for each");

/* In each Java, if it is no link to the system's; and the system's on Fedora and its like, where
 * only some have a link. */
static const char *const java[] = {
	"/usr/lib/jvm/*/lib/security/cacerts",
	"/usr/lib/jvm/*/jre/lib/security/cacerts", /* up to Java 8 */
	"/etc/pki/java/cacerts",
};

/* The real file behind a path. Often one is a link to another. */
static void add_file(char **list, size_t *n, size_t max, const char *name)
{
	cleanup_free char *path = realpath(name, NULL);
	struct stat st;

	if (*n >= max || !path || lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	for (size_t i = 0; i < *n; i++) {
		if (streq(list[i], path))
			return;
	}
	list[(*n)++] = take_ptr(path);
}

size_t isolate_find_keystores(char **ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(java); i++) {
		glob_t found = {0};

		if (glob(java[i], 0, NULL, &found) == 0) {
			for (size_t k = 0; k < found.gl_pathc; k++)
				add_file(ret, &n, max, found.gl_pathv[k]);
		}
		globfree(&found);
	}
	return n;
}

void authority_find_bundles(struct cell *cell)
{
	if (!network_inspects(&cell->spec->network))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		add_file(cell->bundles, &cell->n_bundles, ARRAY_SIZE(cell->bundles), known[i]);
	cell->n_keystores = isolate_find_keystores(cell->keystores, ARRAY_SIZE(cell->keystores));
}

static size_t text_size(const char *text)
{
	return text ? strlen(text) : 0;
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

/* A file of ours, also in the place of the host's. */
static int place(const char *path, const char *data, size_t size, char *const *over, size_t n_over,
		 struct atoll_error *err)
{
	int r = data ? ns_write_file(path, data, size, 0444, err) : 0;

	for (size_t i = 0; r == 0 && data && i < n_over; i++)
		r = show_at(path, over[i] + 1, err);
	return r;
}

int authority_place(const struct cell *cell, struct atoll_error *err)
{
	const struct cell_extra *extra = cell->extra;
	/* Relative to the new root. */
	int r = place(&CELL_AUTHORITY[1], extra->authority, text_size(extra->authority), NULL, 0,
		      err);

	if (r == 0)
		r = place(&CELL_BUNDLE[1], extra->bundle, text_size(extra->bundle), cell->bundles,
			  cell->n_bundles, err);
	if (r == 0)
		r = place(&CELL_KEYSTORE[1], extra->keystore, extra->keystore_size, cell->keystores,
			  cell->n_keystores, err);
	return r;
}
