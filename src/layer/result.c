/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/result.h"

#include "base/scope.h"
#include "base/str.h"
#include "layer/layer-tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum kind {
	KIND_COPY,
	KIND_KEPT,
	KIND_GONE,
};

struct entry {
	char *path;
	size_t number; /* in the order of adding */
	enum kind kind;
	int dir_fd;
	char name[32];
	struct stat st;
};

struct layer_result {
	struct entry *items;
	size_t n, room;
};

struct layer_result *result_new(void)
{
	return calloc(1, sizeof(struct layer_result));
}

void result_free(struct layer_result *result)
{
	if (!result)
		return;
	for (size_t i = 0; i < result->n; i++)
		free(result->items[i].path);
	free(result->items);
	free(result);
}

static struct entry *add(struct layer_result *result, const char *path, enum kind kind,
			 const struct stat *st)
{
	struct entry *entry;

	if (result->n == result->room) {
		size_t room = result->room ? 2 * result->room : 64;
		struct entry *more = reallocarray(result->items, room, sizeof *more);

		if (!more)
			return NULL;
		result->items = more;
		result->room = room;
	}
	entry = &result->items[result->n];
	*entry = (struct entry){
		.path = strdup(path), .number = result->n, .kind = kind, .dir_fd = -1};
	if (!entry->path)
		return NULL;
	if (st)
		entry->st = *st;
	result->n++;
	return entry;
}

static int add_with(struct layer_result *result, const char *path, enum kind kind, int dir_fd,
		    const char *name, const struct stat *st)
{
	struct entry *entry = add(result, path, kind, st);

	if (!entry)
		return -ENOMEM;
	entry->dir_fd = dir_fd;
	snprintf(entry->name, sizeof entry->name, "%s", name ? name : "");
	return 0;
}

int result_add_copy(struct layer_result *result, const char *path, int dir_fd, const char *name,
		    const struct stat *st)
{
	return add_with(result, path, KIND_COPY, dir_fd, name, st);
}

int result_add_kept(struct layer_result *result, const char *path, int dir_fd, const char *name,
		    const struct stat *st)
{
	return add_with(result, path, KIND_KEPT, dir_fd, name, st);
}

int result_add_gone(struct layer_result *result, const char *path)
{
	return add(result, path, KIND_GONE, NULL) ? 0 : -ENOMEM;
}

static int compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int order = strcmp(x->path, y->path);

	if (order)
		return order;
	return (x->number > y->number) - (x->number < y->number);
}

void result_sort(struct layer_result *result)
{
	size_t kept = 0;

	if (result->n == 0)
		return;
	qsort(result->items, result->n, sizeof *result->items, compare);
	for (size_t i = 0; i < result->n; i++) {
		if (i + 1 < result->n && streq(result->items[i].path, result->items[i + 1].path))
			free(result->items[i].path);
		else
			result->items[kept++] = result->items[i];
	}
	result->n = kept;
}

static int by_path(const void *key, const void *item)
{
	return strcmp(key, ((const struct entry *)item)->path);
}

static const struct entry *find(const struct layer_result *result, const char *path)
{
	return result->n ? bsearch(path, result->items, result->n, sizeof *result->items, by_path)
			 : NULL;
}

/* Nothing is noted at `path` itself. The nearest entry above it decides whether the base shows. */
static enum layer_presence look_above(const struct layer_result *result, const char *path)
{
	cleanup_free char *above = strdup(path);
	char *slash;

	if (!above)
		return LAYER_COVERED;
	while ((slash = strrchr(above, '/'))) {
		const struct entry *entry;

		*slash = '\0';
		entry = find(result, above);
		if (entry && entry->kind != KIND_KEPT)
			return LAYER_COVERED;
	}
	return LAYER_ABSENT;
}

enum layer_presence result_look(const struct layer_result *result, const char *path,
				struct stat *ret)
{
	const struct entry *entry = find(result, path);

	if (!entry)
		return look_above(result, path);
	if (entry->kind == KIND_GONE)
		return LAYER_DELETED;
	*ret = entry->st;
	return LAYER_PRESENT;
}

int result_open(const struct layer_result *result, const struct layer_stack *stack,
		const char *path)
{
	const struct entry *entry = find(result, path);

	if (!entry || entry->kind == KIND_GONE)
		return -ENOENT;
	return entry->name[0] ? tree_open_object(entry->dir_fd, entry->name, true)
			      : layer_stack_open_before(stack, path);
}

bool result_place(const struct layer_result *result, const char *path, int *ret_dir_fd,
		  const char **ret_name)
{
	const struct entry *entry = find(result, path);

	if (!entry || entry->kind != KIND_COPY)
		return false;
	*ret_dir_fd = entry->dir_fd;
	*ret_name = entry->name;
	return true;
}
