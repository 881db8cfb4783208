/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "job/hold-inner.h"
#include "spec/spec.h"

#include <errno.h>

/*
 * The whole of a sandbox: frozen, counted, with other network rules
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

/* ---- other network rules ---- */

#define RULES_MAX (1U << 20)

/* Nobody is inside, and nobody waits for anything: it can be built anew. */
static bool is_empty(struct holder *holder)
{
	struct atoll_error err;

	return hold_running(holder) == 0 && !holder->is_frozen &&
	       (!holder->is_live || hold_ask_init(holder, INIT_REST, &err) == 0);
}

static void swap(struct network *a, struct network *b)
{
	struct network other = *a;

	*a = *b;
	*b = other;
}

/* The contract's own network changes: all that is made from now on is made by it. Where it cannot
 * be, it stays as it was. */
static int change(struct holder *holder, struct network *other, struct atoll_error *err)
{
	struct network *network = &((struct spec *)holder->spec)->network;
	int r;

	if (is_empty(holder)) {
		hold_close_cell(holder, NULL);
		swap(network, other);
		r = holder->stays ? hold_open_cell(holder, err) : 0;
		if (r < 0)
			swap(network, other);
		return r;
	}
	swap(network, other);
	r = net_replace(&holder->net, other, err);
	if (r < 0)
		swap(network, other);
	return r;
}

int hold_set_network(struct holder *holder, int fd, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(RULES_MAX);
	struct network other;
	int r = fd < 0 || lseek(fd, 0, SEEK_SET) < 0 ? -EBADMSG : fd_read_all(fd, &text);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, -r, "read the network's rules");
	r = spec_read_network(holder->spec, text.data ? text.data : "", text.used, &other, err);
	if (r < 0)
		return r;
	r = change(holder, &other, err);
	network_done(&other);
	if (r == 0 && holder->recorder)
		record_decision(holder->recorder, "network", "other rules");
	return r;
}
