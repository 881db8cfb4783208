/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/stream.h"

#include "httpd/answer.h"

#define FRAME_MAX 256

bool stream_open(struct api_call *call)
{
	struct load *load = call->load;

	if (call->stream_of)
		return true;
	if (load->n_streams >= STREAMS_MAX || load->waiting > TENANT_WAITING_MAX)
		return false;
	load->n_streams++;
	call->stream_of = load;
	exchange_set_stream(call->exchange, STREAM_ROOM);
	return true;
}

void stream_close(struct api_call *call)
{
	if (call->stream_of)
		call->stream_of->n_streams--;
	call->stream_of = NULL;
}

size_t stream_part(const struct load *load)
{
	size_t left = load->waiting < STREAMS_ROOM ? STREAMS_ROOM - load->waiting : 0;
	size_t part = left / 16;

	return part < STREAM_LEAST ? STREAM_LEAST : part < STREAM_ROOM ? part : STREAM_ROOM;
}

/* Half of a part: one piece is made while the other one is sent. */
size_t stream_room(const struct api_call *call)
{
	size_t part = call->stream_of ? stream_part(call->stream_of) : STREAM_ROOM;

	return exchange_waiting(call->exchange) >= part / 2 ? 0 : part / 2;
}

size_t stream_room_base64(const struct api_call *call)
{
	size_t room = stream_room(call);

	return room > FRAME_MAX ? (room - FRAME_MAX) / 4 * 3 : 0;
}
