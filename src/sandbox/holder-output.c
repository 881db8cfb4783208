/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-output.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "sandbox/holder-detached-end.h"
#include "sandbox/holder-detached.h"
#include "sandbox/holder-input.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/holder.h"
#include "spec/spec.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/*
 * Output of detached steps
 *
 * Only the holder reads the step's pipes and writes the stored output, and it ends together with
 * everything inside. So no byte is lost, repeated or out of order, however clients end. A stream of
 * at most STEP_SMALL_OUTPUT bytes is kept in the holder's memory and sent in reports. A longer one
 * moves to a memory file that clients read: a page with the offset of the first stored byte, then
 * the stream at its own offsets. Old bytes are removed by punching holes, so that a window of the
 * latest bytes stays.
 *
 * A watcher can send the offset that it still needs (STEP_CALL_NEED). Then the holder stops reading
 * when the window is full, the pipe fills, and the command blocks.
 */

/* So many bytes more than the window are kept, so that not every read punches a hole. */
#define SLACK (1U << 20)

/* The windows of all streams of a sandbox together; each is at least WINDOW_MIN. */
#define WINDOWS_ALL (128U << 20)
#define WINDOW_MIN  (1U << 20)

#define PAGE 4096U

/* The end of output often comes just before the end of the command: one report for both waits this
 * long. */
#define TOGETHER_NS (2 * INT64_C(1000000))

static char buffer[65536];

/* ---- pipes ---- */

static int make_pipe(int ends[2], bool is_input, struct atoll_error *err)
{
	const int ours = is_input ? 1 : 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a pipe");
	/* Only our end: a command may not expect O_NONBLOCK. */
	if (fcntl(ends[ours], F_SETFL, O_NONBLOCK | (is_input ? O_WRONLY : O_RDONLY)) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "prepare a pipe");
	return 0;
}

int holder_output_open(struct detached_step *step, int stdio[3], struct atoll_error *err)
{
	int ends[2], r = 0;

	if (step->has_stdin) {
		r = make_pipe(ends, true, err);
		if (r < 0)
			return r;
		stdio[0] = ends[0];
		step->input_fd = ends[1];
	} else {
		stdio[0] = fcntl(0, F_DUPFD_CLOEXEC, 3); /* /dev/null */
	}
	for (int i = 0; i < STEP_STREAMS; i++) {
		r = make_pipe(ends, false, err);
		if (r < 0)
			return r;
		step->streams[i].from = ends[0];
		stdio[i + 1] = ends[1];
	}
	return 0;
}

/* ---- storing ---- */

static uint64_t window_size(const struct holder *holder)
{
	uint64_t size = holder->n_files ? WINDOWS_ALL / holder->n_files : ATOLL_STEP_WINDOW;

	if (size > ATOLL_STEP_WINDOW)
		return ATOLL_STEP_WINDOW;
	return size < WINDOW_MIN ? WINDOW_MIN : size;
}

static bool make_file(struct holder *holder, struct output_stream *stream)
{
	cleanup_fd int fd = memfd_create("atoll-output", MFD_CLOEXEC);
	const uint64_t head = 0;

	if (fd < 0 || pwrite(fd, &head, sizeof head, 0) != sizeof head ||
	    (stream->size &&
	     pwrite(fd, stream->small, stream->size, STEP_OUTPUT_HEAD) != (ssize_t)stream->size))
		return false;
	stream->file = take_fd(&fd);
	holder->n_files++;
	free(stream->small);
	stream->small = NULL;
	return true;
}

/* Write `first` before punching: a client reads `first` after its read, and so detects zeros. */
static void punch(struct output_stream *stream, uint64_t first)
{
	if (stream->need < first)
		first = stream->need;
	first &= ~(uint64_t)(PAGE - 1);
	if (first <= stream->first || pwrite(stream->file, &first, sizeof first, 0) < 0)
		return;
	fallocate(stream->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  (off_t)(STEP_OUTPUT_HEAD + stream->first), (off_t)(first - stream->first));
	stream->first = first;
}

