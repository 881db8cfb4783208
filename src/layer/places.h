/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

#include <atoll/error.h>
#include <stdbool.h>
#include <stddef.h>

struct spec;

/*
 * Where runs have written
 *
 * The file `places` in the store: the workspace and every other writable root of each run and
 * sandbox, each path ended by a NUL. A job file in one of them may be a run's work, also when a
 * later run has another workspace (job-trust.c).
 */

/* Add the writable roots of a run that begins. Nothing is done where there is no store and the run
 * makes none. */
int layer_places_note(const struct spec *spec, struct atoll_error *err);

/* Add directories that a daemon lets its tenants write. */
int layer_places_note_paths(char *const *paths, size_t n, struct atoll_error *err);

/* The one in which one of these directories lies (paths, each ended by a NUL): `ret`, or an empty
 * text. Workspaces of records count as well: older versions wrote no list. */
int layer_places_find(const struct buf *dirs, char *ret, size_t size, struct atoll_error *err);
