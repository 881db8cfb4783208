/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/route.h"

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

struct sse {
	struct api_call *call; /* NULL: over */
	struct loop_timer beat;
	void (*drained)(struct sse *sse);
	bool waits;
	unsigned beats; /* since it waits */
};

/* Sends the head. False: there are too many streams, and 429 was answered. */
bool sse_begin(struct sse *sse, struct api_call *call, void (*drained)(struct sse *sse));
/* `id` may be NULL; `data` is one line. */
void sse_send(struct sse *sse, const char *id, const char *event, const char *data, size_t size);
/* How many bytes the next event may have, encoded (see stream.h); 0: send nothing more until
 * `drained`. */
size_t sse_room(struct sse *sse);
size_t sse_room_base64(struct sse *sse);
/* Ends the answer. Fine if it is over. */
void sse_end(struct sse *sse);
/* For call->over: nothing is sent any more. */
void sse_over(struct sse *sse);
