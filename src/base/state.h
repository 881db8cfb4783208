/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <limits.h>
#include <stdbool.h>

/*
 * Where what outlives a run is kept: $XDG_STATE_HOME/atoll or ~/.local/state/atoll
 *
 * Layers and the record are in it (layer/layer.h, audit/audit.h). It belongs to whoever runs atoll
 * and is open to nobody else.
 */

/* Its path, plain and absolute; it need not be there. */
int state_path(char ret[PATH_MAX], struct atoll_error *err);

/* Refuse a HOME that is no directory, where the state would be beneath it. Whoever makes
 * directories for the state asks first: a home directory that does not exist is never created. */
int state_check_home(struct atoll_error *err);

/* The directory as a descriptor, and its path. `create` makes it; without, -ENOENT and no error's
 * text if there is none. */
int state_open(bool create, char ret_path[PATH_MAX], struct atoll_error *err);
