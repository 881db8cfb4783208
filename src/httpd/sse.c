/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/sse.h"

#include "base/clock.h"
#include "base/scope.h"
#include "httpd/answer.h"
#include "httpd/reply.h"
#include "httpd/stream.h"

#include <stdio.h>
#include <string.h>

/* Server-sent events; see sse.h. Used by v1-follow.c and v1-watch.c. */

#define BEAT_NS 15000000000

static struct sse *of_beat(struct loop_timer *timer)
{
	return (struct sse *)((char *)timer - offsetof(struct sse, beat));
}

static void on_beat(struct loop_timer *timer)
{
	struct sse *sse = of_beat(timer);

	if (exchange_waiting(sse->call->exchange) == 0)
		exchange_send(sse->call->exchange, ":\n\n", 3);
	if (sse->waits && ++sse->beats > 2) {
		exchange_cut(sse->call->exchange);
		return;
	}
	loop_arm(sse->call->api->loop, timer, clock_monotonic_ns() + BEAT_NS);
}

bool sse_begin(struct sse *sse, struct api_call *call, void (*drained)(struct sse *sse))
{
	if (!stream_open(call)) {
		api_refuse(call, 429, "this tenant has as many streams as it may have");
		return false;
	}
	*sse = (struct sse){.call = call, .drained = drained, .beat.fire = on_beat};
	call->status = 200;
	exchange_add(call->exchange, "Cache-Control", "no-store");
	exchange_add(call->exchange, "X-Accel-Buffering", "no");
	exchange_begin(call->exchange, 200, "text/event-stream", UINT64_MAX);
	loop_arm(call->api->loop, &sse->beat, clock_monotonic_ns() + BEAT_NS);
	return true;
}

void sse_send(struct sse *sse, const char *id, const char *event, const char *data, size_t size)
{
	cleanup_buf struct buf out = BUF_INIT(16 << 20);

	if (!sse->call)
		return;
	if (id)
		buf_addf(&out, "id: %s\n", id);
	buf_addf(&out, "event: %s\ndata: ", event);
	buf_add(&out, data, size);
	buf_add_str(&out, "\n\n");
	/* The client would not notice a missing event; it notices a cut. */
	if (buf_error(&out) < 0)
		exchange_cut(sse->call->exchange);
	else
		exchange_send(sse->call->exchange, out.data, out.used);
}

static void on_drained(struct exchange *exchange, void *own)
{
	struct sse *sse = own;

	(void)exchange;
	sse->waits = false;
	if (sse->call)
		sse->drained(sse);
}

static size_t find_room(struct sse *sse, size_t (*room_of)(const struct api_call *call))
{
	size_t size = sse->call ? room_of(sse->call) : 0;

	if (size == 0 && sse->call && !sse->waits) {
		sse->waits = true;
		sse->beats = 0;
		exchange_on_drained(sse->call->exchange, on_drained, sse);
	}
	return size;
}

size_t sse_room(struct sse *sse)
{
	return find_room(sse, stream_room);
}

size_t sse_room_base64(struct sse *sse)
{
	return find_room(sse, stream_room_base64);
}

void sse_end(struct sse *sse)
{
	struct api_call *call = sse->call;

	if (!call)
		return;
	loop_disarm(call->api->loop, &sse->beat);
	exchange_end(call->exchange);
}

void sse_over(struct sse *sse)
{
	if (sse->call)
		loop_disarm(sse->call->api->loop, &sse->beat);
	sse->call = NULL;
}
