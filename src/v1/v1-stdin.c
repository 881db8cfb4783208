/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-stdin.h"

#include "base/clock.h"
#include "base/scope.h"
#include "v1/v1-error.h"
#include "v1/v1-form.h"
#include "v1/v1-step.h"
#include "v1/v1-wait.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/*
 * Bytes for the standard input or the terminal of a step
 *
 * Without an offset the bytes are written once for each request. With one, `offset` is the number
 * of bytes that the step got before these, and the answer is the number that the holder has
 * accepted. The holder outlives the daemon: bytes that are sent again are not written again. The
 * answer waits until all bytes are accepted, or for a while: a command that does not read accepts
 * no more.
 */

#define PIECE_MAX (4U << 20)
#define WAIT_NS	  (20 * INT64_C(1000000000))

struct offer {
	struct v1_wait wait;
	struct process_input input;
	struct loop_timer timer;
	uint64_t end;
	bool eof;
};

static void answer_accepted(struct api_call *call, const struct process *process)
{
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct json json = {.out = &out};

	json_open(&json, NULL, '{');
	json_uint(&json, "taken", process_input_taken(process));
	json_bool(&json, "closed", process_input_is_closed(process));
	json_close(&json, '}');
	api_answer(call, 200, &out);
}

static void end_offer(struct offer *offer)
{
	struct process *process = offer->input.process;
	struct api_call *call = v1_wait_end(&offer->wait);

	loop_disarm(daemon_loop(offer->wait.daemon), &offer->timer);
	process_leave_input(&offer->input);
	free(offer);
	if (call && process)
		answer_accepted(call, process);
	else if (call)
		v1_refuse(call, 409, "conflict", "the step is gone");
}

static bool is_over(const struct offer *offer)
{
	const struct process *process = offer->input.process;

	if (!process || process->has_ended)
		return true;
	if (process_input_is_closed(process))
		return true;
	return !offer->eof && process_input_taken(process) >= offer->end;
}

static void on_moved(struct process_input *input)
{
	struct offer *offer = (struct offer *)((char *)input - offsetof(struct offer, input));

	if (is_over(offer))
		end_offer(offer);
}

static void on_late(struct loop_timer *timer)
{
	end_offer((struct offer *)((char *)timer - offsetof(struct offer, timer)));
}

static void on_gone(struct api_call *call, bool is_broken)
{
	struct offer *offer = call->own;

	(void)is_broken;
	offer->wait.call = NULL;
	end_offer(offer);
}

static void wait_for(struct api_call *call, struct process *process, uint64_t end, bool eof)
{
	struct offer *offer = v1_wait_new(call, sizeof *offer, process->box);

	if (!offer)
		return;
	offer->end = end;
	offer->eof = eof;
	offer->input.moved = on_moved;
	offer->timer.fire = on_late;
	call->over = on_gone;
	process_await_input(process, &offer->input);
	if (is_over(offer))
		end_offer(offer);
	else
		loop_arm(daemon_loop(offer->wait.daemon), &offer->timer,
			 clock_monotonic_ns() + WAIT_NS);
}

static void write_at(struct api_call *call, struct process *process, uint64_t at, const char *data,
		     size_t size, bool eof)
{
	int r = process_write_at(process, at, data, size);
	char details[64];

	snprintf(details, sizeof details, "\"taken\":%" PRIu64, process_input_taken(process));
	if (r == -ERANGE)
		v1_refuse_with(call, 409, "conflict", details,
			       "bytes before offset %" PRIu64 " are missing", at);
	else if (r < 0)
		v1_answer_change(call, process->has_ended ? -ESRCH : r);
	else if (eof && (r = process_close_stdin(process)) < 0)
		v1_answer_change(call, r);
	else
		wait_for(call, process, at + size, eof);
}

static void write_body(struct exchange *exchange, const char *data, size_t size, void *own)
{
	struct api_call *call = own;
	struct process *process;
	struct box *box;
	uint64_t at;
	bool eof;
	int r = 0;

	(void)exchange;
	if (!v1_query_bool(call, "eof", &eof) ||
	    !v1_query_uint(call, "offset", UINT64_MAX, INT64_MAX, &at))
		return;
	process = v1_step(call, &box, NULL);
	if (!process)
		return;
	if (at != UINT64_MAX) {
		write_at(call, process, at, data, size, eof);
		return;
	}
	if (size > 0)
		r = process->has_ended ? -ESRCH : process_write(process, data, size);
	if (r == 0 && eof)
		r = process_close_stdin(process);
	v1_answer_change(call, r);
}

void v1_step_stdin(struct api_call *call)
{
	exchange_read_whole(call->exchange, PIECE_MAX, write_body, call);
}
