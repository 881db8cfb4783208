/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Layers made by hand, for tests
 *
 * A record with `n` layers in a temporary directory, the topmost being number 0, and a base. A
 * path's missing directories are made. All functions end the test if they fail.
 */

#include "base/test.h"
#include "layer/layer.h"

#define BASE ((size_t)-1)

struct layers;
struct layers *layers_new(size_t n);
void layers_done(struct layers *l); /* at the end of the program otherwise */
struct layer_record *layers_record(struct layers *l);
int layers_fd(struct layers *l, size_t layer);

void layers_dir(struct layers *l, size_t layer, const char *path);
void layers_file(struct layers *l, size_t layer, const char *path, const char *text);
void layers_bytes(struct layers *l, size_t layer, const char *path, const void *data, size_t size);
/* In place: the same inode. */
void layers_write(struct layers *l, size_t layer, const char *path, const char *text);
void layers_sparse(struct layers *l, size_t layer, const char *path, off_t size, const char *text,
		   off_t at);
void layers_link(struct layers *l, size_t layer, const char *path, const char *target);
void layers_hard_link(struct layers *l, size_t layer, const char *path, const char *other);
void layers_fifo(struct layers *l, size_t layer, const char *path);
void layers_chmod(struct layers *l, size_t layer, const char *path, mode_t mode);
void layers_touch(struct layers *l, size_t layer, const char *path, time_t seconds);
void layers_xattr(struct layers *l, size_t layer, const char *path, const char *name,
		  const char *value);
void layers_remove(struct layers *l, size_t layer, const char *path);
void layers_rmdir(struct layers *l, size_t layer, const char *path);
void layers_rename(struct layers *l, size_t layer, const char *path, const char *to);
/* "d/d/d/...", and away with it. */
void layers_deep(struct layers *l, size_t layer, size_t depth);
void layers_deep_remove(struct layers *l, size_t layer);

/* As the overlay does it. */
void layers_whiteout(struct layers *l, size_t layer, const char *path);
void layers_opaque(struct layers *l, size_t layer, const char *path);
void layers_copy_up(struct layers *l, size_t layer, const char *path); /* with its origin */
void layers_gone(struct layers *l, size_t layer, const char *text, size_t size);

/* The run begins now: what changes in the base from here on is the host's. */
void layers_begin(struct layers *l);

/* Read the changes. layers_try() tells how that went; layers_read() takes it to succeed. */
int layers_try(struct layers *l);
struct atoll_changes *layers_read(struct layers *l);
/* Of what was read, a line each: "C path content mode (mark): conflict". */
const char *layers_words(struct layers *l);
