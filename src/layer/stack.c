/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/stack.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/gone.h"
#include "layer/layer-tree.h"
#include "layer/layer.h"
#include "layer/result.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

/*
 * Several layers and the base as one tree
 *
 * As overlayfs sees it: a name is what the topmost layer that speaks of it says. A directory is
 * joined with those of the same name beneath it, down to the first that is opaque, or to a layer
 * where the name is something else or deleted.
 */

#define GONE_BYTES_MAX ((size_t)256 << 20)

/* What the layer's directory `dir_fd` (`top`, or layers/ID) says in its file `gone`. */
static int read_gone(int dir_fd, struct gone **ret, struct atoll_error *err)
{
	cleanup_fd int fd = openat(dir_fd, "gone", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	cleanup_buf struct buf text = BUF_INIT(GONE_BYTES_MAX);
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0
				       : error_set(err, ATOLL_FAULT_HOST, errno,
						   "open the layer's list of deleted names");
	r = tree_read_file(fd, GONE_BYTES_MAX, &text);
	if (r == 0)
		r = gone_parse(text.data ? text.data : "", text.used, ret);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r,
				 "read the layer's list of deleted names")
		     : 0;
}

static int open_layer(int from_fd, const char *path, struct layer_stack *stack,
		      struct atoll_error *err)
{
	cleanup_fd int dir = openat(from_fd, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct gone *gone = NULL;
	int fd, r;

	if (dir < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open layer '%s'", path);
	r = read_gone(dir, &gone, err);
	if (r < 0)
		return error_context(err, r, "layer '%s'", path);
	fd = tree_open_at(dir, "upper", O_RDONLY | O_DIRECTORY, true);
	if (fd < 0) {
		gone_free(gone);
		return error_set(err, ATOLL_FAULT_HOST, -fd, "open layer '%s/upper'", path);
	}
	stack->layer_fds[stack->n] = fd;
	stack->gone[stack->n++] = gone;
	return 0;
}

static int open_base(const char *workspace, int *ret, struct atoll_error *err)
{
	int fd = open(workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open the workspace '%s'",
				 workspace);
	*ret = fd;
	return 0;
}

int layer_stack_open(const struct layer_record *record, struct layer_stack *ret,
		     struct atoll_error *err)
{
	struct layer_stack stack = {.base_fd = -1};
	char path[NAME_MAX + 16];
	int r;

	if (record->n_layers + 1 > STACK_LAYERS_MAX)
		return error_set(err, ATOLL_FAULT_BUG, E2BIG, "record %s has %zu layers",
				 record->info.id, record->n_layers);
	stack.layer_fds = calloc(record->n_layers + 1, sizeof *stack.layer_fds);
	stack.gone = calloc(record->n_layers + 1, sizeof *stack.gone);
	r = stack.layer_fds && stack.gone ? 0 : error_oom(err);
	if (r == 0)
		r = open_base(record->info.workspace, &stack.base_fd, err);
	if (r == 0)
		r = open_layer(record->fd, "top", &stack, err);
	for (size_t i = 0; i < record->n_layers && r == 0; i++) {
		snprintf(path, sizeof path, "layers/%s", record->layers[i]);
		r = open_layer(record->store.fd, path, &stack, err);
	}
	if (r < 0) {
		layer_stack_close(&stack);
		return error_context(err, r, "record %s", record->info.id);
	}
	*ret = stack;
	return 0;
}

int stack_open_roots(const struct layer_store *store, const struct layer_roots *roots,
		     struct layer_stack *ret, struct atoll_error *err)
{
	struct layer_stack stack = {.base_fd = -1};
	int r;

	stack.layer_fds = calloc(roots->n + 1, sizeof *stack.layer_fds);
	stack.gone = calloc(roots->n + 1, sizeof *stack.gone);
	r = stack.layer_fds && stack.gone ? 0 : error_oom(err);
	for (size_t i = 0; i < roots->n && r == 0; i++) {
		char path[sizeof "layers/" + ATOLL_ID_SIZE];

		snprintf(path, sizeof path, "layers/%s", roots->ids[i]);
		r = open_layer(store->fd, path, &stack, err);
	}
	if (r < 0)
		layer_stack_close(&stack);
	else
		*ret = stack;
	return r;
}

void layer_stack_close(struct layer_stack *stack)
{
	for (size_t i = 0; i < stack->n; i++) {
		close(stack->layer_fds[i]);
		gone_free(stack->gone[i]);
	}
	if (stack->base_fd >= 0)
		close(stack->base_fd);
	free(stack->layer_fds);
	free(stack->gone);
	*stack = (struct layer_stack){.base_fd = -1};
}

bool stack_is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

bool stack_is_opaque(const struct layer_stack *stack, size_t layer, const char *path, int dir_fd)
{
	char value[2];

	if (tree_get_xattr(dir_fd, "user.overlay.opaque", value, sizeof value) == 1 &&
	    value[0] == 'y')
		return true;
	return gone_is_opaque(stack->gone[layer], path);
}

int stack_stat(const struct layer_stack *stack, size_t layer, const char *path, int dir_fd,
	       const char *name, struct stat *ret)
{
	int r = tree_stat_at(dir_fd, name, true, ret);

	/* What is there counts, should a stale list say otherwise. */
	if (r == -ENOENT && gone_is_deleted(stack->gone[layer], path))
		return 1;
	return r < 0 ? r : stack_is_whiteout(ret);
}

/* Where a walk along one path stands. */
struct place {
	int fds[STACK_LAYERS_MAX]; /* of the layers that count; else -1 */
	bool is_covered;	   /* the base does not show through */
};

static void close_place(struct place *place)
{
	for (size_t i = 0; i < STACK_LAYERS_MAX; i++)
		if (place->fds[i] >= 0)
			close(place->fds[i]);
}

/* From the topmost layer that speaks of `name` on, everything beneath it ends here. */
static void drop_from(struct place *place, size_t layer)
{
	for (size_t i = layer; i < STACK_LAYERS_MAX; i++) {
		if (place->fds[i] >= 0)
			close(place->fds[i]);
		place->fds[i] = -1;
	}
	place->is_covered = true;
}

/* Go down into the directory `path`, whose last component is `name`. */
static void step_down(const struct layer_stack *stack, struct place *place, const char *path,
		      const char *name)
{
	for (size_t i = 0; i < stack->n; i++) {
		struct stat st;
		int next = -1, r;

		if (place->fds[i] < 0)
			continue;
		r = stack_stat(stack, i, path, place->fds[i], name, &st);
		if (r == 1 || (r == 0 && !S_ISDIR(st.st_mode))) {
			drop_from(place, i);
			return;
		}
		if (r == 0)
			next = tree_open_at(place->fds[i], name, O_RDONLY | O_DIRECTORY, true);
		/* What cannot be looked at must not let the base show through. */
		if (next < 0 && r != -ENOENT) {
			drop_from(place, i);
			return;
		}
		close(place->fds[i]);
		place->fds[i] = next;
		if (next >= 0 && stack_is_opaque(stack, i, path, next)) {
			drop_from(place, i + 1);
			return;
		}
	}
}

static enum layer_presence look_here(const struct layer_stack *stack, struct place *place,
				     const char *path, const char *name, size_t *ret_index,
				     struct stat *ret)
{
	for (size_t i = 0; i < stack->n; i++) {
		int r = place->fds[i] < 0 ? -ENOENT
					  : stack_stat(stack, i, path, place->fds[i], name, ret);

		if (r == 1)
			return LAYER_DELETED;
		if (r == 0) {
			*ret_index = i;
			return LAYER_PRESENT;
		}
	}
	return place->is_covered ? LAYER_COVERED : LAYER_ABSENT;
}

/* Along `path`, a copy, which is cut for a moment at each step. */
static enum layer_presence walk(const struct layer_stack *stack, struct place *place, char *path,
				size_t *ret_index, struct stat *ret)
{
	char *name = path;

	for (char *slash; (slash = strchr(name, '/')); name = slash + 1) {
		*slash = '\0';
		step_down(stack, place, path, name);
		*slash = '/';
	}
	return look_here(stack, place, path, name, ret_index, ret);
}

enum layer_presence layer_stack_look(const struct layer_stack *stack, const char *path,
				     size_t *ret_index, struct stat *ret)
{
	cleanup_with(close_place) struct place place = {0};
	cleanup_free char *copy = strdup(path);

	if (stack->result) {
		*ret_index = 0;
		memset(place.fds, -1, sizeof place.fds);
		return result_look(stack->result, path, ret);
	}
	for (size_t i = 0; i < STACK_LAYERS_MAX; i++)
		place.fds[i] = i < stack->n ? openat(stack->layer_fds[i], ".",
						     O_RDONLY | O_DIRECTORY | O_CLOEXEC)
					    : -1;
	if (!copy)
		return LAYER_COVERED;
	return walk(stack, &place, copy, ret_index, ret);
}

static int open_at(int root_fd, const char *path, bool is_ours)
{
	const char *name;
	cleanup_fd int parent = tree_open_parent(root_fd, path, is_ours, &name);

	return parent < 0 ? parent : tree_open_object(parent, name, is_ours);
}

int layer_stack_open_after(const struct layer_stack *stack, const char *path)
{
	size_t index;
	struct stat st;

	switch (layer_stack_look(stack, path, &index, &st)) {
	case LAYER_PRESENT:
		return stack->result ? result_open(stack->result, stack, path)
				     : open_at(stack->layer_fds[index], path, true);
	case LAYER_ABSENT:
		return layer_stack_open_before(stack, path);
	default:
		return -ENOENT;
	}
}

int layer_stack_open_before(const struct layer_stack *stack, const char *path)
{
	return stack->base_fd < 0 ? -ENOENT : open_at(stack->base_fd, path, false);
}

int layer_stack_open_quickly(const struct layer_stack *stack, const char *path, bool is_before,
			     struct stat *ret)
{
	/* Above the topmost layer there is nothing that could hide what it has. */
	const int root_fd = is_before			 ? stack->base_fd
			    : stack->n && !stack->result ? stack->layer_fds[0]
							 : -1;
	cleanup_fd int fd = root_fd < 0 ? -ENOENT : tree_open_quickly(root_fd, path);

	if (fd < 0)
		return fd;
	if (fstat(fd, ret) < 0 || !S_ISREG(ret->st_mode))
		return -ESTALE;
	return take_fd(&fd);
}
