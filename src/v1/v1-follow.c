/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-follow.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "httpd/httpd.h"
#include "v1/v1-error.h"
#include "v1/v1-results.h"
#include "v1/v1-state.h"
#include "v1/v1-step.h"
#include "v1/v1-view.h"

#include <inttypes.h>
#include <stdio.h>

/*
 * The output of a step as events; a client can continue after a break
 *
 * 	id: 4096-17
 * 	event: output
 * 	data: {"stream":"out","offset":4000,"data":"BASE64"}
 *
 * The id of an event is the number of bytes of standard output and of standard error up to this
 * event. With it as Last-Event-ID (or `after`) the stream continues exactly there, also after a
 * restart of the daemon. Events: "start" with the step (not when a client continues), "output",
 * "lost" for bytes that were overwritten, "end" with the step and its result, "gone" if the sandbox
 * has ended. After the last two the stream ends.
 */

#define PIECE	 (24U << 10)
#define DATA_MAX (8U << 20)
#define AGAIN_NS (5 * INT64_C(1000000))

struct follow {
	struct sse sse; /* the first member */
	struct process_reader reader;
	struct box_listener listener;
	uint64_t sent[PROCESS_STREAMS];
	bool is_last;		 /* "end" was sent */
	struct loop_timer again; /* fires while the result of a job is not on disk yet */
};

static void on_over(struct api_call *call, bool is_broken)
{
	struct follow *follow = call->own;

	(void)is_broken;
	sse_over(&follow->sse);
	loop_disarm(daemon_loop(follow->listener.daemon), &follow->again);
	process_detach(&follow->reader);
	box_unlisten(&follow->listener);
	free(follow);
}

static void make_id(const uint64_t sent[PROCESS_STREAMS], char ret[48])
{
	snprintf(ret, 48, "%" PRIu64 "-%" PRIu64, sent[PROCESS_OUT], sent[PROCESS_ERR]);
}

/* Parses "OUT-ERR"; false: the text is something else. */
static bool read_id(const char *text, uint64_t ret[PROCESS_STREAMS])
{
	char *end;

	if (text[0] < '0' || text[0] > '9' || strlen(text) > 40)
		return false;
	ret[PROCESS_OUT] = strtoull(text, &end, 10);
	if (*end != '-' || end[1] < '0' || end[1] > '9')
		return false;
	ret[PROCESS_ERR] = strtoull(end + 1, &end, 10);
	return !*end;
}

static void send_json(struct sse *sse, const uint64_t sent[PROCESS_STREAMS], const char *event,
		      const struct buf *data)
{
	char id[48];

	make_id(sent, id);
	if (buf_error(data) < 0)
		exchange_cut(sse->call->exchange);
	else
		sse_send(sse, id, event, data->data, data->used);
}

static void send_step(struct follow *follow, const char *event)
{
	cleanup_buf struct buf out = BUF_INIT(DATA_MAX);
	struct json json = {.out = &out};

	v1_write_step(&json, NULL, follow->reader.process, false);
	send_json(&follow->sse, follow->sent, event, &out);
}

static void send_lost(struct sse *sse, uint64_t sent[PROCESS_STREAMS], enum process_stream stream,
		      uint64_t to)
{
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct json json = {.out = &out};

	json_open(&json, NULL, '{');
	json_str(&json, "stream", stream == PROCESS_OUT ? "out" : "err");
	json_uint(&json, "from", sent[stream]);
	json_uint(&json, "to", to);
	json_close(&json, '}');
	sent[stream] = to;
	send_json(sse, sent, "lost", &out);
}

static void send_output(struct sse *sse, uint64_t sent[PROCESS_STREAMS], enum process_stream stream,
			const char *data, size_t size)
{
	cleanup_buf struct buf out = BUF_INIT(DATA_MAX);
	struct json json = {.out = &out};

	json_open(&json, NULL, '{');
	json_str(&json, "stream", stream == PROCESS_OUT ? "out" : "err");
	json_uint(&json, "offset", sent[stream]);
	v1_write_base64(&json, "data", data, size);
	json_close(&json, '}');
	sent[stream] += size;
	send_json(sse, sent, "output", &out);
}

/* Sends one piece of one stream. False: there is no output now. */
static bool send_piece(struct follow *follow, enum process_stream stream)
{
	uint64_t first = process_first(follow->reader.process, stream);
	size_t room = sse_room_base64(&follow->sse), n;
	char data[PIECE];

	if (room == 0)
		return false;
	if (follow->sent[stream] < first) {
		send_lost(&follow->sse, follow->sent, stream, first);
		follow->reader.at[stream] = first;
	}
	n = process_read(&follow->reader, stream, data, room < PIECE ? room : PIECE);
	if (n > 0)
		send_output(&follow->sse, follow->sent, stream, data, n);
	return n > 0;
}

static void end(struct follow *follow)
{
	if (!v1_has_ended(v1_of(follow->sse.call), follow->reader.process)) {
		loop_arm(daemon_loop(follow->listener.daemon), &follow->again,
			 clock_monotonic_ns() + AGAIN_NS);
		return;
	}
	follow->is_last = true;
	send_step(follow, "end");
	sse_end(&follow->sse);
}

