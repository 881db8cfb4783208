/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-input.h"

#include "base/error.h"
#include "base/fd.h"
#include "sandbox/holder-detached.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/holder.h"

#include <errno.h>
#include <string.h>

/*
 * Input of detached steps
 *
 * A client sends bytes with their offset in the whole input (STEP_CALL_INPUT), and reports say up
 * to which offset the holder has accepted. Bytes below that offset are skipped. So a client that
 * does not know whether its message arrived (its connection broke, the daemon was killed) sends it
 * again. The holder must count this: a client can die between a write to the pipe and a note of it,
 * and when the holder dies the command dies, too.
 */

void holder_input_drop(struct detached_step *step)
{
	if (step->input_fd >= 0)
		close(take_fd(&step->input_fd));
	buf_done(&step->input);
	step->input = (struct buf)BUF_INIT(STEP_INPUT_MAX + 1);
	step->input_at = 0;
}

bool holder_input_should_poll(const struct detached_step *step)
{
	return step->input_fd >= 0 && step->input.used > step->input_at;
}

/* Nothing reads the input any more, or all of it is written. */
static void close_input(struct detached_step *step)
{
	holder_input_drop(step);
	step->closes_input = true;
	step->has_changed = true;
}

void holder_input_write(struct detached_step *step)
{
	while (holder_input_should_poll(step)) {
		ssize_t n = write(step->input_fd, step->input.data + step->input_at,
				  step->input.used - step->input_at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			close_input(step);
			return;
		}
		step->input_at += (size_t)n;
		step->input_written += (uint64_t)n;
		step->has_changed = true;
	}
	if (step->input_at > 0) {
		buf_done(&step->input);
		step->input = (struct buf)BUF_INIT(STEP_INPUT_MAX + 1);
		step->input_at = 0;
	}
	if (step->closes_input && step->input_fd >= 0)
		close_input(step);
}

/* Room for `size` bytes more; removes the bytes that are written already. */
static bool make_room(struct detached_step *step, size_t size)
{
	const size_t waiting = step->input.used - step->input_at;

	if (waiting + size > STEP_INPUT_MAX)
		return false;
	if (step->input_at > 0 && waiting > 0)
		memmove(step->input.data, step->input.data + step->input_at, waiting);
	step->input.used = waiting;
	step->input_at = 0;
	return true;
}

void holder_input_add(struct detached_step *step, uint64_t at, const char *data, size_t size)
{
	uint64_t known;

	step->has_changed = true; /* a report answers with the accepted offset */
	if (at > step->input_taken || step->closes_input ||
	    (!step->has_stdin && !step->has_terminal))
		return;
	known = step->input_taken - at;
	if (known >= size || !make_room(step, size - (size_t)known))
		return;
	buf_add(&step->input, data + known, size - (size_t)known);
	if (buf_error(&step->input) < 0) {
		close_input(step);
		return;
	}
	step->input_taken = at + size;
	holder_input_write(step);
}

void holder_input_end(struct detached_step *step)
{
	if (step->has_terminal || step->closes_input)
		return;
	step->closes_input = true;
	step->has_changed = true;
	holder_input_write(step);
}
