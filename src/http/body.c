/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http.h"

#include "base/str.h"

#include <errno.h>
#include <string.h>

/* Where a body ends: by its length, by chunks, or by the end of the connection. */

enum chunk_state {
	CHUNK_SIZE,
	CHUNK_DATA,
	CHUNK_END, /* CR and LF behind the data */
	CHUNK_TRAILERS,
};

void body_init(struct body *body, enum http_framing framing, uint64_t length)
{
	*body = (struct body){.framing = framing, .left = length};
	body->is_done = framing == HTTP_NONE || (framing == HTTP_LENGTH && length == 0);
	if (framing == HTTP_CHUNKED)
		body->left = 0;
}

static void find_content(struct body *body, const char *data, size_t size, struct body_piece *ret)
{
	size_t n = size < body->left ? size : (size_t)body->left;

	ret->content = (struct http_slice){data, n};
	ret->used = n;
	body->left -= n;
}

/* Hexadecimal digits, CR, LF. Extensions of a chunk are refused: servers parse them in different
 * ways. */
static int read_size(struct body *body, const char *data, size_t size, struct body_piece *ret)
{
	uint64_t value = 0;
	size_t n = 0;

	while (n < size && str_hex_value(data[n]) >= 0) {
		if (n == 15)
			return -EBADMSG;
		value = value << 4 | (uint64_t)str_hex_value(data[n++]);
	}
	if (n == size)
		return 0;
	if (n == 0 || data[n] != '\r' || (n + 1 < size && data[n + 1] != '\n'))
		return -EBADMSG;
	if (n + 1 == size)
		return 0;
	ret->used = n + 2;
	body->left = value;
	body->state = value ? CHUNK_DATA : CHUNK_TRAILERS;
	return 1;
}

static int read_line_end(struct body *body, const char *data, size_t size, struct body_piece *ret)
{
	if ((size > 0 && data[0] != '\r') || (size > 1 && data[1] != '\n'))
		return -EBADMSG;
	if (size < 2)
		return 0;
	ret->used = 2;
	body->state = CHUNK_SIZE;
	return 1;
}

static int read_trailers(struct body *body, const char *data, size_t size, struct body_piece *ret)
{
	size_t limit = size < HTTP_TRAILERS_MAX ? size : HTTP_TRAILERS_MAX;
	const char *end;

	if (size < 2)
		return 0;
	if (memcmp(data, "\r\n", 2) == 0) {
		ret->used = 2;
	} else {
		end = memmem(data, limit, "\r\n\r\n", 4);
		if (!end)
			return limit == HTTP_TRAILERS_MAX ? -EBADMSG : 0;
		ret->used = (size_t)(end - data) + 4;
	}
	ret->trailers = (struct http_slice){data, ret->used};
	body->is_done = true;
	return 0;
}

static int read_chunked(struct body *body, const char *data, size_t size, struct body_piece *ret)
{
	switch ((enum chunk_state)body->state) {
	case CHUNK_SIZE:
		return read_size(body, data, size, ret);
	case CHUNK_DATA:
		find_content(body, data, size, ret);
		if (body->left > 0)
			return 0;
		body->state = CHUNK_END;
		return 1;
	case CHUNK_END:
		return read_line_end(body, data, size, ret);
	case CHUNK_TRAILERS:
		return read_trailers(body, data, size, ret);
	}
	return -EBADMSG;
}

int body_step(struct body *body, const char *data, size_t size, struct body_piece *ret)
{
	*ret = (struct body_piece){0};
	if (body->is_done || size == 0)
		return 0;
	switch (body->framing) {
	case HTTP_NONE:
		return 0;
	case HTTP_LENGTH:
		find_content(body, data, size, ret);
		body->is_done = body->left == 0;
		return 0;
	case HTTP_TO_END:
		ret->content = (struct http_slice){data, size};
		ret->used = size;
		return 0;
	case HTTP_CHUNKED:
		return read_chunked(body, data, size, ret);
	}
	return -EBADMSG;
}

int body_end(struct body *body)
{
	if (body->framing == HTTP_TO_END)
		body->is_done = true;
	return body->is_done ? 0 : -EPIPE;
}
