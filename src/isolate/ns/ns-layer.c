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
#include <sys/mount.h>
#include <sys/stat.h>

/*
 * A workspace in mode `layer`
 *
 * An overlay that is mounted by the first process in the sandbox's user namespace. From the top:
 *   upper    the writable layer, from the store, or in the private storage where the store is on a
 *            file system that cannot hold one
 *   sealed   layers of earlier steps
 *   mask     whiteouts for hidden names; above the host's, and beneath what was written inside
 *   host     the workspace, read-only
 * All of them are detached copies of mounts, put together in the stage of the private storage, so
 * no path inside leads to the store. For root they are id-mapped: what is written comes out as the
 * workspace's owner's, in the store as later on the host.
 *
 * The options
 *   userxattr  the only form that a user namespace may have
 *   volatile   nothing is synced. Without it every first change of a file waits for the disk (1 ms
 *              instead of 0.1 here), and the end of every run, and every checkpoint, for all that
 *              anybody has written to that file system. The layer outlives every process and every
 *              kill; what a power cut takes is at most the last half minute of a run, and nothing
 *              of the host's. Whoever applies a layer syncs what he writes.
 * No redirect_dir, metacopy or index: every file in a layer is whole, and a layer can be read
 * without the ones beneath it.
 */

#define DIRS_MAX  (1 << 18)
#define DEPTH_MAX 128

/* The kernel takes a page of options. */
#define OPTIONS_SIZE 4000

const struct cell_layer *layer_of(const struct cell *cell)
{
	static const struct cell_layer memory;

	return cell->extra->layer ? cell->extra->layer : &memory;
}

struct ns_mount *layer_spot(const struct cell *cell)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (cell->mounts[i].is_layer)
			return &cell->mounts[i];
	}
	return NULL;
}

/* ---- the store's directories ---- */

int layer_stage(const char *path, bool is_writable, struct ns_mount *ret, struct atoll_error *err)
{
	struct stat st;

	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return error_set(err, ATOLL_FAULT_HOST, errno, "the layers' directory '%s'", path);
	*ret = (struct ns_mount){.kind = NS_STAGE,
				 .path = (char *)path,
				 .is_writable = is_writable,
				 .is_dir = true,
				 .is_explicit = true,
				 .dev = st.st_dev,
				 .ino = st.st_ino,
				 .tree_fd = -1,
				 .map_fd = -1};
	return 0;
}

/* What all have in common, up to a slash. */
int layer_parent(const struct cell_layer *layer, char ret[PATH_MAX], struct atoll_error *err)
{
	ret[0] = '\0';
	for (size_t i = 0; i < layer->n_sealed; i++) {
		const char *path = layer->sealed[i];
		size_t common = 0, j;

		if (i == 0)
			snprintf(ret, PATH_MAX, "%s", path);
		for (j = 0; path[j] && path[j] == ret[j]; j++)
			common = path[j] == '/' ? j : common;
		if (i > 0 && !ret[j] && path[j] == '/')
			common = j;
		ret[common] = '\0';
		if (common == 0)
			return error_set(err, ATOLL_FAULT_BUG, 0, "layers of different stores");
	}
	return 0;
}

/* An overlay whose writable layer lies in its own base would be a loop. */
static int check_store(const struct ns_mount *spot, const char *path, struct atoll_error *err)
{
	if (!path_is_within(path, spot->path))
		return 0;
	return error_set(err, ATOLL_FAULT_REQUEST, 0,
			 "the workspace '%s' contains the store of layers ('%s'): choose a smaller "
			 "workspace, set XDG_STATE_HOME to a place outside, or write directly with "
			 "--direct",
			 spot->path, path);
}

static int add_stage(struct cell *cell, const char *path, bool is_writable, struct atoll_error *err)
{
	struct ns_mount *mount, made;
	int r = check_store(layer_spot(cell), path, err);

	if (r == 0)
		r = layer_stage(path, is_writable, &made, err);
	if (r < 0)
		return r;
	mount = ns_add_mount(cell, NS_STAGE, path);
	if (!mount)
		return error_oom(err);
	made.path = mount->path;
	*mount = made;
	return 0;
}

/* ---- what is mounted in the workspace ---- */

/*
 * An overlay shows one file system. To an ordinary user what is mounted in the workspace is locked
 * together with it, and the kernel refuses a layer over a part; root could show it read-only, but
 * what a command can write would then depend on who started it.
 */
static int refuse_submounts(const struct ns_mount *spot, struct atoll_error *err)
{
	const char *workspace = spot->path;
	char point[PATH_MAX];

	if (!ns_has_submounts(workspace, point))
		return 0;
	return error_set(
		err, ATOLL_FAULT_HOST, 0,
		"'%s' is another file system inside the workspace '%s', and a layer covers "
		"only one: choose a workspace without it, unmount it, or write directly "
		"with --direct",
		point, workspace);
}

/* ---- hidden names ---- */

struct scan {
	const struct spec *spec;
	struct spec_hidden hidden;
	struct ns_mount *spot;
	char path[PATH_MAX];
	size_t n_dirs;
};

