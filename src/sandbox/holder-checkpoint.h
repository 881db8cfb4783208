/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stdint.h>

struct checkpoint_step;
struct holder;

/* Make a checkpoint of the live sandbox; it locks the record meanwhile. `name` NULL: "step-N". */
int holder_checkpoint(struct holder *holder, const char *name, const struct checkpoint_step *step,
		      char ret_name[64], struct atoll_error *err);
/* Return to a checkpoint. `*ret_ended` is the number of processes that were ended. */
int holder_rollback(struct holder *holder, const char *name, uint64_t *ret_ended,
		    struct atoll_error *err);
