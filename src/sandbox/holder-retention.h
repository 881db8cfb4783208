/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stddef.h>
#include <stdint.h>

struct detached_step;
struct holder;

/* The next number of a detached step; never used twice in the life of a sandbox. */
uint32_t detached_next_number(struct holder *holder);
/* Write the key of a step that is about to start into the record, so that a later holder refuses to
 * start it again. `*ret` is the slot for detached_key_remove(). -EALREADY: an earlier holder has
 * started this key. */
int detached_key_add(struct holder *holder, const char *key, size_t *ret, struct atoll_error *err);
void detached_key_remove(const struct holder *holder, size_t slot);
/* By key, or by number if `key` is NULL; NULL if there is none. */
struct detached_step *detached_find(struct holder *holder, uint32_t number, const char *key);
/* Move an ended step that has got a watcher back to holder->detached; else do nothing. */
void detached_revive(struct holder *holder, struct detached_step *step);
/* Kill steps whose deadline has passed; forget needs of watchers that did not come back. */
void detached_check_times(struct holder *holder);
/* The next time at which a function of this file or watchers_send_reports() has work. */
int64_t detached_deadline_ns(const struct holder *holder);
/* Move ended steps to holder->ended, and free the oldest. Steps and watchers are freed only here:
 * pointers to them stay valid through one round of the loop. */
void detached_sweep(struct holder *holder);
/* After a thaw: deadlines did not run while the sandbox was frozen. */
void detached_shift_deadlines(struct holder *holder, int64_t by_ns);