static int scan_dir(struct scan *scan, int parent_fd, const char *name, unsigned depth,
		    struct atoll_error *err);

static int scan_name(struct scan *scan, int dir_fd, const struct dirent64 *entry, unsigned depth,
		     struct atoll_error *err)
{
	size_t length = strlen(scan->path);
	const struct spec_rule *rule;
	int r = 0;

	if (streq(entry->d_name, ".") || streq(entry->d_name, ".."))
		return 0;
	if (length + strlen(entry->d_name) + 2 > sizeof scan->path)
		return 0;
	snprintf(scan->path + length, sizeof scan->path - length, "/%s", entry->d_name);
	rule = spec_hidden_may(&scan->hidden, entry->d_name) ? spec_rule_for(scan->spec, scan->path)
							     : NULL;
	if (rule && rule->access == SPEC_HIDE && rule->is_pattern)
		r = ns_add_mask(scan->spot, scan->path, err);
	else if ((!rule || rule->access != SPEC_HIDE) &&
		 (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN))
		r = scan_dir(scan, dir_fd, entry->d_name, depth + 1, err);
	scan->path[length] = '\0';
	return r;
}

static int scan_dir(struct scan *scan, int parent_fd, const char *name, unsigned depth,
		    struct atoll_error *err)
{
	cleanup_fd int fd = openat(parent_fd, name,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char entries[8192];
	ssize_t got;

	if (fd < 0)
		return 0; /* gone, no directory, or not readable for the command either */
	if (++scan->n_dirs > DIRS_MAX || depth > DEPTH_MAX)
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "too many or too deep directories to hide names in: '%.200s'",
				 scan->path);
	while ((got = getdents64(fd, (void *)entries, sizeof entries)) > 0) {
		for (ssize_t at = 0; at < got;) {
			const struct dirent64 *entry = (const void *)(entries + at);
			int r = scan_name(scan, fd, entry, depth, err);

			if (r < 0)
				return r;
			at += entry->d_reclen;
		}
	}
	return 0;
}

/* What matches a pattern now is taken out, once: what the base is made of does not change. */
static int hide_matches(struct cell *cell, struct atoll_error *err)
{
	struct scan scan = {.spec = cell->spec, .spot = layer_spot(cell)};
	bool has_patterns = false;

	for (size_t i = 0; i < cell->spec->n_rules; i++) {
		const struct spec_rule *rule = &cell->spec->rules[i];
		char base[PATH_MAX];

		snprintf(base, sizeof base, "%.*s", (int)path_literal_length(rule->path),
			 rule->path);
		has_patterns = has_patterns || (rule->is_pattern && rule->access == SPEC_HIDE &&
						(path_is_within(base, scan.spot->path) ||
						 path_is_within(scan.spot->path, base)));
	}
	if (!has_patterns)
		return 0;
	spec_hidden_prepare(cell->spec, &scan.hidden);
	snprintf(scan.path, sizeof scan.path, "%s", scan.spot->path);
	return scan_dir(&scan, AT_FDCWD, scan.spot->path, 0, err);
}

int layer_prepare(struct cell *cell, struct atoll_error *err)
{
	const struct cell_layer *layer = layer_of(cell);
	char parent[PATH_MAX];
	int r;

	if (!layer_spot(cell))
		return 0;
	if (!layer_spot(cell)->is_dir)
		return error_set(err, ATOLL_FAULT_REQUEST, ENOTDIR, "workspace '%s'",
				 layer_spot(cell)->path);
	r = hide_matches(cell, err);
	if (r == 0)
		r = refuse_submounts(layer_spot(cell), err);
	if (r == 0 && layer->top)
		r = add_stage(cell, layer->top, true, err);
	if (r == 0)
		r = layer_parent(layer, parent, err);
	if (r == 0 && parent[0])
		r = add_stage(cell, parent, false, err);
	return r < 0 ? r : kept_prepare(cell, err);
}

/* ---- in the child ---- */

static int fail(struct atoll_error *err, const char *what, const char *path)
{
	return error_set(err, ATOLL_FAULT_HOST, errno, "%s '%s'", what, path);
}

#define TOP NS_STAGE_DIR "/top"

/* The root of an overlay looks like its topmost layer. */
static int make_top(int base_fd, struct atoll_error *err)
{
	struct stat st;

	if (fstat(base_fd, &st) < 0)
		return fail(err, "stat", "the workspace");
	if (mkdir(TOP "/upper", 0700) < 0 || mkdir(TOP "/work", 0700) < 0 ||
	    chmod(TOP "/upper", st.st_mode & 0777) < 0)
		return fail(err, "create", "the layer");
	/* Whoever owns the workspace, as he is seen inside: with several users not who mounts it.
	 */
	if (chown(TOP "/upper", st.st_uid, st.st_gid) < 0 && errno != EINVAL && errno != EPERM)
		return fail(err, "chown", "the layer");
	return 0;
}

