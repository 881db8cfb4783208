/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "sandbox/holder-inner.h"
#include "spec/spec.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/*
 * What kept steps print
 *
 * The holder alone reads their pipes, and nobody else writes what it keeps; it ends together with
 * everything inside. So however those end who read along, no byte is lost, told twice or out of
 * order. What is short stays in the holder's memory and is sent as it is. Longer streams move to a
 * memory file that is shared with who reads along: a page with the offset of the first byte that is
 * kept, then the stream at its own offsets, of which what nobody can read any more is punched out.
 *
 * Whoever says what he needs is waited for: then the command is left to fill its pipe, and waits.
 */

/* More is kept for a while, so that not every read punches a hole. */
#define SLACK (1U << 20)

/* All windows of a sandbox together; each has at least WINDOW_MIN. */
#define WINDOWS_ALL (128U << 20)
#define WINDOW_MIN  (1U << 20)

#define PAGE 4096U

/* How long the end of all output may be ahead of the command's before it is told of alone. */
#define TOGETHER_NS (2 * INT64_C(1000000))

static char room[65536];

/* ---- its pipes ---- */

static int make_pipe(int ends[2], bool is_input, struct atoll_error *err)
{
	const int ours = is_input ? 1 : 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a pipe");
	/* Of our end alone: the command's may be anything but surprising. */
	if (fcntl(ends[ours], F_SETFL, O_NONBLOCK | (is_input ? O_WRONLY : O_RDONLY)) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "prepare a pipe");
	return 0;
}

int hold_output_open(struct hold_kept *kept, int stdio[3], struct atoll_error *err)
{
	int ends[2], r = 0;

	if (kept->has_stdin) {
		r = make_pipe(ends, true, err);
		if (r < 0)
			return r;
		stdio[0] = ends[0];
		kept->input_fd = ends[1];
	} else {
		stdio[0] = fcntl(0, F_DUPFD_CLOEXEC, 3); /* /dev/null */
	}
	for (int i = 0; i < HOLD_STREAMS; i++) {
		r = make_pipe(ends, false, err);
		if (r < 0)
			return r;
		kept->streams[i].from = ends[0];
		stdio[i + 1] = ends[1];
	}
	return 0;
}

/* ---- keeping it ---- */

static uint64_t window_size(const struct holder *holder)
{
	uint64_t size = holder->n_files ? WINDOWS_ALL / holder->n_files : ATOLL_STEP_WINDOW;

	if (size > ATOLL_STEP_WINDOW)
		return ATOLL_STEP_WINDOW;
	return size < WINDOW_MIN ? WINDOW_MIN : size;
}

static bool make_file(struct holder *holder, struct hold_stream *stream)
{
	cleanup_fd int fd = memfd_create("atoll-output", MFD_CLOEXEC);
	const uint64_t head = 0;

	if (fd < 0 || pwrite(fd, &head, sizeof head, 0) != sizeof head ||
	    (stream->size &&
	     pwrite(fd, stream->small, stream->size, HOLD_FILE_HEAD) != (ssize_t)stream->size))
		return false;
	stream->file = take_fd(&fd);
	holder->n_files++;
	free(stream->small);
	stream->small = NULL;
	return true;
}

/* First it is said, then done: whoever has read meanwhile looks again. */
static void punch(struct hold_stream *stream, uint64_t first)
{
	if (stream->need < first)
		first = stream->need;
	first &= ~(uint64_t)(PAGE - 1);
	if (first <= stream->first || pwrite(stream->file, &first, sizeof first, 0) < 0)
		return;
	fallocate(stream->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  (off_t)(HOLD_FILE_HEAD + stream->first), (off_t)(first - stream->first));
	stream->first = first;
}

static bool keep(struct holder *holder, struct hold_stream *stream, const char *data, size_t size)
{
	const uint64_t window = window_size(holder);

	if (stream->file < 0 && stream->size + size <= HOLD_SMALL) {
		if (!stream->small)
			stream->small = malloc(HOLD_SMALL);
		if (!stream->small)
			return false;
		memcpy(stream->small + stream->size, data, size);
		stream->size += size;
		return true;
	}
	if (stream->file < 0 && !make_file(holder, stream))
		return false;
	for (size_t done = 0; done < size;) {
		ssize_t n = pwrite(stream->file, data + done, size - done,
				   (off_t)(HOLD_FILE_HEAD + stream->size));

		if (n <= 0)
			return false;
		done += (size_t)n;
		stream->size += (uint64_t)n;
	}
	if (stream->size > stream->first + window + SLACK)
		punch(stream, stream->size - window);
	return true;
}

