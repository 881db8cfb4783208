/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include "base/scope.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_done(struct buf *buf)
{
	free(buf->data);
	buf->data = NULL;
	buf->used = buf->room = 0;
}

/* Make place for `more` bytes and a NUL. */
static bool reserve(struct buf *buf, size_t more)
{
	size_t room = buf->room ? buf->room : 1024;
	char *data;

	if (buf->failed)
		return false;
	if (more > buf->limit || buf->used > buf->limit - more) {
		buf->failed = E2BIG;
		return false;
	}
	while (room < buf->used + more + 1)
		room *= 2;
	if (room == buf->room)
		return true;
	data = realloc(buf->data, room);
	if (!data) {
		buf->failed = ENOMEM;
		return false;
	}
	buf->data = data;
	buf->room = room;
	return true;
}

char *buf_extend(struct buf *buf, size_t size)
{
	char *at;

	if (!reserve(buf, size))
		return NULL;
	at = buf->data + buf->used;
	buf->used += size;
	buf->data[buf->used] = '\0';
	return at;
}

void buf_add(struct buf *buf, const void *data, size_t size)
{
	char *at = buf_extend(buf, size);

	if (at && size)
		memcpy(at, data, size);
}

void buf_add_str(struct buf *buf, const char *text)
{
	buf_add(buf, text, strlen(text));
}

void buf_add_char(struct buf *buf, char c)
{
	buf_add(buf, &c, 1);
}

/* Mostly it fits: written at once, without counting first. */
void buf_addf(struct buf *buf, const char *format, ...)
{
	const size_t room = buf->failed || !buf->data ? 0 : buf->room - buf->used;
	va_list args;
	int size;

	va_start(args, format);
	size = vsnprintf(room ? buf->data + buf->used : NULL, room, format, args);
	va_end(args);
	if (size < 0 && !buf->failed)
		buf->failed = errno;
	if (size < 0 || !reserve(buf, (size_t)size)) {
		if (room)
			buf->data[buf->used] = '\0';
		return;
	}
	if ((size_t)size >= room) {
		va_start(args, format);
		vsnprintf(buf->data + buf->used, (size_t)size + 1, format, args);
		va_end(args);
	}
	buf->used += (size_t)size;
}

int buf_error(const struct buf *buf)
{
	return -buf->failed;
}

char *buf_take(struct buf *buf)
{
	if (!reserve(buf, 0))
		return NULL;
	buf->data[buf->used] = '\0';
	buf->used = buf->room = 0;
	return take_ptr(buf->data);
}
