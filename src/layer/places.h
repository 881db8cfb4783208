/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

#include <atoll/error.h>
#include <stdbool.h>
#include <stddef.h>

struct spec;

/*
 * Directories whose files may be a stranger's
 *
 * The file `places` in the store: the workspace and every other writable root of each run and
 * sandbox, every directory that was filled from an archive, and what a daemon lets its tenants
 * write; each path ended by a NUL, then a "=", the directory's identity (inode and time of birth,
 * or inode and device) and a NUL. So a directory counts that was moved or renamed as well; lines of
 * older versions have the path alone. A job file in one of them may be a run's work, also when a
 * later run has another workspace (job/job-trust.c). Whatever puts files of a run, a tenant or an
 * archive on the host adds the directory before the first of these files is there.
 */

/* Add the writable roots of a run that begins. Nothing is done where there is no store and the run
 * makes none. */
int layer_places_note(const struct spec *spec, struct atoll_error *err);

/* Add directories that a daemon lets its tenants write, or that an archive is unpacked into. */
int layer_places_note_paths(char *const *paths, size_t n, struct atoll_error *err);

/* Add a directory that is going to get the name `path`, which has no links. */
int layer_places_note_new(const char *path, int dir_fd, struct atoll_error *err);

/* Append the identity of what is at `name` in `dir_fd` ("" for the descriptor's own), as the list
 * has it, ended by a NUL. Nothing if it cannot be looked at. */
void layer_place_identify(int dir_fd, const char *name, struct buf *ret);

/* The one in which one of these directories lies (paths, each ended by a NUL), or that has one of
 * these identities: `ret`, or an empty text. The store counts as well, because layers and homes of
 * sandboxes lie in it; so do workspaces of records, because older versions wrote no list. */
int layer_places_find(const struct buf *dirs, const struct buf *ids, char *ret, size_t size,
		      struct atoll_error *err);