/* A mount without syncing leaves a mark, and the kernel takes no layer that has it: after a crash
 * of the machine it may be incomplete. A sandbox that goes on has to be mounted again, though. What
 * is not mounted again is removed with its mark: directories can take long. */
static void take_mark_away(void)
{
	unlink(TOP "/work/work/incompat/volatile/dirty");
	if (rmdir(TOP "/work/work/incompat/volatile") == 0)
		rmdir(TOP "/work/work/incompat");
}

static int add_option(char *options, size_t *used, const char *text, const char *more,
		      struct atoll_error *err)
{
	int got = snprintf(options + *used, OPTIONS_SIZE - *used, "%s%s", text, more);

	if (got < 0 || (size_t)got >= OPTIONS_SIZE - *used)
		return error_set(err, ATOLL_FAULT_BUG, E2BIG, "too many layers");
	*used += (size_t)got;
	return 0;
}

static int add_sealed(const struct cell_layer *layer, char *options, size_t *used,
		      struct atoll_error *err)
{
	char parent[PATH_MAX];
	int r = layer_parent(layer, parent, err);

	for (size_t i = 0; r == 0 && i < layer->n_sealed; i++) {
		const char *name = layer->sealed[i] + strlen(parent);

		/* Ours are made of letters, digits and slashes. */
		if (strpbrk(name, ":,\\\"'"))
			return error_set(err, ATOLL_FAULT_BUG, 0, "layer '%s'", name);
		r = add_option(options, used, NS_STAGE_DIR "/sealed", name, err);
		if (r == 0)
			r = add_option(options, used, ":", "", err);
	}
	return r;
}

/* The kernel closes its own directories to everybody, and then their owner could not remove a
 * record either. */
static int open_work(struct atoll_error *err)
{
	static const char *const paths[] = {TOP "/work/work", TOP "/work/work/incompat",
					    TOP "/work/work/incompat/volatile"};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		if (chmod(paths[i], 0700) < 0 && (i == 0 || errno != ENOENT))
			return fail(err, "chmod", paths[i]);
	}
	return 0;
}

int layer_mount(const struct ns_mount *spot, const struct cell_layer *layer,
		const struct layer_trees *trees, size_t number, const char *target,
		struct atoll_error *err)
{
	char options[OPTIONS_SIZE], rest[256], mask[48] = "";
	size_t used = 0;
	int r = 0;

	if (mkdir(TOP, 0700) < 0 || (trees->sealed >= 0 && mkdir(NS_STAGE_DIR "/sealed", 0700) < 0))
		return fail(err, "create", TOP);
	r = trees->top < 0 ? make_top(trees->base, err) : ns_attach(trees->top, TOP, err);
	if (r == 0 && trees->sealed >= 0)
		r = ns_attach(trees->sealed, NS_STAGE_DIR "/sealed", err);
	if (r == 0)
		r = ns_make_masks(spot, trees->base, number, err);
	if (r < 0)
		return r;
	take_mark_away();
	if (spot->n_masks)
		snprintf(mask, sizeof mask, NS_STAGE_DIR "/mask-%zu:", number);
	snprintf(rest, sizeof rest,
		 "%s" NS_STAGE_DIR "/host-%zu,upperdir=" TOP "/upper,workdir=" TOP
		 "/work,userxattr,volatile",
		 mask, number);
	r = add_option(options, &used, "lowerdir=", "", err);
	if (r == 0)
		r = add_sealed(layer, options, &used, err);
	if (r == 0)
		r = add_option(options, &used, rest, "", err);
	if (r == 0 && mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, options) < 0)
		r = fail(err, "put a layer over", spot->path);
	return r < 0 ? r : open_work(err);
}

/* What is mounted in the workspace lies on a layer that an earlier step has written: a link there
 * must not lead it elsewhere. */
int layer_check_way(const struct cell *cell, const struct ns_mount *mount, struct atoll_error *err)
{
	const struct ns_mount *spot = layer_spot(cell);
	cleanup_fd int fd = -1;

	if (!spot || mount == spot || !path_is_within(mount->path, spot->path))
		return 0;
	fd = fd_openat2(AT_FDCWD, mount->path + 1, O_PATH | O_NOFOLLOW, 0,
			RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_POLICY, -fd,
				 "'%s' cannot be shown: the layer has something else in its place",
				 mount->path);
	return 0;
}

int layer_place(struct cell *cell, const struct ns_mount *spot, size_t number,
		struct atoll_error *err)
{
	struct layer_trees trees = {.base = spot->tree_fd, .top = -1, .sealed = -1};
	int r;

	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];

		if (mount->kind == NS_STAGE && !mount->kept && !mount->is_base)
			*(mount->is_writable ? &trees.top : &trees.sealed) = mount->tree_fd;
	}
	r = layer_mount(spot, layer_of(cell), &trees, number, spot->path + 1, err);
	if (r < 0)
		return r;
	/* By this descriptor the free space is watched, and what was kept in memory read. */
	cell->layer_fd = open(TOP, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return cell->layer_fd < 0 ? fail(err, "open", TOP) : 0;
}
