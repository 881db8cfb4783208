/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stdbool.h>
#include <stddef.h>

struct detached_step;
struct holder;

/* Copy an attached step's invocation from `fd` into a sealed memory file, with the placeholders of
 * this cell's secrets. The client cannot change the copy. Returns the descriptor. */
int invocation_copy(const struct holder *holder, int fd, struct atoll_error *err);
/* The same for a detached step: environment and directory come from the contract, and `invocation`
 * (checked by invocation_is_valid()) adds to them. Sets step->user. */
int invocation_build(const struct holder *holder, struct detached_step *step,
		     const char *invocation, struct atoll_error *err);
/* Is it a struct init_step_head with all its texts, and nothing behind them? */
bool invocation_is_valid(const char *invocation, size_t size);