/* Sends one piece of each stream. */
static void pump(struct follow *follow)
{
	bool any = false;

	if (follow->is_last || !follow->reader.process)
		return;
	for (enum process_stream stream = 0; stream < PROCESS_STREAMS; stream++)
		any |= send_piece(follow, stream);
	if (sse_room(&follow->sse) == 0)
		process_idle(&follow->reader);
	else if (process_is_read(&follow->reader))
		end(follow);
	else if (any)
		process_go_on(&follow->reader);
}

static void pump_again(struct loop_timer *timer)
{
	pump((struct follow *)((char *)timer - offsetof(struct follow, again)));
}

static void on_ready(struct process_reader *reader)
{
	pump((struct follow *)((char *)reader - offsetof(struct follow, reader)));
}

static void on_drained(struct sse *sse)
{
	process_wake(&((struct follow *)sse)->reader);
}

/* The sandbox has ended, or was paused without its memory: output that was not sent is lost. */
static void on_event(struct box_listener *listener, enum box_event event, struct box *box,
		     struct process *process)
{
	struct follow *follow =
		(struct follow *)((char *)listener - offsetof(struct follow, listener));
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct json json = {.out = &out};

	(void)process;
	if (!box_event_frees(event, box) || !follow->reader.process ||
	    follow->reader.process->box != box)
		return;
	process_detach(&follow->reader);
	if (follow->is_last)
		return;
	follow->is_last = true;
	json_open(&json, NULL, '{');
	json_str(&json, "cause", event == BOX_ENDED ? box_cause_name(box->cause) : "paused");
	json_str(&json, "message",
		 event == BOX_ENDED ? "the sandbox has ended"
				    : "the sandbox was paused without its memory");
	json_close(&json, '}');
	send_json(&follow->sse, follow->sent, "gone", &out);
	sse_end(&follow->sse);
}

/* The offsets from which to continue. False: the call was answered. */
static bool read_place(struct api_call *call, uint64_t ret[PROCESS_STREAMS], bool *ret_again)
{
	const char *text = exchange_field(call->exchange, "Last-Event-ID");

	if (!text || !text[0])
		text = exchange_query(call->exchange, "after");
	*ret_again = text != NULL;
	if (!text || read_id(text, ret))
		return true;
	v1_refuse(call, 400, "request", "Last-Event-ID has to be the id of an event: OUT-ERR");
	return false;
}

void v1_follow(struct api_call *call, struct process *process)
{
	uint64_t at[PROCESS_STREAMS] = {0};
	struct follow *follow;
	bool is_again;

	if (!read_place(call, at, &is_again))
		return;
	for (enum process_stream stream = 0; stream < PROCESS_STREAMS; stream++) {
		if (at[stream] > process_size(process, stream)) {
			v1_refuse(call, 416, "request", "there is not so much output");
			return;
		}
	}
	follow = calloc(1, sizeof *follow);
	if (!follow) {
		v1_refuse(call, 503, "host", "out of memory");
		return;
	}
	memcpy(follow->sent, at, sizeof at);
	follow->reader.ready = on_ready;
	/* The step waits for a slow client; sse.c cuts a client that reads nothing. */
	follow->reader.holds = true;
	follow->listener.daemon = process->box->daemon;
	follow->listener.tenant = process->box->tenant;
	follow->listener.told = on_event;
	follow->again.fire = pump_again;
	if (!sse_begin(&follow->sse, call, on_drained)) {
		free(follow);
		return;
	}
	call->own = follow;
	call->over = on_over;
	box_listen(&follow->listener);
	process_attach(process, &follow->reader, at);
	v1_step_is_read(v1_of(call), process);
	if (!is_again)
		send_step(follow, "start");
	process_go_on(&follow->reader);
}

/* ---- a step that is only in results.db ---- */

static void ignore_drained(struct sse *sse)
{
	(void)sse;
}

static void over_old(struct api_call *call, bool is_broken)
{
	(void)call;
	(void)is_broken;
}

void v1_follow_old(struct api_call *call, const struct result_step *step)
{
	uint64_t at[PROCESS_STREAMS] = {0}, first, size;
	cleanup_buf struct buf view = BUF_INIT(DATA_MAX);
	struct sse sse;
	bool is_again;

	if (!read_place(call, at, &is_again))
		return;
	if (!sse_begin(&sse, call, ignore_drained))
		return;
	call->over = over_old;
	buf_add_str(&view, step->view);
	if (!is_again)
		send_json(&sse, at, "start", &view);
	for (enum process_stream stream = 0; stream < PROCESS_STREAMS; stream++) {
		size = step->streams[stream].size;
		first = size - step->streams[stream].kept;
		if (at[stream] < first)
			send_lost(&sse, at, stream, first);
		/* At most RESULTS_TAIL bytes of each stream: no waiting is needed. */
		if (at[stream] < size)
			send_output(&sse, at, stream,
				    step->streams[stream].data + (at[stream] - first),
				    size - at[stream]);
	}
	send_json(&sse, at, "end", &view);
	sse_end(&sse);
}

void v1_step_events(struct api_call *call)
{
	struct box *box;
	struct process *process = v1_step(call, &box, v1_follow_old);

	if (process)
		v1_follow(call, process);
}
