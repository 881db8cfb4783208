/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-output.h"

#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "httpd/httpd.h"
#include "v1/v1-error.h"
#include "v1/v1-form.h"
#include "v1/v1-state.h"
#include "v1/v1-step.h"

#include <inttypes.h>
#include <stdio.h>

/*
 * The output of a step as bytes
 *
 * Of one stream, from an offset to the bytes that are there now; with `follow` until the stream
 * ends. Offsets count from the start of the step and never change, so a client that was cut asks
 * again from its offset. Bytes that were overwritten are answered by 416, never left out.
 */

#define PIECE 32768

struct output {
	struct api_call *call;
	struct process_reader reader;
	struct box_listener listener;
	enum process_stream stream;
	uint64_t until; /* UINT64_MAX: to the end of the stream */
	bool is_done, waits;
};

static void output_free(struct output *output)
{
	process_detach(&output->reader);
	box_unlisten(&output->listener);
	free(output);
}

static void on_over(struct api_call *call, bool is_broken)
{
	(void)is_broken;
	output_free(call->own);
}

static void on_drained(struct exchange *exchange, void *own)
{
	struct output *output = own;

	(void)exchange;
	output->waits = false;
	process_wake(&output->reader);
}

static void wait_for_client(struct output *output)
{
	process_idle(&output->reader);
	if (output->waits)
		return;
	output->waits = true;
	exchange_on_drained(output->call->exchange, on_drained, output);
}

static bool is_at_end(const struct output *output)
{
	const struct process *process = output->reader.process;
	uint64_t at = output->reader.at[output->stream];

	if (output->until != UINT64_MAX)
		return at >= output->until;
	return process->has_ended && at >= process_size(process, output->stream);
}

/* Sends a piece. False: there is no output now. Output may have been overwritten before a slow
 * client has read it. */
static bool send_piece(struct output *output, size_t room)
{
	char data[PIECE];
	uint64_t at = output->reader.at[output->stream], left = output->until - at;
	size_t n = room < sizeof data ? room : sizeof data;

	if (at < process_first(output->reader.process, output->stream)) {
		exchange_cut(output->call->exchange);
		output->is_done = true;
		return false;
	}
	n = process_read(&output->reader, output->stream, data, left < n ? left : n);
	if (n > 0)
		exchange_send(output->call->exchange, data, n);
	return n > 0;
}

/* The step waits for a client that follows one stream (the server cuts a client that reads
 * nothing), but not for the other stream. */
static bool drop_other(struct output *output)
{
	char data[PIECE];

	return process_read(&output->reader, !output->stream, data, sizeof data) > 0;
}

/* Sends one piece. */
static void pump(struct output *output)
{
	size_t room = stream_room(output->call);
	bool any = false;

	if (output->is_done || !output->reader.process)
		return;
	if (output->reader.holds)
		any = drop_other(output);
	if (room > 0 && !is_at_end(output))
		any |= send_piece(output, room);
	if (output->is_done)
		return;
	if (is_at_end(output)) {
		output->is_done = true;
		exchange_end(output->call->exchange);
	} else if (stream_room(output->call) == 0) {
		wait_for_client(output);
	} else if (any) {
		process_go_on(&output->reader);
	}
}

static void on_ready(struct process_reader *reader)
{
	pump((struct output *)((char *)reader - offsetof(struct output, reader)));
}

/* The sandbox has ended, or was paused without its memory: output that was not sent is lost. */
static void on_event(struct box_listener *listener, enum box_event event, struct box *box,
		     struct process *process)
{
	struct output *output =
		(struct output *)((char *)listener - offsetof(struct output, listener));

	(void)process;
	if (!box_event_frees(event, box) || !output->reader.process ||
	    output->reader.process->box != box)
		return;
	process_detach(&output->reader);
	if (!output->is_done)
		exchange_cut(output->call->exchange);
	output->is_done = true;
}

static bool read_stream(struct api_call *call, enum process_stream *ret)
{
	const char *text = exchange_query(call->exchange, "stream");

	if (text && !streq(text, "out") && !streq(text, "err")) {
		v1_refuse(call, 400, "request", "'stream' has to be 'out' or 'err'");
		return false;
	}
	*ret = text && streq(text, "err") ? PROCESS_ERR : PROCESS_OUT;
	return true;
}

/* `*from` UINT64_MAX: from the first byte that is kept. */
static bool check_from(struct api_call *call, uint64_t *from, uint64_t first, uint64_t size)
{
	char details[96];

	if (*from == UINT64_MAX)
		*from = first;
	if (*from >= first && *from <= size)
		return true;
	snprintf(details, sizeof details, "\"first\":%" PRIu64 ",\"size\":%" PRIu64, first, size);
	v1_refuse_with(call, 416, "request", details,
		       "bytes from %" PRIu64 " on are not there: kept are %" PRIu64 " to %" PRIu64,
		       *from, first, size);
	return false;
}

static void add_fields(struct api_call *call, uint64_t from, uint64_t size, bool has_ended)
{
	char text[32];

	snprintf(text, sizeof text, "%" PRIu64, from);
	exchange_add(call->exchange, "Atoll-Offset", text);
	snprintf(text, sizeof text, "%" PRIu64, size);
	exchange_add(call->exchange, "Atoll-Size", text);
	exchange_add(call->exchange, "Atoll-Ended", has_ended ? "true" : "false");
	call->status = 200;
}

void v1_output(struct api_call *call, struct process *process)
{
	uint64_t at[PROCESS_STREAMS] = {UINT64_MAX, UINT64_MAX}, from, size;
	enum process_stream stream;
	struct output *output;
	bool follows;

	if (!read_stream(call, &stream) ||
	    !v1_query_uint(call, "from", UINT64_MAX, INT64_MAX, &from) ||
	    !v1_query_bool(call, "follow", &follows))
		return;
	size = process_size(process, stream);
	if (!check_from(call, &from, process_first(process, stream), size))
		return;
	if (!stream_open(call)) {
		v1_refuse(call, 429, "quota", "this tenant has as many streams as it may have");
		return;
	}
	output = calloc(1, sizeof *output);
	if (!output) {
		v1_refuse(call, 503, "host", "out of memory");
		return;
	}
	output->call = call;
	output->stream = stream;
	output->until = follows ? UINT64_MAX : size;
	output->reader.ready = on_ready;
	output->reader.holds = follows;
	output->listener.daemon = process->box->daemon;
	output->listener.tenant = process->box->tenant;
	output->listener.told = on_event;
	call->own = output;
	call->over = on_over;
	box_listen(&output->listener);
	at[stream] = from;
	process_attach(process, &output->reader, at);
	if (follows)
		v1_step_is_read(v1_of(call), process);
	add_fields(call, from, size, process->has_ended);
	exchange_begin(call->exchange, 200, "application/octet-stream",
		       follows ? UINT64_MAX : size - from);
	pump(output);
}

void v1_output_old(struct api_call *call, const struct result_step *step)
{
	enum process_stream stream;
	uint64_t from, first, size;

	if (!read_stream(call, &stream) ||
	    !v1_query_uint(call, "from", UINT64_MAX, INT64_MAX, &from))
		return;
	size = step->streams[stream].size;
	first = size - step->streams[stream].kept;
	if (!check_from(call, &from, first, size))
		return;
	add_fields(call, from, size, true);
	exchange_answer(call->exchange, 200, "application/octet-stream",
			step->streams[stream].data + (from - first), size - from);
}

void v1_step_output(struct api_call *call)
{
	struct box *box;
	struct process *process = v1_step(call, &box, v1_output_old);

	if (process)
		v1_output(call, process);
}
