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