static bool store(struct holder *holder, struct output_stream *stream, const char *data,
		  size_t size)
{
	const uint64_t window = window_size(holder);

	if (stream->file < 0 && stream->size + size <= STEP_SMALL_OUTPUT) {
		if (!stream->small)
			stream->small = malloc(STEP_SMALL_OUTPUT);
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
				   (off_t)(STEP_OUTPUT_HEAD + stream->size));

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

bool holder_output_should_poll(const struct output_stream *stream)
{
	return stream->from >= 0 && !stream->is_waiting;
}

static bool must_wait(const struct holder *holder, const struct output_stream *stream)
{
	return stream->need != UINT64_MAX && stream->size > stream->need &&
	       stream->size - stream->need >= window_size(holder);
}

static uint64_t output_left(const struct holder *holder, const struct detached_step *step)
{
	const uint64_t limit = holder->spec->limits[SPEC_OUTPUT].value;
	const uint64_t used = step->streams[0].size + step->streams[1].size;

	if (limit == SPEC_UNLIMITED)
		return UINT64_MAX;
	return used < limit ? limit - used : 0;
}

/* The contract's output limit is reached; or there is no memory for more, and output would be lost
 * without notice. */
static void kill_by_output(struct holder *holder, struct detached_step *step)
{
	step->is_over_output = step->is_forced = true;
	for (int i = 0; i < STEP_STREAMS; i++)
		holder_close_fd(&step->streams[i].from);
	if (step->client)
		detached_kill(holder, step->client);
}

/* One read. 1: there may be more. 0: EAGAIN, or the stream is at its end. */
static int read_once(struct holder *holder, struct detached_step *step, int number)
{
	struct output_stream *stream = &step->streams[number];
	const uint64_t left = output_left(holder, step);
	ssize_t got = read(stream->from, buffer, sizeof buffer);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	/* A terminal whose other side is closed returns EIO. */
	if (got <= 0) {
		holder_close_fd(&stream->from);
		if (step->client && step->client->state != CLIENT_ENDED &&
		    step->streams[!number].from < 0)
			step->report_ns = clock_monotonic_ns() + TOGETHER_NS;
		return 0;
	}
	if ((uint64_t)got > left)
		got = (ssize_t)left;
	step->has_changed = true;
	eventlog_output_add(&step->output, number, buffer, (size_t)got);
	if (!store(holder, stream, buffer, (size_t)got) || (uint64_t)got == left) {
		kill_by_output(holder, step);
		return 0;
	}
	return 1;
}

void holder_output_read(struct holder *holder, struct detached_step *step, int number)
{
	struct output_stream *stream = &step->streams[number];

	/* At most 4 reads, so that one stream does not block the others. */
	for (int i = 0; i < 4 && stream->from >= 0; i++) {
		stream->is_waiting = must_wait(holder, stream);
		if (stream->is_waiting || !read_once(holder, step, number))
			return;
	}
}

void holder_output_finish(struct holder *holder, struct detached_step *step)
{
	for (int i = 0; i < STEP_STREAMS; i++) {
		struct output_stream *stream = &step->streams[i];

		/* At most the content of a pipe: a background process may write on and on. */
		for (int n = 0; n < 20 && stream->from >= 0; n++) {
			if (!read_once(holder, step, i))
				break;
		}
		/* A background process that writes on would get SIGPIPE if the holder closed the
		 * pipe. */
		if (stream->from >= 0 && !step->has_terminal &&
		    holder->n_drains < HOLDER_DRAINS_MAX)
			holder->drains[holder->n_drains++] = take_fd(&stream->from);
		holder_close_fd(&stream->from);
		if (stream->small && stream->size > 0 && stream->size < STEP_SMALL_OUTPUT / 2) {
			char *less = realloc(stream->small, stream->size);

			stream->small = less ? less : stream->small;
		}
	}
	holder_input_drop(step);
	/* Return the pages that large output has used. */
	madvise((char *)(((uintptr_t)buffer + PAGE - 1) & ~(uintptr_t)(PAGE - 1)),
		sizeof buffer - PAGE, MADV_DONTNEED);
}

void holder_output_needs(struct detached_step *step)
{
	for (int i = 0; i < STEP_STREAMS; i++) {
		struct output_stream *stream = &step->streams[i];

		stream->need = stream->left;
		for (const struct step_watcher *at = step->watchers; at; at = at->next) {
			if (at->fd >= 0 && at->need[i] < stream->need)
				stream->need = at->need[i];
		}
		stream->is_waiting = false; /* the next read checks it again */
	}
}

void holder_output_free(struct holder *holder, struct detached_step *step)
{
	for (int i = 0; i < STEP_STREAMS; i++) {
		struct output_stream *stream = &step->streams[i];

		holder_close_fd(&stream->from);
		if (stream->file >= 0)
			holder->n_files--;
		holder_close_fd(&stream->file);
		free(stream->small);
		stream->small = NULL;
	}
	holder_input_drop(step);
	eventlog_output_done(&step->output);
}
