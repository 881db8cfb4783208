/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/select.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "layer/layer.h"
#include "layer/vet.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

/* ---- paths that a person named ---- */

/* Free of links but for the last component, which is what is meant. NULL if there is no way. */
static char *real_path(const char *path)
{
	cleanup_free char *copy = strdup(path);
	char above[PATH_MAX], *slash = copy ? strrchr(copy, '/') : NULL;

	if (!slash)
		return NULL;
	*slash = '\0';
	if (!realpath(*copy ? copy : "/", above))
		return NULL;
	return path_join(above, slash + 1);
}

/* Beneath the workspace, in fresh memory ("" is all of it); NULL if it lies outside. */
static char *beneath(const char *workspace, const char *path)
{
	const char *rest = path + strlen(workspace);

	if (!path_is_within(path, workspace))
		return NULL;
	while (*rest == '/')
		rest++;
	return strdup(rest);
}

static char *wish(const char *workspace, const char *typed)
{
	cleanup_free char *whole = NULL, *real = NULL;
	char cwd[PATH_MAX];
	char *found;

	/* Who stands elsewhere means the workspace. */
	if (!getcwd(cwd, sizeof cwd) || !path_is_within(cwd, workspace))
		snprintf(cwd, sizeof cwd, "%s", workspace);
	whole = typed[0] == '/' ? strdup(typed) : path_join(cwd, typed);
	if (!whole)
		return NULL;
	path_normalize(whole);
	found = beneath(workspace, whole);
	if (found)
		return found;
	real = real_path(whole);
	return real ? beneath(workspace, real) : NULL;
}

static void free_wishes(char ***wishes)
{
	for (size_t i = 0; *wishes && (*wishes)[i]; i++)
		free((*wishes)[i]);
	free(*wishes);
}

static int read_wishes(const struct layer_record *record, char *const *paths, char ***ret,
		       struct atoll_error *err)
{
	cleanup_with(free_wishes) char **wishes = NULL;
	size_t n = 0;

	while (paths[n])
		n++;
	wishes = calloc(n + 1, sizeof *wishes);
	if (!wishes)
		return error_oom(err);
	for (size_t i = 0; i < n; i++) {
		/* A variable that is not set must not mean all. */
		if (!paths[i][0])
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "a path is empty; '.' is the whole workspace");
		wishes[i] = wish(record->info.workspace, paths[i]);
		if (!wishes[i])
			return error_set(
				err, ATOLL_FAULT_REQUEST, 0,
				"'%.200s' lies outside the workspace '%.200s' of record %s",
				paths[i], record->info.workspace, record->info.id);
	}
	*ret = take_ptr(wishes);
	return 0;
}

/* Is `path` this one or beneath it? */
static bool is_at_or_beneath(const char *path, const char *above)
{
	size_t length = strlen(above);

	return length == 0 ||
	       (strncmp(path, above, length) == 0 && (path[length] == '/' || path[length] == '\0'));
}

/* ---- fates ---- */

static int compare_paths(const void *a, const void *b, void *data)
{
	const struct atoll_changes *list = data;

	return strcmp(list->items[*(const size_t *)a].path, list->items[*(const size_t *)b].path);
}

size_t *select_order(const struct atoll_changes *list)
{
	size_t *order = calloc(list->n ? list->n : 1, sizeof *order);

	if (!order)
		return NULL;
	for (size_t i = 0; i < list->n; i++)
		order[i] = i;
	if (list->n)
		qsort_r(order, list->n, sizeof *order, compare_paths, (void *)list);
	return order;
}

static void select_named(struct plan *plan, const char *named, size_t *ret_n)
{
	const struct atoll_changes *list = &plan->changes->list;
	enum fate *fates = plan->fates;

	*ret_n = 0;
	for (size_t i = 0; i < list->n; i++) {
		const struct atoll_change *change = &list->items[i];
		/* Of a rename the new name: the old one is no file that the host would obey. */
		bool is_named = streq(change->path, named);

		if (!is_named && !is_at_or_beneath(change->path, named) &&
		    !(change->from && is_at_or_beneath(change->from, named)))
			continue;
		++*ret_n;
		plan->named[i] |= is_named;
		if (!change->mark || is_named)
			fates[i] = FATE_APPLIED;
		else if (fates[i] == FATE_LEFT)
			fates[i] = FATE_HELD;
	}
}

