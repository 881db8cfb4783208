/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/api.h"

/*
 * Server-sent events
 *
 * An answer of type text/event-stream: events with an id, a name and one line of data. Whoever was
 * cut off says with Last-Event-ID up to where he heard it. A comment every 15 seconds shows both
 * sides, and whatever stands between them, that the other is there.
 *
 * Nobody who reads slowly makes us keep what he did not read: sse_is_full() says when to wait, and
 * `drained` when to go on. Who does not read at all for half a minute is cut off, and may come
 * back.
 */

#define SSE_ROOM (1U << 20)

struct sse {
	struct api_call *call; /* NULL: over */
	struct loop_timer beat;
	void (*drained)(struct sse *sse);
	bool waits;
	unsigned beats; /* since it waits */
};

/* Sends the head. */
void sse_begin(struct sse *sse, struct api_call *call, void (*drained)(struct sse *sse));
/* `id` may be NULL; `data` is one line. */
void sse_send(struct sse *sse, const char *id, const char *event, const char *data, size_t size);
/* True: send nothing more until `drained`. */
bool sse_is_full(struct sse *sse);
/* Ends the answer. Fine if it is over. */
void sse_end(struct sse *sse);
/* For call->over: nothing is sent any more. */
void sse_over(struct sse *sse);
