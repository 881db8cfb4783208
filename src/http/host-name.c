/* SPDX-License-Identifier: Apache-2.0 */
#include "http/host-name.h"

#include "http/http-line.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

/* ---- names ---- */

bool host_name_read(const char *text, size_t size, char ret[HOST_NAME_SIZE])
{
	bool has_brackets = size > 0 && text[0] == '[';
	const char *end = size > 0 ? memchr(text, has_brackets ? ']' : ':', size) : NULL;
	size_t n = end ? (size_t)(end - text) + has_brackets : size;

	if (n == 0 || n >= HOST_NAME_SIZE || (has_brackets && !end) || memchr(text, '\0', n))
		return false;
	for (size_t i = 0; i < n; i++)
		ret[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
	if (n > 1 && ret[n - 1] == '.')
		n--;
	ret[n] = '\0';
	return true;
}

bool host_name_is_beneath(const char *name, const char *top)
{
	size_t n = strlen(name), length = strlen(top);

	if (length == 0 || n < length || strcasecmp(name + n - length, top) != 0)
		return false;
	return n == length || name[n - length - 1] == '.';
}

bool host_name_is_local(const char *name, const char *own)
{
	struct in_addr address;

	if (name[0] == '[' || inet_pton(AF_INET, name, &address) == 1 || !strchr(name, '.') ||
	    host_name_is_beneath(name, "localhost"))
		return true;
	return own[0] && strcasecmp(name, own) == 0;
}

/* ---- heads ---- */

static enum http_result bad(const char *why, const char **ret_why)
{
	*ret_why = why;
	return HTTP_BAD;
}

/* The fields from `place` on. */
static enum http_result find_host(const char *text, size_t size, size_t place,
				  struct http_slice *ret, const char **ret_why)
{
	for (;;) {
		struct http_slice line;
		struct http_field field;
		enum http_result result = http_next_line(text, size, &place, &line, ret_why);

		if (result != HTTP_OK)
			return result;
		if (line.size == 0)
			return HTTP_OK;
		if (!http_read_field(line, &field, ret_why))
			return HTTP_BAD;
		if (!http_slice_is_like(field.name, "host"))
			continue;
		if (ret->at)
			return bad("more than one Host", ret_why);
		*ret = field.value;
	}
}

enum http_result http_read_host(const char *text, size_t size, struct http_slice *ret,
				const char **ret_why)
{
	size_t limit = size < HTTP_HEAD_MAX ? size : HTTP_HEAD_MAX, place = 0;
	struct http_slice line;
	enum http_result result = http_next_line(text, limit, &place, &line, ret_why);

	*ret = (struct http_slice){NULL, 0};
	if (result == HTTP_OK)
		result = find_host(text, limit, place, ret, ret_why);
	if (result == HTTP_MORE && size >= HTTP_HEAD_MAX)
		return bad("a head of more than 64 KiB", ret_why);
	return result;
}
