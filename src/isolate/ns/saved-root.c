/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/str.h"
#include "isolate/ns/cell.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

/*
 * A root that outlives its cell
 *
 * With `root: layer` what is written beside the workspace lies in the private storage: in the upper
 * layers of the system's trees, and in the root itself. Of a sandbox that lives on, its holder gets
 * a descriptor of that storage, copies what is in it when somebody wants it kept (layer/roots.c),
 * and hands the copies in at the next start (cell_layer.roots). Each is laid out as the root is:
 *
 *   a tree of the system's   its part of each copy lies between the upper layer and the host's,
 * above what hides names: a copy never shows what the host keeps to itself all else the root is an
 * overlay over the copies, instead of a directory
 *
 * Nothing of it is written again, and no path inside leads there. The ids in it are those of
 * base/ids.h, and are mapped to the slot's. Only where there is a range of ids: an ordinary user's
 * one id owns nothing of the system, so there is little to be kept.
 */

#define STAGE	     "/tmp/stage" /* while the storage is there */
#define COPY	     "kept-%zu"
#define TOP_UPPER    "stage/root-upper"
#define TOP_WORK     "stage/root-work"
#define OPTIONS_SIZE 4000

bool kept_is_wanted(const struct cell *cell)
{
	return cell->extra->is_service && cell->extra->layer && cell->spec->root_is_layer &&
	       cell->ids.has_many;
}

bool kept_is_there(const struct cell *cell)
{
	return kept_is_wanted(cell) && layer_of(cell)->n_roots > 0;
}

/* Each on a mount of its own: the directories above are the store's, and nobody's inside. */
int kept_prepare(struct cell *cell, struct atoll_error *err)
{
	const struct cell_layer *layer = layer_of(cell);

	for (size_t i = 0; kept_is_there(cell) && i < layer->n_roots; i++) {
		struct ns_mount *mount, made;
		int r = layer_stage(layer->roots[i], false, &made, err);

		if (r < 0)
			return r;
		mount = ns_add_mount(cell, NS_STAGE, layer->roots[i]);
		if (!mount)
			return error_oom(err);
		made.path = mount->path;
		made.kept = i + 1;
		*mount = made;
	}
	return 0;
}

/* ---- in the child ---- */

static int fail(struct atoll_error *err, const char *what, const char *path)
{
	return error_set(err, ATOLL_FAULT_HOST, errno, "%s '%s'", what, path);
}

/* `path` ("" or "/usr") in each copy that has a directory there, as parts of a lowerdir option with
 * a colon behind each. `stage` leads to the copies. */
static int add_lowers(const struct cell *cell, const char *stage, const char *path, char *options,
		      size_t size, struct atoll_error *err)
{
	size_t used = strlen(options);

	/* The system's trees are made of letters, digits and slashes. */
	if (strpbrk(path, ":,\\\"'"))
		return error_set(err, ATOLL_FAULT_BUG, 0, "a layer over '%s'", path);
	for (size_t i = 1; i <= layer_of(cell)->n_roots; i++) {
		cleanup_fd int copy = -1, dir = -1;
		char whole[256];
		int got;

		snprintf(whole, sizeof whole, "%s/" COPY, stage, i);
		copy = open(whole, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (copy < 0)
			return fail(err, "open", whole);
		dir = fd_openat2(copy, path[0] ? path + 1 : ".", O_PATH | O_DIRECTORY, 0,
				 RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
		if (dir < 0)
			continue; /* it says nothing of that */
		got = snprintf(options + used, size - used, "%s%s:", whole, path);
		if (got < 0 || (size_t)got >= size - used)
			return error_set(err, ATOLL_FAULT_BUG, E2BIG, "too many layers");
		used += (size_t)got;
	}
	return 0;
}

int kept_add_lowers(const struct cell *cell, const char *path, char *options, size_t size,
		    struct atoll_error *err)
{
	return kept_is_there(cell) ? add_lowers(cell, NS_STAGE_DIR, path, options, size, err) : 0;
}

static int attach(const struct ns_mount *mount, struct atoll_error *err)
{
	char path[64];

	snprintf(path, sizeof path, STAGE "/" COPY, mount->kept);
	return mkdir(path, 0700) < 0 ? fail(err, "create", path)
				     : ns_attach(mount->tree_fd, path, err);
}

/* The copies, where the rest is put together; and the root on top of them. */
int kept_mount_root(const struct cell *cell, struct atoll_error *err)
{
	char options[OPTIONS_SIZE] = "lowerdir=";
	size_t used;
	int r = 0;

	if (mkdir("/tmp/" TOP_UPPER, 0755) < 0 || mkdir("/tmp/" TOP_WORK, 0700) < 0)
		return fail(err, "create", "/tmp/" TOP_UPPER);
	for (size_t i = 0; r == 0 && i < cell->n_mounts; i++) {
		if (cell->mounts[i].kept)
			r = attach(&cell->mounts[i], err);
	}
	if (r == 0)
		r = add_lowers(cell, STAGE, "", options, sizeof options, err);
	if (r < 0)
		return r;
	used = strlen(options); /* there is one at least, and a colon behind it */
	snprintf(options + used - 1, sizeof options - used + 1,
		 ",upperdir=/tmp/" TOP_UPPER ",workdir=/tmp/" TOP_WORK ",userxattr,volatile");
	if (mount("overlay", "/tmp/root", "overlay", MS_NOSUID | MS_NODEV, options) < 0)
		return fail(err, "put a layer over", "/");
	return 0;
}

/* Does one of them say something about a name ("/etc/passwd"), if only that it is not there? */
bool kept_speaks_of(const struct cell *cell, const char *path)
{
	char whole[PATH_MAX];
	struct stat st;

	for (size_t i = 1; kept_is_there(cell) && i <= layer_of(cell)->n_roots; i++) {
		snprintf(whole, sizeof whole, NS_STAGE_DIR "/" COPY "%s", i, path);
		if (lstat(whole, &st) == 0)
			return true;
	}
	return false;
}

/* ---- for the holder ---- */

bool ns_written(const struct cell *cell, size_t number, struct cell_written *ret)
{
	if (number == 0) {
		ret->path = "";
		snprintf(ret->dir, sizeof ret->dir, "%s", kept_is_there(cell) ? TOP_UPPER : "root");
		return true;
	}
	for (size_t i = 0, n = 0; i < cell->n_mounts; i++) {
		if (!cell->mounts[i].is_ephemeral || ++n < number)
			continue;
		ret->path = cell->mounts[i].path + 1;
		if (cell->mounts[i].is_shared)
			snprintf(ret->dir, sizeof ret->dir, "stage/" SHARED_UPPER "%s",
				 cell->mounts[i].path);
		else
			snprintf(ret->dir, sizeof ret->dir, "stage/upper-%zu", i);
		return true;
	}
	return false;
}

uint32_t ns_kept_id(const struct cell *cell, bool is_group, uint32_t id)
{
	return ids_is_kept(id) ? id : IDS_KEPT_FIRST + ids_inside_id(&cell->ids, is_group, id);
}