static int select_by_path(struct plan *plan, struct atoll_error *err)
{
	const struct layer_record *record = plan->site->record;
	char *const *paths = plan->options->paths;
	cleanup_with(free_wishes) char **wishes = NULL;
	int r = read_wishes(record, paths, &wishes, err);
	size_t n;

	if (r < 0)
		return r;
	for (size_t i = 0; wishes[i]; i++) {
		select_named(plan, wishes[i], &n);
		if (n == 0 && wishes[i][0])
			return error_set(err, ATOLL_FAULT_REQUEST, ENOENT,
					 "record %s has no change at '%.300s'", record->info.id,
					 paths[i]);
	}
	return 0;
}

size_t select_find(const struct atoll_changes *list, const size_t *order, const char *path)
{
	size_t low = 0, high = list->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(list->items[order[middle]].path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < list->n && streq(list->items[order[low]].path, path) ? order[low] : list->n;
}

static bool makes_directory(const struct atoll_change *change)
{
	return S_ISDIR(change->after.st_mode) && !S_ISDIR(change->before.st_mode);
}

/* What removes a directory: by deleting it, or by putting something else in its place. */
static bool removes_directory(const struct atoll_change *change)
{
	return S_ISDIR(change->before.st_mode) && !S_ISDIR(change->after.st_mode) &&
	       change->kind != ATOLL_RENAMED;
}

static void for_each_above(const struct atoll_changes *list, const size_t *order, const char *path,
			   enum fate *fates, bool is_kept)
{
	cleanup_free char *above = strdup(path);
	char *slash;

	while (above && (slash = strrchr(above, '/'))) {
		size_t i;

		*slash = '\0';
		i = select_find(list, order, above);
		if (i == list->n)
			continue;
		if (is_kept) {
			if (removes_directory(&list->items[i]) && fates[i] == FATE_APPLIED)
				fates[i] = list->items[i].kind == ATOLL_DELETED ? FATE_LEFT
										: FATE_HELD;
		} else if (makes_directory(&list->items[i])) {
			fates[i] = FATE_APPLIED;
		}
	}
}

/* Directories that are needed come along; those in which something stays, stay. */
static void close_over(const struct atoll_changes *list, const size_t *order, enum fate *fates)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct atoll_change *change = &list->items[i];
		bool is_there_after = change->kind != ATOLL_DELETED;

		if (fates[i] == FATE_APPLIED && is_there_after)
			for_each_above(list, order, change->path, fates, false);
		if (fates[i] == FATE_APPLIED)
			continue;
		if (change->kind == ATOLL_DELETED)
			for_each_above(list, order, change->path, fates, true);
		if (change->from)
			for_each_above(list, order, change->from, fates, true);
	}
}

/* What was found to be marked, or other than shown, when it had been copied. */
static void hold_back(struct plan *plan)
{
	for (size_t i = 0; plan->holds->n && i < plan->changes->list.n; i++)
		if (plan->fates[i] == FATE_APPLIED &&
		    holds_find(plan->holds, plan->changes->list.items[i].path))
			plan->fates[i] = FATE_HELD;
}

int select_changes(struct plan *plan, struct atoll_error *err)
{
	const struct atoll_apply_options *options = plan->options;
	const struct atoll_changes *list = &plan->changes->list;
	enum fate *fates = plan->fates;
	int r = 0;

	if (options->pick) {
		for (size_t i = 0; i < list->n; i++)
			if (options->pick(&list->items[i], options->data))
				fates[i] = FATE_APPLIED;
	} else if (options->paths && options->paths[0]) {
		r = select_by_path(plan, err);
	} else {
		for (size_t i = 0; i < list->n; i++)
			fates[i] = list->items[i].mark ? FATE_HELD : FATE_APPLIED;
	}
	hold_back(plan);
	if (r == 0)
		close_over(list, plan->order, fates);
	/* A directory that is needed comes along, but not one that was held back just now. */
	hold_back(plan);
	return r;
}
