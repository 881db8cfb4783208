/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "layer/layer.h"

/*
 * The host as it will be: copied objects over the base
 *
 * A live sandbox writes its layer while the layer is read, so a path that is opened twice may be
 * two different objects. Whoever puts something on the host, or into an archive, copies the objects
 * first (stage.c, freeze.c), notes each copy here, and lets the marks be computed from the copies:
 * a layer_stack with a `result` reads these copies and the base, and no layer.
 *
 * The order is: result_new(), result_add...() for each path, result_sort(), then any number of
 * result_look() and result_open().
 */

struct layer_result;

struct layer_result *result_new(void); /* NULL: out of memory */
void result_free(struct layer_result *result);

/* A copy: `name` in `dir_fd`, which stays the caller's. `st` is how the object will look. */
int result_add_copy(struct layer_result *result, const char *path, int dir_fd, const char *name,
		    const struct stat *st);
/* The base's object stays, with the owner and mode of `st`, and with what lies in it. `name` in
 * `dir_fd` is a copy of a directory, for whoever opens it to read its attributes; or NULL. */
int result_add_kept(struct layer_result *result, const char *path, int dir_fd, const char *name,
		    const struct stat *st);
int result_add_gone(struct layer_result *result, const char *path);
/* Of several entries for one path the one that was added last counts. */
void result_sort(struct layer_result *result);

enum layer_presence result_look(const struct layer_result *result, const char *path,
				struct stat *ret);
/* Of a path that is LAYER_PRESENT: regular files and directories for reading, else O_PATH. */
int result_open(const struct layer_result *result, const struct layer_stack *stack,
		const char *path);
/* Where a copy is; false if there is none of this path. `*ret_name` is the result's. */
bool result_place(const struct layer_result *result, const char *path, int *ret_dir_fd,
		  const char **ret_name);
