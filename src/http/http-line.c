/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http-line.h"

#include <string.h>
#include <strings.h>

/* Lines and words of a head, parsed strictly: CR LF, tokens, fields. */

bool http_is_token_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

bool http_is_token(struct http_slice slice)
{
	for (size_t i = 0; i < slice.size; i++)
		if (!http_is_token_char(slice.at[i]))
			return false;
	return slice.size > 0;
}

bool http_slice_is(struct http_slice slice, const char *text)
{
	return strlen(text) == slice.size && memcmp(slice.at, text, slice.size) == 0;
}

bool http_slice_is_like(struct http_slice slice, const char *text)
{
	return strlen(text) == slice.size && strncasecmp(slice.at, text, slice.size) == 0;
}

bool http_begins_like(struct http_slice slice, const char *text)
{
	size_t n = strlen(text);

	return slice.size >= n && strncasecmp(slice.at, text, n) == 0;
}

struct http_slice http_trim(struct http_slice slice)
{
	while (slice.size > 0 && (*slice.at == ' ' || *slice.at == '\t'))
		slice.at++, slice.size--;
	while (slice.size > 0 &&
	       (slice.at[slice.size - 1] == ' ' || slice.at[slice.size - 1] == '\t'))
		slice.size--;
	return slice;
}

/* ---- lines ---- */

static bool has_control(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)text[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return true;
	}
	return false;
}

enum http_result http_next_line(const char *text, size_t size, size_t *place,
				struct http_slice *ret, const char **ret_why)
{
	const char *start = text + *place;
	size_t left = size - *place;
	const char *end = left > 0 ? memchr(start, '\n', left) : NULL;
	size_t length;

	if (!end) {
		/* A CR at the end may be the first half of CR LF. */
		length = left > 0 && start[left - 1] == '\r' ? left - 1 : left;
		*ret_why = "a control character in the head";
		return has_control(start, length) ? HTTP_BAD : HTTP_MORE;
	}
	if (end == start || end[-1] != '\r') {
		*ret_why = "a line that does not end in CR and LF";
		return HTTP_BAD;
	}
	length = (size_t)(end - start) - 1;
	if (has_control(start, length)) {
		*ret_why = "a control character in the head";
		return HTTP_BAD;
	}
	*ret = (struct http_slice){start, length};
	*place += length + 2;
	return HTTP_OK;
}

bool http_read_field(struct http_slice line, struct http_field *ret, const char **ret_why)
{
	const char *colon = memchr(line.at, ':', line.size);

	if (*line.at == ' ' || *line.at == '\t') {
		*ret_why = "a field folded over two lines";
		return false;
	}
	if (!colon) {
		*ret_why = "a field without a colon";
		return false;
	}
	ret->name = (struct http_slice){line.at, (size_t)(colon - line.at)};
	ret->value = http_trim((struct http_slice){colon + 1, line.size - ret->name.size - 1});
	if (!http_is_token(ret->name)) {
		*ret_why = "an invalid field name";
		return false;
	}
	return true;
}
