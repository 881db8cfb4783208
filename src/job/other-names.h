/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

/* Add every other path that a mount gives to what is at `path`, a path without links; each ended by
 * a NUL. Nothing is added twice. */
void other_names_add(const char *path, struct buf *names);
