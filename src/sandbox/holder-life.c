/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-life.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "sandbox/holder-cell.h"
#include "sandbox/holder-eventlog.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/holder-retention.h"
#include "sandbox/holder.h"

#include <errno.h>

/*
 * Requests about the whole sandbox: freeze, thaw, stay, usage, questions about the network
 *
 * The freeze belongs to the holder and stays when the client that asked for it is gone. Deadlines
 * of detached steps do not run meanwhile.
 */

int holder_stop_inside(struct holder *holder, struct atoll_error *err)
{
	int r = holder_ask_init(holder, INIT_FREEZE, err);

	return r == -1 ? error_set(err, ATOLL_FAULT_POLICY, EBUSY,
				   "processes in the sandbox could not be stopped; try again, or "
				   "end them")
		       : r;
}

int holder_freeze(struct holder *holder, struct atoll_error *err)
{
	int r;

	if (holder->is_frozen)
		return 0;
	/* If a full event log has stopped the processes already, they stay stopped. */
	r = holder->is_live && !holder->is_stuck ? holder_stop_inside(holder, err) : 0;
	if (r < 0)
		return r;
	holder->is_frozen = true;
	holder->frozen_ns = clock_monotonic_ns();
	return 0;
}

int holder_thaw(struct holder *holder, struct atoll_error *err)
{
	(void)err;
	if (!holder->is_frozen)
		return 0;
	holder->is_frozen = false;
	detached_shift_deadlines(holder, clock_monotonic_ns() - holder->frozen_ns);
	if (!holder->is_stuck)
		holder_send_order(holder, INIT_THAW, 0, 0);
	return 0;
}

/* A client may be about to start a step. */
void holder_wake(struct holder *holder)
{
	if (!holder->is_idle)
		return;
	holder->is_idle = false;
	holder->last_step_ns = clock_monotonic_ns();
	holder_send_order(holder, INIT_READY, 0, 0);
}

int holder_stay(struct holder *holder, struct atoll_error *err)
{
	int r;

	holder->stays = holder->net.restarts = true;
	holder->last_step_ns =
		clock_monotonic_ns(); /* the sandbox does not become idle before its first step */
	holder_wake(holder);
	r = holder_open_cell(holder, err);
	return r < 0 ? r : holder_eventlog_begin(holder, err);
}

/* ---- questions about the network ---- */

enum atoll_answer_type holder_ask_later(const struct atoll_question *question, void *data)
{
	(void)question;
	(void)data;
	return ATOLL_ASK_LATER;
}

size_t holder_questions(const struct holder *holder, struct atoll_pending *ret)
{
	const int64_t now_ns = clock_monotonic_ns();
	size_t n = holder->is_live ? holder->net.n_questions : 0;

	for (size_t i = 0; i < n; i++) {
		const struct netctl_question *from = &holder->net.questions[i];

		ret[i] = (struct atoll_pending){.id = from->id,
						.left_ms = (from->until_ns - now_ns) / 1000000,
						.pid = from->pid,
						.port = from->port};
		memcpy(ret[i].program, from->program, sizeof ret[i].program);
		memcpy(ret[i].name, from->name, sizeof ret[i].name);
	}
	return n;
}

int holder_answer(struct holder *holder, const struct holder_request *request,
		  struct atoll_error *err)
{
	const uint64_t id = strtoull(request->name, NULL, 10);

	for (size_t i = 0; holder->is_live && i < holder->net.n_questions; i++) {
		if (holder->net.questions[i].id != id)
			continue;
		/* Answers that apply beyond this sandbox ("always") are not accepted here. */
		if (request->number != ATOLL_ASK_NO && request->number != ATOLL_ASK_ONCE &&
		    request->number != ATOLL_ASK_RUN)
			return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
					 "this answer is not allowed here");
		netctl_answer(&holder->net, id, (enum atoll_answer_type)request->number);
		return 0;
	}
	return error_set(err, ATOLL_FAULT_REQUEST, ENOENT,
			 "no connection waits for this answer any more");
}

void holder_read_usage(struct holder *holder, struct atoll_sandbox_usage *ret)
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
