/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "base/scope.h"
#include "box/held.h"
#include "box/process.h"

#include <atoll/step.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A process, for the files that are about it
 *
 *   process.c        what it is: its struct, how it is found, its end
 *   process-start.c  its start, and finding it again after the daemon's
 *   process-io.c     who reads along
 *   process-input.c  what it is given to read
 */

#define PROCESS_INPUT_MAX (16U << 20)

struct process_own {
	struct process process; /* the first: others have a pointer to this */
	struct process **link;	/* what leads to it in the box's list */
	struct atoll_step *step;
	struct loop *loop;
	struct loop_watch watch;
	struct process_reader *readers, *resting;
	uint64_t need[PROCESS_STREAMS]; /* as told to the holder */
	struct loop_turn needs;		/* compares `need` with what readers have read */
	struct loop_timer forget;

	uint64_t signals; /* bit N-1: signal N waits for room in the holder's socket */
	struct loop_timer signal_again;

	struct buf input; /* what the holder has not got yet, from `input_at` on */
	size_t input_at;
	struct held input_held;
	uint64_t input_end; /* the offset behind the last byte of it */
	struct loop_timer input_again;
	bool closes_input;     /* when the holder has it all */
	bool has_closed_input; /* and it was told */
	struct process_input *inputs;
};

static inline struct process_own *process_own(struct process *process)
{
	return (struct process_own *)process;
}

static inline const struct process_own *process_own_const(const struct process *process)
{
	return (const struct process_own *)process;
}
