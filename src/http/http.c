/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http.h"

#include "http/fields.h"
#include "http/http-line.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/*
 * Heads of requests and answers
 *
 * http_read_request() and http_read_answer() read the first line, then the fields (read_fields()),
 * then what the fields mean (fields.c). They are called again from the start when more bytes came.
 */

static enum http_result read_fields(const char *text, size_t size, size_t place,
				    struct http_head *head, const char **ret_why)
{
	for (;;) {
		struct http_slice line;
		enum http_result result = http_next_line(text, size, &place, &line, ret_why);

		if (result != HTTP_OK)
			return result;
		if (line.size == 0)
			break;
		if (head->n_fields == HTTP_FIELDS_MAX) {
			*ret_why = "more than 256 fields";
			return HTTP_BAD;
		}
		if (!http_read_field(line, &head->fields[head->n_fields++], ret_why))
			return HTTP_BAD;
	}
	head->size = place;
	return HTTP_OK;
}

/* ---- the target ---- */

static int read_port(struct http_slice text, uint16_t *ret)
{
	unsigned port = 0;

	if (text.size == 0 || text.size > 5 || *text.at == '0')
		return -EINVAL;
	for (size_t i = 0; i < text.size; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return -EINVAL;
		port = port * 10 + (unsigned)(text.at[i] - '0');
	}
	if (port > UINT16_MAX)
		return -EINVAL;
	*ret = (uint16_t)port;
	return 0;
}

int http_place(struct http_slice text, struct http_place *ret)
{
	bool has_brackets = text.size > 0 && *text.at == '[';
	const char *end = NULL;
	struct http_slice host = text;

	*ret = (struct http_place){0};
	if (text.size == 0)
		return -EINVAL;
	end = memchr(text.at, has_brackets ? ']' : ':', text.size);
	if (has_brackets && !end)
		return -EINVAL;
	if (end) {
		size_t n = (size_t)(end - text.at) + has_brackets;
		struct http_slice left = {text.at + n, text.size - n};

		host.size = n;
		if (left.size > 0 &&
		    (*left.at != ':' ||
		     read_port((struct http_slice){left.at + 1, left.size - 1}, &ret->port) < 0))
			return -EINVAL;
	}
	if (network_address(host.at, host.size, &ret->address) == 0)
		return 0;
	return has_brackets ? -EINVAL : network_name(host.at, host.size, ret->name);
}

bool http_place_is(const struct http_place *place, const char *name,
		   const struct network_address *address, uint16_t port, uint16_t default_port)
{
	if ((place->port ? place->port : default_port) != port)
		return false;
	if (*name || *place->name)
		return strcmp(place->name, name) == 0;
	return memcmp(&place->address, address, sizeof *address) == 0;
}

/* "/path?query", or what follows the authority of an absolute one. */
static const char *read_origin(struct http_slice text, struct http_head *head)
{
	const char *mark = text.size > 0 ? memchr(text.at, '?', text.size) : NULL;
	size_t n = mark ? (size_t)(mark - text.at) : text.size;

	head->path = (struct http_slice){text.at, n};
	head->query = (struct http_slice){text.at + n, text.size - n};
	if (n == 0 && head->form == HTTP_ABSOLUTE)
		head->path = (struct http_slice){"/", 1};
	return *head->path.at == '/' ? NULL : "a target of no known form";
}

static const char *read_absolute(struct http_head *head, size_t n_scheme)
{
	struct http_slice left = {head->target.at + n_scheme, head->target.size - n_scheme};
	struct http_slice authority = {left.at, 0};

	while (authority.size < left.size && !strchr("/?", left.at[authority.size]))
		authority.size++;
	head->form = HTTP_ABSOLUTE;
	if (http_place(authority, &head->authority) < 0)
		return "a target whose host is none";
	left.at += authority.size;
	left.size -= authority.size;
	return read_origin(left, head);
}

static const char *read_target(struct http_head *head)
{
	struct http_slice target = head->target;

	for (size_t i = 0; i < target.size; i++)
		if (target.at[i] <= ' ' || target.at[i] > '~' || target.at[i] == '#')
			return "a character in the target that has no place there";
	if (target.size == 0)
		return "no target";
	if (http_slice_is(head->method, "CONNECT")) {
		head->form = HTTP_AUTHORITY;
		head->path = target;
		if (http_place(target, &head->authority) < 0 || head->authority.port == 0)
			return "CONNECT to what is no host and port";
		return NULL;
	}
	if (http_slice_is(target, "*")) {
		head->form = HTTP_ASTERISK;
		head->path = target;
		return http_slice_is(head->method, "OPTIONS") ? NULL : "a target of no known form";
	}
	if (*target.at == '/')
		return read_origin(target, head);
	if (http_begins_like(target, "http://"))
		return read_absolute(head, strlen("http://"));
	head->is_https = http_begins_like(target, "https://");
	return head->is_https ? read_absolute(head, strlen("https://"))
			      : "a target of no known form";
}

/* ---- requests ---- */

static const char *read_version(struct http_slice version, struct http_head *head)
{
	head->minor = http_slice_is(version, "HTTP/1.1");
	return head->minor || http_slice_is(version, "HTTP/1.0")
		       ? NULL
		       : "a version of HTTP other than 1.0 and 1.1";
}

