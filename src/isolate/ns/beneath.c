/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "isolate/ns/cell.h"
#include "spec/spec.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/*
 * What is mounted beneath a tree that is copied alone
 *
 * An overlay shows one file system. Where a layer hides names of a tree, or takes what is written
 * there, root's copy of the tree is made without the mounts beneath it, and each of them would show
 * what it covers: the /etc/hosts of an image instead of that of a container, a file that somebody
 * has covered with /dev/null. So each mount beneath gets a line of its own in the list, and is put
 * on top of the layer, read-only. A directory in a tree that can be written inside gets a layer of
 * its own, if its file system can map ids.
 *
 * prepare.c calls beneath_prepare() when all masks are known. Masks that lie in such a mount move
 * to it. Left out is what a mask or a line of the contract hides, and what lies beneath a directory
 * that others cannot pass: nobody inside gets there. An ordinary user's copies come with all mounts
 * beneath them, because the kernel locks these together.
 */

/* Nothing but this way shows what is mounted beneath it. */
static bool is_alone(const struct ns_mount *mount)
{
	return mount->kind == NS_BIND && mount->is_dir && !mount->is_layer && !mount->is_writable &&
	       (mount->n_masks || mount->is_ephemeral);
}

static bool is_masked(const struct ns_mount *tree, const char *relative)
{
	for (size_t i = 0; i < tree->n_masks; i++) {
		const size_t length = strlen(tree->masks[i]);

		if (strncmp(tree->masks[i], relative, length) == 0 &&
		    (relative[length] == '/' || !relative[length]))
			return true;
	}
	return false;
}

/* The contract has made something else of the place, or of one above it. */
static bool is_taken(const struct cell *cell, size_t tree, const char *path)
{
	/* users_place() writes them in the layer. */
	if (cell->passwd && (streq(path, "/etc/passwd") || streq(path, "/etc/group")))
		return true;
	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];

		if (i != tree && mount->kind != NS_STAGE && path_is_within(path, mount->path) &&
		    path_is_within(mount->path, cell->mounts[tree].path))
			return true;
	}
	return false;
}

/* May others pass every directory between the tree, whose name has `from` bytes, and the point? */
static bool is_passable(const char *point, size_t from)
{
	char part[PATH_MAX];
	struct stat st;

	for (size_t i = from; point[i]; i++) {
		if (point[i] != '/')
			continue;
		snprintf(part, sizeof part, "%.*s", (int)i, point);
		if (lstat(part, &st) < 0 || !S_ISDIR(st.st_mode) || !(st.st_mode & S_IXOTH))
			return false;
	}
	return true;
}

/* Masks beneath the mount belong to the new line from now on. */
static int move_masks(struct ns_mount *tree, struct ns_mount *mount, struct atoll_error *err)
{
	const char *relative = mount->path + strlen(tree->path) + 1;
	const size_t length = strlen(relative);
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < tree->n_masks; i++) {
		char *mask = tree->masks[i];
		char path[PATH_MAX];

		if (r < 0 || strncmp(mask, relative, length) != 0 || mask[length] != '/') {
			tree->masks[n++] = mask;
			continue;
		}
		snprintf(path, sizeof path, "%s/%s", tree->path, mask);
		if (mount->is_dir)
			r = ns_add_mask(mount, path, err);
		free(mask);
	}
	tree->n_masks = n;
	return r;
}

static int add_point(struct cell *cell, size_t number, const char *point, struct atoll_error *err)
{
	struct ns_mount *tree = &cell->mounts[number], *mount;
	const size_t from = strlen(ns_source(tree));
	const char *relative = point + from + 1;
	const struct spec_rule *rule = spec_rule_for(cell->spec, point);
	char path[2 * PATH_MAX];
	struct stat st;

	snprintf(path, sizeof path, "%s/%s", tree->path, relative);
	if (is_masked(tree, relative) || (rule && rule->access == SPEC_HIDE) ||
	    is_taken(cell, number, path) || !is_passable(point, from) || lstat(point, &st) < 0)
		return 0;
	mount = ns_add_mount(cell, NS_BIND, path);
	if (!mount || !(mount->source = strdup(point)))
		return error_oom(err);
	tree = &cell->mounts[number]; /* the list may have moved */
	mount->rule = tree->rule;
	mount->is_explicit = tree->is_explicit;
	mount->is_dir = S_ISDIR(st.st_mode);
	mount->is_nested = mount->is_beneath = true;
	mount->is_moved = tree->is_moved;
	mount->dev = st.st_dev;
	mount->ino = st.st_ino;
	mount->is_ephemeral = tree->is_ephemeral && mount->is_dir && public_can_mount(point) &&
			      ids_can_map(point);
	mount->is_public = tree->is_public && mount->is_ephemeral;
	return move_masks(tree, mount, err);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* In order, so that a mount comes before those in it. */
static int add_points(struct cell *cell, size_t number, struct atoll_error *err)
{
	char point[PATH_MAX], **points = NULL;
	size_t n = 0;
	int r = 0;

	for (const char *at = ns_mounted(); r == 0 && ns_next_mounted(&at, point);) {
		char **grown;

		if (streq(point, ns_source(&cell->mounts[number])) ||
		    !path_is_within(point, ns_source(&cell->mounts[number])))
			continue;
		grown = realloc(points, (n + 1) * sizeof *grown);
		points = grown ? grown : points;
		if (!grown || !(points[n] = strdup(point)))
			r = error_oom(err);
		else
			n++;
	}
	if (n)
		qsort(points, n, sizeof *points, by_text);
	for (size_t i = 0; i < n; i++) {
		if (r == 0)
			r = add_point(cell, number, points[i], err);
		free(points[i]);
	}
	free(points);
	return r;
}

int beneath_prepare(struct cell *cell, struct atoll_error *err)
{
	int r = 0;

	if (!cell->ids.is_shifted)
		return 0;
	/* Lines that are added here are visited by the same loop. */
	for (size_t i = 0; r == 0 && i < cell->n_mounts; i++) {
		if (!is_alone(&cell->mounts[i]))
			continue;
		if (!ns_mounted())
			return error_set(err, ATOLL_FAULT_HOST, 0,
					 "read '/proc/self/mountinfo', to show what is mounted in "
					 "'%s'",
					 cell->mounts[i].path);
		r = add_points(cell, i, err);
	}
	return r;
}
