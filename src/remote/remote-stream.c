/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/remote-stream.h"

#include "base/scope.h"
#include "base/str.h"

#include <sys/types.h>

#define EVENT_MAX (16U << 20)

/* Reads one block, "event: NAME" and "data: JSON", without the blank line after it. */
static bool read_block(struct event_reader *reader, char *block)
{
	const char *event = "message", *data = NULL;

	for (char *line = block, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (starts_with(line, "event: "))
			event = line + strlen("event: ");
		else if (starts_with(line, "data: "))
			data = line + strlen("data: ");
	}
	return !data || reader->on_event(reader->own, event, data);
}

bool events_feed(struct event_reader *reader, const char *data, size_t size)
{
	/* The blank line that ends an event is in the new bytes, or begins one byte before. */
	size_t used = 0, seen = reader->buffer.used > 0 ? reader->buffer.used - 1 : 0;
	char *end;

	if (!reader->buffer.limit)
		reader->buffer.limit = EVENT_MAX;
	buf_add(&reader->buffer, data, size);
	if (buf_error(&reader->buffer) < 0)
		return false;
	while (reader->buffer.data && (end = strstr(reader->buffer.data + seen, "\n\n"))) {
		*end = '\0';
		if (!read_block(reader, reader->buffer.data + used))
			return false;
		used = seen = (size_t)(end - reader->buffer.data) + 2;
	}
	if (used > 0 && reader->buffer.data) {
		memmove(reader->buffer.data, reader->buffer.data + used,
			reader->buffer.used - used + 1);
		reader->buffer.used -= used;
	}
	return true;
}

static int digit_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

ssize_t base64_read(const char *text, size_t size, char *ret)
{
	uint32_t bits = 0;
	size_t n = 0, digits = 0;

	for (size_t i = 0; i < size && text[i] != '='; i++) {
		int value = digit_value(text[i]);

		if (value < 0)
			return -1;
		bits = bits << 6 | (uint32_t)value;
		if (++digits % 4 == 0) {
			ret[n++] = (char)(bits >> 16);
			ret[n++] = (char)(bits >> 8);
			ret[n++] = (char)bits;
		}
	}
	if (digits % 4 == 1)
		return -1;
	if (digits % 4 >= 2)
		ret[n++] = (char)(digits % 4 == 2 ? bits >> 4 : bits >> 10);
	if (digits % 4 == 3)
		ret[n++] = (char)(bits >> 2);
	return (ssize_t)n;
}
