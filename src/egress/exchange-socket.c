/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/exchange.h"

#include <stdio.h>

/*
 * WebSocket from a host with secrets
 *
 * What the server sends is read frame by frame, and the text of each message goes through the same
 * filter as a body. Control frames may come between the parts of a message and are filtered by
 * themselves. A message that is too long for one piece is passed on in more parts than it came in,
 * which an intermediary may do where no extension is agreed upon (RFC 6455, 5.4); exchange-head.c
 * takes extensions out. What the client sends goes to the server as it is: values stand in heads
 * alone.
 */

/* Frames up to this size are passed on in one piece. */
#define WHOLE_MAX (HTTP_HEAD_MAX / 2)

static void cut(struct exchange *ex, const char *why)
{
	char reason[128];

	snprintf(reason, sizeof reason, "WebSocket: the server sent %s", why);
	exchange_finish(ex, ATOLL_CONN_FAILED, reason);
}

static void add_frame(struct exchange *ex, uint8_t opcode, bool is_final, const char *data,
		      size_t size)
{
	struct lane *to = &ex->inner.out;

	lane_tidy(to);
	ws_write_head(&to->buf, opcode, is_final, size);
	buf_add(&to->buf, data, size);
}

/* Ping, pong, close: as a whole. */
static bool pass_control(struct exchange *ex, const struct ws_frame *frame)
{
	struct lane *from = &ex->outer.in;
	char *text = lane_data(from) + frame->head_size;

	if (lane_size(from) < frame->head_size + frame->size)
		return false;
	swap_hide(ex->flow->egress->swap, ex->host, text, frame->size);
	add_frame(ex, frame->opcode, true, text, frame->size);
	lane_take(from, frame->head_size + frame->size);
	return true;
}

static bool begin_frame(struct exchange *ex)
{
	struct socket_state *state = &ex->socket;
	struct lane *from = &ex->outer.in;
	struct ws_frame frame;
	const char *why;

	switch (ws_read(lane_data(from), lane_size(from), &frame, &why)) {
	case HTTP_MORE:
		return false;
	case HTTP_BAD:
		cut(ex, why);
		return false;
	case HTTP_OK:
		break;
	}
	if (frame.opcode >= WS_CLOSE)
		return pass_control(ex, &frame);
	if ((frame.opcode == WS_CONTINUED) != state->is_in_message) {
		cut(ex, "parts of messages in a wrong order");
		return false;
	}
	if (!state->is_in_message)
		state->opcode = frame.opcode;
	lane_take(from, frame.head_size);
	state->is_in_message = state->is_in_frame = true;
	state->frame = frame;
	state->left = frame.size;
	return true;
}

static bool pass_frame(struct exchange *ex)
{
	struct socket_state *state = &ex->socket;
	struct lane *from = &ex->outer.in;
	size_t n = lane_size(from) < state->left ? lane_size(from) : (size_t)state->left;
	struct http_slice content = {lane_data(from), n};
	bool is_last;

	if (n < state->left && (n == 0 || state->frame.size <= WHOLE_MAX))
		return false;
	state->left -= n;
	is_last = state->left == 0 && state->frame.is_final;
	if (exchange_filter(ex, &content, is_last) < 0) {
		exchange_finish(ex, ATOLL_CONN_FAILED, "out of memory");
		return false;
	}
	if (content.size > 0 || is_last) {
		add_frame(ex, state->opcode, is_last, content.at, content.size);
		state->opcode = WS_CONTINUED;
	}
	lane_take(from, n);
	state->is_in_frame = state->left > 0;
	if (is_last)
		state->is_in_message = false;
	return true;
}

bool exchange_pass_frames(struct exchange *ex)
{
	bool moved = false;

	while (!ex->is_finished && lane_size(&ex->inner.out) < lane_max() &&
	       (ex->socket.is_in_frame ? pass_frame(ex) : begin_frame(ex)))
		moved = true;
	/* A frame that the server has not finished will not be. */
	if (!moved && ex->outer.is_ended && lane_size(&ex->inner.out) < lane_max())
		lane_clear(&ex->outer.in, true);
	return moved;
}
