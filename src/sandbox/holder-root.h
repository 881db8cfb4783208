/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stdbool.h>

struct holder;

/* Does the cell have a private root (`root: layer`, as root) whose files are kept? */
bool holder_has_root(const struct holder *holder);
/* The cell was just built on holder->root_below. */
void holder_root_begin(struct holder *holder);
/* Are the files in the root the ones that the record names? True without a root. */
bool holder_root_is_current(const struct holder *holder);
/* Copy the root if it has changed, and set it in the record, which the caller has locked and saves.
 * `is_quiet`: no process is inside; else all are stopped. */
int holder_copy_root(struct holder *holder, bool is_quiet, struct atoll_error *err);
/* The cell ends: copy the root unless holder->drops_root, and close its storage. */
void holder_root_end(struct holder *holder);
/* Handle HOLDER_SAVE: copy the root and end the cell; on failure neither. */
int holder_save(struct holder *holder, struct atoll_error *err);
