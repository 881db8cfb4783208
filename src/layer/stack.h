/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "layer/layer.h"

/* What the walk over all changes needs of a stack beyond layer.h. */

#define STACK_LAYERS_MAX 64 /* a bit each in struct pending of changes.c */
_Static_assert(LAYER_DEPTH_MAX < STACK_LAYERS_MAX, "the top, and the sealed ones");

/* Sealed layers of the root alone. */
int stack_open_roots(const struct layer_store *store, const struct layer_roots *roots,
		     struct layer_stack *ret, struct atoll_error *err);
bool stack_is_whiteout(const struct stat *st);
/* Does the directory `path` of a layer, open as `dir_fd`, hide what is beneath it? */
bool stack_is_opaque(const struct layer_stack *stack, size_t layer, const char *path, int dir_fd);
/* What a layer says of `path`, which is `name` in `dir_fd`: 0 and what it is, 1 if it is deleted,
 * -ENOENT if nothing. */
int stack_stat(const struct layer_stack *stack, size_t layer, const char *path, int dir_fd,
	       const char *name, struct stat *ret);
