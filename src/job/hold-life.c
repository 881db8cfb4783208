/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "job/hold-inner.h"

#include <errno.h>

/*
 * The whole of a sandbox: frozen, counted
 *
 * Frozen is a state of the holder's: it outlasts whoever has asked for it. Time-outs of steps stand
 * still meanwhile.
 */

int hold_freeze(struct holder *holder, struct atoll_error *err)
{
	int r;

	if (holder->is_frozen)
		return 0;
	/* What the record has stopped stays so. */
	r = holder->is_live && !holder->is_stuck ? hold_ask_init(holder, INIT_FREEZE, err) : 0;
	if (r == -1)
		return error_set(err, ATOLL_FAULT_POLICY, EBUSY,
				 "processes in the sandbox could not be stopped; try again, or end "
				 "them");
	if (r < 0)
		return r;
	holder->is_frozen = true;
	holder->frozen_ns = clock_monotonic_ns();
	return 0;
}

int hold_thaw(struct holder *holder, struct atoll_error *err)
{
	(void)err;
	if (!holder->is_frozen)
		return 0;
	holder->is_frozen = false;
	hold_kept_shift(holder, clock_monotonic_ns() - holder->frozen_ns);
	if (!holder->is_stuck)
		hold_order(holder, INIT_THAW, 0, 0);
	return 0;
}

void hold_count(struct holder *holder, struct atoll_sandbox_usage *ret)
{
	struct cell_usage usage = {0};

	*ret = (struct atoll_sandbox_usage){.steps = holder->n_steps,
					    .is_frozen = holder->is_frozen};
	if (!holder->is_live)
		return;
	holder->backend->account(holder->cell, &usage);
	ret->cpu_ms = usage.cpu_ms;
	ret->memory_peak = usage.memory_peak;
	ret->memory = usage.memory;
	ret->processes = usage.processes;
	ret->disk = usage.written;
	ret->bytes_in = holder->net.received;
	ret->bytes_out = holder->net.sent;
}
