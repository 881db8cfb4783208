/* SPDX-License-Identifier: Apache-2.0 */
#include "box/process-io.h"

#include "base/clock.h"
#include "box/process-state.h"
#include "box/process.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/*
 * Who reads along
 *
 * A reader is in one of two lists of its process: `readers`, or `resting` while its client takes
 * nothing. News queue a turn for each of `readers` and cost nothing for those that rest. What the
 * slowest of those who hold needs is compared in a turn of its own, behind the turns of all
 * readers: a thousand readers cost one comparison for each round of theirs, not one for each piece.
 */

static struct loop_lane *lane_of(const struct process_own *own)
{
	return &own->process.box->tenant->own.lane;
}

/* ---- what may not be overwritten ---- */

static uint64_t least(const struct process_reader *readers, int stream, uint64_t need)
{
	for (const struct process_reader *at = readers; at; at = at->next) {
		if (at->holds && at->at[stream] < need)
			need = at->at[stream];
	}
	return need;
}

/* What the slowest of those who hold needs; told to the sandbox's holder, which waits for it. */
void process_compare_needs(struct loop_turn *turn)
{
	struct process_own *own = container_of(turn, struct process_own, needs);

	for (int i = 0; i < PROCESS_STREAMS && !own->process.has_ended; i++) {
		own->need[i] = least(own->resting, i, least(own->readers, i, UINT64_MAX));
		atoll_step_need(own->step, i + 1, own->need[i]);
	}
}

/* Later is early enough for a reader that has moved on: the process waits a moment longer. */
static void compare_later(struct process_own *own)
{
	if (!own->process.has_ended)
		loop_queue(own->loop, lane_of(own), &own->needs);
}

/* A reader that begins to hold counts at once. */
static void start_backpressure(struct process_own *own, const struct process_reader *reader)
{
	for (int i = 0; i < PROCESS_STREAMS && !own->process.has_ended; i++) {
		if (reader->at[i] >= own->need[i])
			continue;
		own->need[i] = reader->at[i];
		atoll_step_need(own->step, i + 1, own->need[i]);
	}
}

void process_set_holds(struct process_reader *reader, bool holds)
{
	if (reader->holds == holds)
		return;
	reader->holds = holds;
	if (reader->process && holds)
		start_backpressure(process_own(reader->process), reader);
	else if (reader->process)
		compare_later(process_own(reader->process));
}

/* ---- the lists ---- */

static void link_reader(struct process_reader **list, struct process_reader *reader)
{
	reader->next = *list;
	if (reader->next)
		reader->next->link = &reader->next;
	reader->link = list;
	*list = reader;
}

static void unlink_reader(struct process_reader *reader)
{
	*reader->link = reader->next;
	if (reader->next)
		reader->next->link = reader->link;
}

static bool has_news(const struct process_reader *reader)
{
	const struct process_own *own = process_own_const(reader->process);
	const struct atoll_step_info *info = atoll_step_info(own->step);

	return own->process.has_ended || info->size[0] > reader->at[0] ||
	       info->size[1] > reader->at[1];
}

static void queue_reader(struct process_reader *reader)
{
	struct process_own *own = process_own(reader->process);

	loop_queue(own->loop, lane_of(own), &reader->turn);
}

/* A reader that has moved and has more to read is called again; one that moves nothing is called
 * when there is news, as is a reader that has read all. */
static void run_reader(struct loop_turn *turn)
{
	struct process_reader *reader = container_of(turn, struct process_reader, turn);
	struct process *process = reader->process;

	/* Output may be behind `at` by now, and an end is told once: see process_is_read(). */
	if (process && !reader->is_resting && has_news(reader))
		reader->ready(reader);
}

void process_notify_readers(struct process_own *own)
{
	for (struct process_reader *at = own->readers; at; at = at->next) {
		if (has_news(at))
			queue_reader(at);
	}
}

void process_go_on(struct process_reader *reader)
{
	if (reader->process)
		queue_reader(reader);
}

void process_idle(struct process_reader *reader)
{
	if (!reader->process || reader->is_resting)
		return;
	reader->is_resting = true;
	loop_unqueue(&reader->turn);
	unlink_reader(reader);
	link_reader(&process_own(reader->process)->resting, reader);
}

void process_wake(struct process_reader *reader)
{
	if (!reader->process)
		return;
	if (reader->is_resting) {
		reader->is_resting = false;
		unlink_reader(reader);
		link_reader(&process_own(reader->process)->readers, reader);
	}
	queue_reader(reader);
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
	reader->is_resting = false;
	reader->turn.run = run_reader;
	link_reader(&own->readers, reader);
	if (reader->holds)
		start_backpressure(own, reader);
	if (has_news(reader) && reader->ready)
		queue_reader(reader);
}

void process_detach(struct process_reader *reader)
{
	struct process_own *own;

	if (!reader->process)
		return;
	own = process_own(reader->process);
	loop_unqueue(&reader->turn);
	unlink_reader(reader);
	reader->process = NULL;
	if (reader->holds)
		compare_later(own);
}

static void drop_list(struct process_reader *readers)
{
	for (struct process_reader *at = readers, *next; at; at = next) {
		next = at->next;
		loop_unqueue(&at->turn);
		at->process = NULL;
	}
}

void process_drop_readers(struct process_own *own)
{
	drop_list(own->readers);
	drop_list(own->resting);
	own->readers = own->resting = NULL;
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
		compare_later(own);
	return (size_t)got;
}

bool process_is_read(const struct process_reader *reader)
{
	const struct process *process = reader->process;

	return process && process->has_ended &&
	       reader->at[PROCESS_OUT] >= process_size(process, PROCESS_OUT) &&
	       reader->at[PROCESS_ERR] >= process_size(process, PROCESS_ERR);
}
