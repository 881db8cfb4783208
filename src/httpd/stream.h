/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/route.h"

/*
 * What a tenant's streams may take of the daemon
 *
 * A stream is an answer that goes on as long as something happens: events, output, changes. Its
 * client may read nothing. Three bounds hold for that:
 *   memory  STREAM_ROOM bytes wait for one stream, STREAMS_ROOM for all of a tenant. Streams of a
 *           tenant that has many get an equal part each, so none of them waits for another one.
 *   time    one piece is read, encoded and queued in each round of the event loop, and tenants
 *           alternate (base/loop.h). So a request waits for one piece, whoever has how many
 * streams. number  STREAMS_MAX streams of a tenant, TENANT_WATCHERS_MAX of those that hear of
 * everything. Answers that are no streams are counted, too: a tenant for whom TENANT_WAITING_MAX
 * bytes wait unread is answered by 429 until they are read or their clients are cut
 * (tenant->waiting, route.c).
 */

#define STREAM_ROOM	    (64U << 10)
#define STREAMS_ROOM	    (16U << 20)
#define STREAMS_MAX	    4096
#define TENANT_WATCHERS_MAX 128
#define TENANT_WAITING_MAX  (32U << 20)

/* Counts the call as a stream of this tenant until its exchange ends. False: there are too many,
 * and nothing was answered. */
bool stream_open(struct api_call *call, struct tenant *tenant);
/* For route.c: the call is over. */
void stream_close(struct api_call *call);
/* How many bytes may wait for each of a tenant's streams. */
size_t stream_part(const struct tenant *tenant);
/* How many bytes the next piece may have, encoded; 0: none until more than half was read. */
size_t stream_room(const struct api_call *call);
/* The same for content that is sent in base64, with a frame of at most 256 bytes around it. */
size_t stream_room_base64(const struct api_call *call);
