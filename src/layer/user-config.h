/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "spec/spec.h"

#include <stdbool.h>

/*
 * Files of lines in ~/.config/atoll (or $XDG_CONFIG_HOME/atoll): trusted job files, answers for
 * always, the user's own trusted names. No sandbox can write them, whatever its contract says.
 */

/* Open one of these files for reading, or with `create` for adding lines. No symbolic link is
 * followed below that directory, and a file that others can write is refused. Returns -ENOENT
 * without a message if the file does not exist. */
int user_config_open(const char *name, bool create, struct atoll_error *err);

/* Could the sandbox of this job, or an earlier one in the same place, have written the file or,
 * with SPEC_READ, read it? */
bool user_config_is_in_reach(int fd, const struct spec *spec, enum spec_access access);
