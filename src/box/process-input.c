/* SPDX-License-Identifier: Apache-2.0 */
#include "box/process-input.h"

#include "base/clock.h"
#include "box/held.h"
#include "box/process-state.h"
#include "box/process.h"

#include <errno.h>
#include <string.h>

/*
 * What a process is given to read
 *
 * Bytes are handed to the sandbox's holder with their offset, as far as it takes them; the rest
 * waits here, and is lost with this daemon. Who has sent them with an offset is told what the
 * holder has, and says the rest again.
 */

#define AGAIN_NS (5 * INT64_C(1000000))

static const struct atoll_step_info *info_of(const struct process_own *own)
{
	return atoll_step_info(own->step);
}

static void push(struct process_own *own);

static void fire_again(struct loop_timer *timer)
{
	push(container_of(timer, struct process_own, input_again));
}

void process_open_input(struct process_own *own)
{
	own->input = (struct buf)BUF_INIT(PROCESS_INPUT_MAX + 1);
	own->input_again.fire = fire_again;
	/* All that an earlier daemon had said is in there. */
	own->input_end = info_of(own)->input_taken;
}

void process_drop_input(struct process_own *own)
{
	loop_disarm(own->loop, &own->input_again);
	own->input_end -= own->input.used - own->input_at;
	buf_done(&own->input);
	held_drop(&own->input_held);
	own->input = (struct buf)BUF_INIT(PROCESS_INPUT_MAX + 1);
	own->input_at = 0;
}

static size_t waiting(const struct process_own *own)
{
	return own->input.used - own->input_at;
}

/* As far as it is taken now; the rest when the holder tells that there is room, or soon. */
static void push(struct process_own *own)
{
	while (waiting(own) > 0) {
		ssize_t n = atoll_step_input(own->step, own->input_end - waiting(own),
					     own->input.data + own->input_at, waiting(own));

		if (n == -EAGAIN)
			loop_arm(own->loop, &own->input_again, clock_monotonic_ns() + AGAIN_NS);
		else if (n < 0)
			process_drop_input(own); /* nobody reads it any more */
		if (n <= 0)
			return;
		own->input_at += (size_t)n;
	}
	if (own->input_at > 0)
		process_drop_input(own);
	/* It is told when it has been done. */
	if (own->closes_input && !own->has_closed_input)
		atoll_step_close_input(own->step);
	own->has_closed_input = own->closes_input;
}

/* Bytes that were handed over already are dropped from the front. */
static int queue(struct process_own *own, const char *data, size_t size)
{
	const size_t left = waiting(own);

	if (own->input_at > 0) {
		memmove(own->input.data, own->input.data + own->input_at, left);
		own->input.used = left;
		own->input_at = 0;
	}
	if (!held_set(&own->input_held, own->process.box->tenant, left + size))
		return -EAGAIN;
	buf_add(&own->input, data, size);
	if (buf_error(&own->input) < 0)
		return -EAGAIN;
	own->input_end += size;
	push(own);
	return 0;
}

bool process_input_is_closed(const struct process *process)
{
	return process->has_ended || info_of(process_own_const(process))->is_input_closed ||
	       (!process->has_stdin && !process->has_terminal);
}

int process_write(struct process *process, const void *data, size_t size)
{
	struct process_own *own = process_own(process);

	if (process_input_is_closed(process) || own->closes_input)
		return -EPIPE;
	/* All or nothing, so that who is refused can come again with the same. */
	if (waiting(own) + size > PROCESS_INPUT_MAX)
		return -EAGAIN;
	return size > 0 ? queue(own, data, size) : 0;
}

int process_write_at(struct process *process, uint64_t at, const void *data, size_t size)
{
	const uint64_t end = process_own(process)->input_end;

	if (at > end)
		return -ERANGE;
	if (end - at >= size)
		return 0;
	return process_write(process, (const char *)data + (end - at), size - (size_t)(end - at));
}

uint64_t process_input_taken(const struct process *process)
{
	return info_of(process_own_const(process))->input_taken;
}

uint64_t process_input_end(const struct process *process)
{
	return process_own_const(process)->input_end;
}

int process_close_stdin(struct process *process)
{
	struct process_own *own = process_own(process);

	if (process->has_terminal)
		return -ENOTTY;
	if (process_input_is_closed(process))
		return 0;
	own->closes_input = true;
	if (waiting(own) == 0)
		push(own);
	return 0;
}

/* ---- who waits until it is taken ---- */

void process_await_input(struct process *process, struct process_input *input)
{
	struct process_own *own = process_own(process);

	input->process = process;
	input->next = own->inputs;
	own->inputs = input;
}

void process_leave_input(struct process_input *input)
{
	struct process_input **at;

	if (!input->process)
		return;
	at = &process_own(input->process)->inputs;
	while (*at && *at != input)
		at = &(*at)->next;
	if (*at)
		*at = input->next;
	input->process = NULL;
}

/* Whoever is told may leave, and nobody else. */
void process_input_moved(struct process_own *own)
{
	push(own);
	for (struct process_input *at = own->inputs, *next; at; at = next) {
		next = at->next;
		at->moved(at);
	}
}

void process_drop_waiters(struct process_own *own)
{
	while (own->inputs) {
		struct process_input *input = own->inputs;

		own->inputs = input->next;
		input->process = NULL;
		input->moved(input);
	}
}
