/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/route.h"

/*
 * Server-sent events
 *
 * An answer of type text/event-stream: events with an id, a name and one line of data. A client
 * that was cut sends Last-Event-ID to continue. A comment every 15 seconds shows the client, and
 * proxies between, that the connection lives.
 *
 * The daemon does not buffer events for a slow client: sse_room() returns 0 when the caller has to
 * wait, and `drained` is called when it can go on. A client that reads nothing for 30 seconds is
 * cut; it may come back.
 */

struct sse {
	struct api_call *call; /* NULL: the exchange has ended */
	struct loop_timer beat;
	void (*drained)(struct sse *sse);
	bool waits;
	unsigned beats; /* timer ticks since the client reads nothing */
};

/* Sends the head. False: the tenant has too many streams, and 429 was answered. */
bool sse_begin(struct sse *sse, struct api_call *call, void (*drained)(struct sse *sse));
/* `id` may be NULL; `data` is one line. */
void sse_send(struct sse *sse, const char *id, const char *event, const char *data, size_t size);
/* The number of bytes that the next event may have, encoded (see stream.h); 0: send nothing until
 * `drained`. */
size_t sse_room(struct sse *sse);
size_t sse_room_base64(struct sse *sse);
/* Ends the answer. Does nothing if the exchange has ended. */
void sse_end(struct sse *sse);
/* For call->over: from then on nothing is sent. */
void sse_over(struct sse *sse);
