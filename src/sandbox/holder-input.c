/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "sandbox/holder-inner.h"

#include <errno.h>
#include <string.h>

/*
 * What kept steps are given to read
 *
 * Bytes come with their offset in all that the step is ever given, and who sends them is told how
 * far they were taken. What was taken already is not taken again, so whoever does not know whether
 * he was heard simply says it once more: a client whose connection broke, or the next daemon for
 * one that was killed. That can only be kept here: between a write to a pipe and a note of it there
 * is always a moment to die in, and what dies with the holder is the command itself.
 */

void hold_input_drop(struct hold_kept *kept)
{
	if (kept->input_fd >= 0)
		close(take_fd(&kept->input_fd));
	buf_done(&kept->input);
	kept->input = (struct buf)BUF_INIT(HOLD_INPUT_MAX + 1);
	kept->input_at = 0;
}

bool hold_input_waits(const struct hold_kept *kept)
{
	return kept->input_fd >= 0 && kept->input.used > kept->input_at;
}

/* Nobody reads it any more, or all of it was said. */
static void close_input(struct hold_kept *kept)
{
	hold_input_drop(kept);
	kept->closes_input = true;
	kept->has_news = true;
}

void hold_input_move(struct hold_kept *kept)
{
	while (hold_input_waits(kept)) {
		ssize_t n = write(kept->input_fd, kept->input.data + kept->input_at,
				  kept->input.used - kept->input_at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			close_input(kept);
			return;
		}
		kept->input_at += (size_t)n;
		kept->input_written += (uint64_t)n;
		kept->has_news = true;
	}
	if (kept->input_at > 0) {
		buf_done(&kept->input);
		kept->input = (struct buf)BUF_INIT(HOLD_INPUT_MAX + 1);
		kept->input_at = 0;
	}
	if (kept->closes_input && kept->input_fd >= 0)
		close_input(kept);
}

/* Room for `size` bytes more, which is not for what was written already. */
static bool make_room(struct hold_kept *kept, size_t size)
{
	const size_t waiting = kept->input.used - kept->input_at;

	if (waiting + size > HOLD_INPUT_MAX)
		return false;
	if (kept->input_at > 0 && waiting > 0)
		memmove(kept->input.data, kept->input.data + kept->input_at, waiting);
	kept->input.used = waiting;
	kept->input_at = 0;
	return true;
}

void hold_input_take(struct hold_kept *kept, uint64_t at, const char *data, size_t size)
{
	uint64_t known;

	kept->has_news = true; /* how far it was taken is the answer */
	if (at > kept->input_taken || kept->closes_input ||
	    (!kept->has_stdin && !kept->has_terminal))
		return;
	known = kept->input_taken - at;
	if (known >= size || !make_room(kept, size - (size_t)known))
		return;
	buf_add(&kept->input, data + known, size - (size_t)known);
	if (buf_error(&kept->input) < 0) {
		close_input(kept);
		return;
	}
	kept->input_taken = at + size;
	hold_input_move(kept);
}

void hold_input_end(struct hold_kept *kept)
{
	if (kept->has_terminal || kept->closes_input)
		return;
	kept->closes_input = true;
	kept->has_news = true;
	hold_input_move(kept);
}
