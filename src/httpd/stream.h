/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/route.h"

/*
 * Limits of streams
 *
 * A stream is an answer that goes on for long: events, output, changes. Its client may read
 * nothing. So there are three limits:
 *   memory  STREAM_ROOM bytes wait for one stream while fewer than STREAMS_ROOM bytes wait for all
 *           streams of a tenant. Beyond that STREAM_LEAST bytes wait for each stream, so that none
 *           waits for another; 28 MiB for all.
 *   time    One piece is read, encoded and queued in each round of the event loop, and tenants
 *           alternate (base/loop.h). So a request waits for one piece, however many streams exist.
 *   number  STREAMS_MAX streams of a tenant, TENANT_WATCHERS_MAX of those that get all events.
 * Other answers are counted, too: while more than TENANT_WAITING_MAX bytes wait for the clients of
 * a tenant, its requests are answered by 429 (struct load, route.c).
 *
 * All of this is counted twice: for the clients of the tenant, and for visitors, who have sent
 * neither a key nor a token. Visitors who do not read make other visitors wait, not the tenant.
 */

#define STREAM_ROOM	    (64U << 10)
#define STREAM_LEAST	    (4U << 10)
#define STREAMS_ROOM	    (12U << 20)
#define STREAMS_MAX	    4096
#define TENANT_WATCHERS_MAX 128
#define TENANT_WAITING_MAX  (32U << 20)

/* Counts the call, which was charged, as a stream until its exchange ends. False: too many streams;
 * nothing was answered. */
bool stream_open(struct api_call *call);
/* For route.c: the exchange has ended. */
void stream_close(struct api_call *call);
/* The number of bytes that may wait for each of these streams. */
size_t stream_part(const struct load *load);
/* The number of bytes that the next piece may have, encoded; 0: wait until the client has read
 * more. */
size_t stream_room(const struct api_call *call);
/* The same for content that is sent in base64, with a frame of at most 256 bytes around it. */
size_t stream_room_base64(const struct api_call *call);
