/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "http/http.h"

/* The length in 2 or 8 bytes; a length that fits into fewer bytes is refused. */
static const char *read_long(const uint8_t *data, size_t bytes, uint64_t *ret)
{
	*ret = 0;
	for (size_t i = 0; i < bytes; i++)
		*ret = *ret << 8 | data[i];
	if (*ret < (bytes == 2 ? 126 : 65536) || *ret >> 63)
		return "a frame with a wrong length";
	return NULL;
}

static const char *check(const struct ws_frame *frame, uint8_t first)
{
	if (first & 0x70)
		return "a frame of an extension that was not negotiated";
	if (frame->opcode > WS_PONG || (frame->opcode > WS_BINARY && frame->opcode < WS_CLOSE))
		return "a frame of an unknown kind";
	if (frame->opcode >= WS_CLOSE && (!frame->is_final || frame->size > WS_CONTROL_MAX))
		return "a control frame that is too long or in parts";
	return NULL;
}

enum http_result ws_read(const char *data, size_t size, struct ws_frame *ret, const char **ret_why)
{
	const uint8_t *bytes = (const uint8_t *)data;
	size_t more;

	*ret_why = NULL;
	if (size < 2)
		return HTTP_MORE;
	/* A server must not mask its frames (RFC 6455, 5.1). */
	if (bytes[1] & 0x80) {
		*ret_why = "a masked frame";
		return HTTP_BAD;
	}
	more = bytes[1] == 126 ? 2 : bytes[1] == 127 ? 8 : 0;
	if (size < 2 + more)
		return HTTP_MORE;
	*ret = (struct ws_frame){.opcode = bytes[0] & 0x0f,
				 .is_final = bytes[0] & 0x80,
				 .head_size = 2 + more,
				 .size = bytes[1]};
	if (more)
		*ret_why = read_long(bytes + 2, more, &ret->size);
	if (!*ret_why)
		*ret_why = check(ret, bytes[0]);
	return *ret_why ? HTTP_BAD : HTTP_OK;
}

void ws_write_head(struct buf *out, uint8_t opcode, bool is_final, uint64_t size)
{
	size_t bytes = size < 126 ? 0 : size < 65536 ? 2 : 8;

	buf_add_char(out, (char)((is_final ? 0x80 : 0) | opcode));
	buf_add_char(out, (char)(bytes == 0 ? (uint8_t)size : bytes == 2 ? 126 : 127));
	while (bytes-- > 0)
		buf_add_char(out, (char)(uint8_t)(size >> (8 * bytes)));
}