static const char *read_request_line(struct http_slice line, struct http_head *head)
{
	const char *first = line.size > 0 ? memchr(line.at, ' ', line.size) : NULL;
	const char *second;

	if (http_slice_is(line, "PRI * HTTP/2.0"))
		return "HTTP/2 without TLS";
	if (!first)
		return "no request of HTTP/1";
	head->method = (struct http_slice){line.at, (size_t)(first - line.at)};
	if (!http_is_token(head->method))
		return "an invalid method";
	second = memchr(first + 1, ' ', line.size - head->method.size - 1);
	if (!second)
		return "HTTP/0.9";
	head->target = (struct http_slice){first + 1, (size_t)(second - first) - 1};
	return read_version(
		       (struct http_slice){second + 1, (size_t)(line.at + line.size - second) - 1},
		       head)
		       ?: read_target(head);
}

/* HTTP/1.1 needs a Host. Two of them are refused. */
static const char *read_host(struct http_head *head)
{
	struct http_slice host;
	size_t n = http_count(head, "host", &host);

	if (n > 1)
		return "more than one Host";
	if (n == 0)
		return head->minor == 1 ? "no Host" : NULL;
	head->has_host = true;
	return http_place(host, &head->host) < 0 ? "an invalid Host" : NULL;
}

/* An incomplete line: can it still become a request line? */
static const char *check_start(const char *text, size_t size)
{
	for (size_t i = 0; i < size && text[i] != ' '; i++)
		if (!http_is_token_char(text[i]))
			return i > 0 && text[i] == '\r' ? NULL : "no request of HTTP/1";
	return NULL;
}

static enum http_result bad(const char *why, const char **ret_why)
{
	*ret_why = why;
	return why ? HTTP_BAD : HTTP_OK;
}

/* HTTP_MORE becomes HTTP_BAD for a head that is too long. */
static enum http_result limit_size(enum http_result result, size_t size, const char **ret_why)
{
	if (result == HTTP_MORE && size >= HTTP_HEAD_MAX)
		return bad("a head of more than 64 KiB", ret_why);
	return result;
}

static void clear(struct http_head *head)
{
	memset(head, 0, offsetof(struct http_head, fields));
}

enum http_result http_read_request(const char *text, size_t size, struct http_head *ret,
				   const char **ret_why)
{
	size_t limit = size < HTTP_HEAD_MAX ? size : HTTP_HEAD_MAX, place = 0;
	enum http_result result;
	struct http_slice line;
	const char *why;

	clear(ret);
	result = http_next_line(text, limit, &place, &line, ret_why);
	if (result == HTTP_MORE && (why = check_start(text, limit)))
		return bad(why, ret_why);
	if (result != HTTP_OK)
		return limit_size(result, size, ret_why);
	if ((why = read_request_line(line, ret)))
		return bad(why, ret_why);
	result = read_fields(text, limit, place, ret, ret_why);
	if (result != HTTP_OK)
		return limit_size(result, size, ret_why);
	why = read_host(ret);
	why = why ?: http_read_framing(ret);
	why = why ?: http_read_connection(ret);
	if (!why && ret->wants_websocket)
		ret->wants_websocket = http_slice_is(ret->method, "GET");
	return bad(why, ret_why);
}

/* ---- answers ---- */

static const char *read_status_line(struct http_slice line, struct http_head *head)
{
	const char *digits = line.at + 9;
	const char *why;

	if (line.size < 12 || line.at[8] != ' ')
		return "no answer of HTTP/1";
	if ((why = read_version((struct http_slice){line.at, 8}, head)))
		return why;
	for (int i = 0; i < 3; i++) {
		if (digits[i] < '0' || digits[i] > '9')
			return "no answer of HTTP/1";
		head->status = head->status * 10 + (unsigned)(digits[i] - '0');
	}
	if (head->status < 100 || (line.size > 12 && line.at[12] != ' '))
		return "no answer of HTTP/1";
	if (line.size > 13)
		head->reason = (struct http_slice){line.at + 13, line.size - 13};
	return NULL;
}

static bool has_no_body(unsigned status, struct http_slice method)
{
	return status < 200 || status == 204 || status == 304 || http_slice_is(method, "HEAD") ||
	       (http_slice_is(method, "CONNECT") && status < 300);
}

enum http_result http_read_answer(const char *text, size_t size, struct http_slice method,
				  struct http_head *ret, const char **ret_why)
{
	size_t limit = size < HTTP_HEAD_MAX ? size : HTTP_HEAD_MAX, place = 0;
	enum http_result result;
	struct http_slice line;
	const char *why;

	clear(ret);
	result = http_next_line(text, limit, &place, &line, ret_why);
	if (result != HTTP_OK)
		return limit_size(result, size, ret_why);
	if ((why = read_status_line(line, ret)))
		return bad(why, ret_why);
	result = read_fields(text, limit, place, ret, ret_why);
	if (result != HTTP_OK)
		return limit_size(result, size, ret_why);
	if ((why = http_read_framing(ret)))
		return bad(why, ret_why);
	if (has_no_body(ret->status, method))
		ret->framing = HTTP_NONE;
	else if (ret->framing == HTTP_NONE)
		ret->framing = HTTP_TO_END;
	why = http_read_connection(ret);
	ret->wants_websocket = ret->wants_websocket && ret->status == 101;
	return bad(why, ret_why);
}