/* ---- reading ---- */

bool hold_stream_wants(const struct hold_stream *stream)
{
	return stream->from >= 0 && !stream->is_waiting;
}

static bool must_wait(const struct holder *holder, const struct hold_stream *stream)
{
	return stream->need != UINT64_MAX && stream->size > stream->need &&
	       stream->size - stream->need >= window_size(holder);
}

static uint64_t output_left(const struct holder *holder, const struct hold_kept *kept)
{
	const uint64_t limit = holder->spec->limits[SPEC_OUTPUT].value;
	const uint64_t used = kept->streams[0].size + kept->streams[1].size;

	if (limit == SPEC_UNLIMITED)
		return UINT64_MAX;
	return used < limit ? limit - used : 0;
}

/* The limit of the contract; or there is no memory for more, which must not go unnoticed. */
static void end_by_output(struct holder *holder, struct hold_kept *kept)
{
	kept->is_over_output = kept->is_forced = true;
	for (int i = 0; i < HOLD_STREAMS; i++)
		hold_close_fd(&kept->streams[i].from);
	if (kept->client)
		hold_kept_kill(holder, kept->client);
}

/* One read. 1: there may be more, 0: not now, or it is at its end. */
static int move_once(struct holder *holder, struct hold_kept *kept, int number)
{
	struct hold_stream *stream = &kept->streams[number];
	const uint64_t left = output_left(holder, kept);
	ssize_t got = read(stream->from, room, sizeof room);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	/* A terminal whose other side is closed says EIO. */
	if (got <= 0) {
		hold_close_fd(&stream->from);
		if (kept->client && !kept->client->has_end && kept->streams[!number].from < 0)
			kept->tell_ns = clock_monotonic_ns() + TOGETHER_NS;
		return 0;
	}
	if ((uint64_t)got > left)
		got = (ssize_t)left;
	kept->has_news = true;
	eventlog_output_add(&kept->output, number, room, (size_t)got);
	if (!keep(holder, stream, room, (size_t)got) || (uint64_t)got == left) {
		end_by_output(holder, kept);
		return 0;
	}
	return 1;
}

void hold_output_move(struct holder *holder, struct hold_kept *kept, int number)
{
	struct hold_stream *stream = &kept->streams[number];

	/* A few, so that one who prints much does not stop the others. */
	for (int i = 0; i < 4 && stream->from >= 0; i++) {
		stream->is_waiting = must_wait(holder, stream);
		if (stream->is_waiting || !move_once(holder, kept, number))
			return;
	}
}

void hold_output_finish(struct holder *holder, struct hold_kept *kept)
{
	for (int i = 0; i < HOLD_STREAMS; i++) {
		struct hold_stream *stream = &kept->streams[i];

		/* As much as a pipe holds: who writes on and on has not been waited for. */
		for (int n = 0; n < 20 && stream->from >= 0; n++) {
			if (!move_once(holder, kept, i))
				break;
		}
		/* Whoever lives on and writes there must not be ended by that. */
		if (stream->from >= 0 && !kept->has_terminal && holder->n_drains < HOLD_DRAINS_MAX)
			holder->drains[holder->n_drains++] = take_fd(&stream->from);
		hold_close_fd(&stream->from);
		if (stream->small && stream->size > 0 && stream->size < HOLD_SMALL / 2) {
			char *less = realloc(stream->small, stream->size);

			stream->small = less ? less : stream->small;
		}
	}
	hold_input_drop(kept);
	/* What large output has touched of it. */
	madvise((char *)(((uintptr_t)room + PAGE - 1) & ~(uintptr_t)(PAGE - 1)), sizeof room - PAGE,
		MADV_DONTNEED);
}

void hold_output_needs(struct hold_kept *kept)
{
	for (int i = 0; i < HOLD_STREAMS; i++) {
		struct hold_stream *stream = &kept->streams[i];

		stream->need = stream->left;
		for (const struct hold_watcher *at = kept->watchers; at; at = at->next) {
			if (at->fd >= 0 && at->need[i] < stream->need)
				stream->need = at->need[i];
		}
		stream->is_waiting = false; /* looked at anew with the next read */
	}
}

void hold_output_free(struct holder *holder, struct hold_kept *kept)
{
	for (int i = 0; i < HOLD_STREAMS; i++) {
		struct hold_stream *stream = &kept->streams[i];

		hold_close_fd(&stream->from);
		if (stream->file >= 0)
			holder->n_files--;
		hold_close_fd(&stream->file);
		free(stream->small);
		stream->small = NULL;
	}
	hold_input_drop(kept);
	eventlog_output_done(&kept->output);
}
