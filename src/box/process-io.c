/* SPDX-License-Identifier: Apache-2.0 */
#include "box/process-inner.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* ---- who reads along ---- */

/* What the slowest of those who hold needs; told to the sandbox's holder, which waits for it. */
static void tell_needs(struct process_own *own)
{
	for (int i = 0; i < PROCESS_STREAMS && !own->process.has_ended; i++) {
		uint64_t need = UINT64_MAX;

		for (const struct process_reader *at = own->readers; at; at = at->next) {
			if (at->holds && at->at[i] < need)
				need = at->at[i];
		}
		atoll_step_need(own->step, i + 1, need);
	}
}

static bool has_news(const struct process_reader *reader)
{
	const struct process_own *own = process_own_const(reader->process);
	const struct atoll_step_info *info = atoll_step_info(own->step);

	return own->process.has_ended || info->size[0] > reader->at[0] ||
	       info->size[1] > reader->at[1];
}

/* Any of them may leave, or others come, while one is told. */
void process_tell_readers(struct process_own *own)
{
	struct process *process = &own->process;
	size_t n = 0;

	for (const struct process_reader *at = own->readers; at; at = at->next)
		n++;
	/* Each is moved to the end of the list before it is told. */
	while (n-- > 0 && own->readers) {
		struct process_reader *reader = own->readers, **end = &own->readers;

		own->readers = reader->next;
		reader->next = NULL;
		while (*end)
			end = &(*end)->next;
		*end = reader;
		if (reader->process == process && has_news(reader))
			reader->ready(reader);
	}
}

void process_tell_soon(struct loop_timer *timer)
{
	process_tell_readers(container_of(timer, struct process_own, soon));
}

void process_attach(struct process *process, struct process_reader *reader,
		    const uint64_t at[PROCESS_STREAMS])
{
	struct process_own *own = process_own(process);

	reader->process = process;
	for (int i = 0; i < PROCESS_STREAMS; i++) {
		const uint64_t first = process_first(process, (enum process_stream)i);
		const uint64_t size = process_size(process, (enum process_stream)i);

		reader->at[i] = at[i] < first ? first : at[i] > size ? size : at[i];
	}
	reader->next = own->readers;
	own->readers = reader;
	if (reader->holds)
		tell_needs(own);
	if (has_news(reader))
		loop_arm(own->loop, &own->soon, clock_monotonic_ns());
}

void process_detach(struct process_reader *reader)
{
	struct process_reader **at;
	struct process_own *own;

	if (!reader->process)
		return;
	own = process_own(reader->process);
	for (at = &own->readers; *at && *at != reader;)
		at = &(*at)->next;
	if (*at)
		*at = reader->next;
	reader->process = NULL;
	if (reader->holds)
		tell_needs(own);
}

void process_drop_readers(struct process_own *own)
{
	for (struct process_reader *at = own->readers, *next; at; at = next) {
		next = at->next;
		at->process = NULL;
	}
	own->readers = NULL;
}

uint64_t process_first(const struct process *process, enum process_stream stream)
{
	return atoll_step_info(process_own_const(process)->step)->first[stream];
}

uint64_t process_size(const struct process *process, enum process_stream stream)
{
	return atoll_step_info(process_own_const(process)->step)->size[stream];
}

size_t process_read(struct process_reader *reader, enum process_stream stream, void *data,
		    size_t size)
{
	struct process_own *own;
	ssize_t got;

	if (!reader->process)
		return 0;
	own = process_own(reader->process);
	got = atoll_step_read(own->step, (int)stream + 1, reader->at[stream], data, size);
	/* He was too slow, and has not said that he is to be waited for. */
	while (got == -ESPIPE) {
		const uint64_t first = process_first(reader->process, stream);

		if (first <= reader->at[stream])
			break;
		reader->at[stream] = first;
		got = atoll_step_read(own->step, (int)stream + 1, reader->at[stream], data, size);
	}
	if (got <= 0)
		return 0;
	reader->at[stream] += (uint64_t)got;
	if (reader->holds)
		tell_needs(own);
	return (size_t)got;
}

bool process_is_read(const struct process_reader *reader)
{
	const struct process *process = reader->process;

	return process && process->has_ended &&
	       reader->at[PROCESS_OUT] >= process_size(process, PROCESS_OUT) &&
	       reader->at[PROCESS_ERR] >= process_size(process, PROCESS_ERR);
}

/* ---- its input ---- */

void process_drop_input(struct process_own *own)
{
	if (own->loop)
		loop_unwatch(own->loop, &own->input_watch);
	buf_done(&own->input);
	own->input = (struct buf)BUF_INIT(PROCESS_INPUT_MAX + 1);
	own->input_at = 0;
}

static void close_input(struct process_own *own)
{
	process_drop_input(own);
	own->closes_input = false;
	atoll_step_close_input(own->step);
}

/* As much as there is room for. Returns what was taken, or a negative errno. */
static ssize_t write_some(const struct process_own *own, const char *data, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = write(atoll_step_input_fd(own->step), data + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

void process_input_ready(struct loop_watch *watch, uint32_t events)
{
	struct process_own *own = container_of(watch, struct process_own, input_watch);
	ssize_t n =
		write_some(own, own->input.data + own->input_at, own->input.used - own->input_at);

	(void)events;
	if (n < 0) { /* nobody reads it any more */
		close_input(own);
		return;
	}
	own->input_at += (size_t)n;
	if (own->input_at < own->input.used)
		return;
	process_drop_input(own);
	if (own->closes_input)
		close_input(own);
}

/* Bytes that were written already are dropped from the front when they are many. */
static int queue(struct process_own *own, const char *data, size_t size)
{
	const size_t waiting = own->input.used - own->input_at;

	if (size == 0)
		return 0;
	if (waiting + size > PROCESS_INPUT_MAX)
		return -EAGAIN;
	if (own->input_at > 0) {
		memmove(own->input.data, own->input.data + own->input_at, waiting);
		own->input.used = waiting;
		own->input_at = 0;
	}
	buf_add(&own->input, data, size);
	if (buf_error(&own->input) < 0)
		return -EAGAIN;
	if (own->input_watch.is_watched)
		return 0;
	own->input_watch.fd = atoll_step_input_fd(own->step);
	return loop_watch(own->loop, &own->input_watch, EPOLLOUT);
}

int process_write(struct process *process, const void *data, size_t size)
{
	struct process_own *own = process_own(process);
	ssize_t done = 0;

	if (process->has_ended || own->closes_input || atoll_step_input_fd(own->step) < 0)
		return -EPIPE;
	/* All or nothing, so that who is refused can come again with the same. */
	if (own->input.used - own->input_at + size > PROCESS_INPUT_MAX)
		return -EAGAIN;
	if (own->input.used == own->input_at)
		done = write_some(own, data, size);
	if (done < 0)
		return done == -EPIPE || done == -EIO ? -EPIPE : (int)done;
	return queue(own, (const char *)data + done, size - (size_t)done);
}

int process_close_stdin(struct process *process)
{
	struct process_own *own = process_own(process);

	if (process->has_terminal)
		return -ENOTTY;
	if (own->input.used > own->input_at)
		own->closes_input = true;
	else if (atoll_step_input_fd(own->step) >= 0)
		close_input(own);
	return 0;
}
