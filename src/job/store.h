/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "spec/spec.h"

#include <stdbool.h>

/*
 * The user's own words, in files of lines in ~/.config/atoll (or $XDG_CONFIG_HOME/atoll), which no
 * sandbox can write, whatever its contract says
 */

/* Open one of them for reading, or with `create` for adding lines. Nothing on the way below that
 * directory is a link, and nobody else can write it. -ENOENT, with no story, if there is none. */
int store_open(const char *name, bool create, struct atoll_error *err);

/* Could the sandbox of this job, or an earlier one in the same place, have written the file or,
 * with SPEC_READ, read it? */
bool store_is_in_reach(int fd, const struct spec *spec, enum spec_access access);
