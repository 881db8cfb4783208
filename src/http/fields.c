/* SPDX-License-Identifier: Apache-2.0 */
#include "http/fields.h"

#include "base/buf.h"
#include "base/scope.h"
#include "http/http-line.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/*
 * The meaning of fields: the length of the body, the connection, which fields a proxy passes on
 */

#define OPTIONS_MAX 32 /* in the Connection fields of one head */

bool http_find(const struct http_head *head, const char *name, struct http_slice *ret)
{
	for (size_t i = 0; i < head->n_fields; i++)
		if (http_slice_is_like(head->fields[i].name, name)) {
			*ret = head->fields[i].value;
			return true;
		}
	return false;
}

size_t http_count(const struct http_head *head, const char *name, struct http_slice *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < head->n_fields; i++)
		if (http_slice_is_like(head->fields[i].name, name)) {
			*ret = head->fields[i].value;
			n++;
		}
	return n;
}

/* The next item of "a, b, c"; false after the last one. */
static bool next_option(struct http_slice *left, struct http_slice *ret)
{
	const char *comma;

	if (left->size == 0)
		return false;
	comma = memchr(left->at, ',', left->size);
	ret->at = left->at;
	ret->size = comma ? (size_t)(comma - left->at) : left->size;
	left->at += ret->size + (comma != NULL);
	left->size -= ret->size + (comma != NULL);
	*ret = http_trim(*ret);
	return true;
}

static bool connection_names(const struct http_head *head, struct http_slice name)
{
	for (size_t i = 0; i < head->n_fields; i++) {
		struct http_slice left = head->fields[i].value, option;

		if (!http_slice_is_like(head->fields[i].name, "connection"))
			continue;
		while (next_option(&left, &option))
			if (option.size == name.size &&
			    strncasecmp(option.at, name.at, name.size) == 0)
				return true;
	}
	return false;
}

static bool connection_says(const struct http_head *head, const char *option)
{
	return connection_names(head, (struct http_slice){option, strlen(option)});
}

static bool options_are_few(const struct http_head *head)
{
	size_t n = 0;

	for (size_t i = 0; i < head->n_fields; i++) {
		struct http_slice left = head->fields[i].value, option;

		if (!http_slice_is_like(head->fields[i].name, "connection"))
			continue;
		while (next_option(&left, &option))
			if (++n > OPTIONS_MAX || (option.size > 0 && !http_is_token(option)))
				return false;
	}
	return true;
}

static bool is_alphanumeric(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* Digits only; 18 digits do not overflow. */
static bool read_length(struct http_slice text, uint64_t *ret)
{
	if (text.size == 0 || text.size > 18)
		return false;
	*ret = 0;
	for (size_t i = 0; i < text.size; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return false;
		*ret = *ret * 10 + (uint64_t)(text.at[i] - '0');
	}
	return true;
}

bool http_is_same_variable(struct http_slice name, const char *text)
{
	size_t k = 0;

	if (name.size != strlen(text))
		return false;
	while (k < name.size && (!is_alphanumeric(text[k]) ? !is_alphanumeric(name.at[k])
							   : (name.at[k] | 0x20) == text[k]))
		k++;
	return k == name.size;
}

static bool is_framing_disguised(struct http_slice name)
{
	static const char *const names[] = {"content-length", "transfer-encoding"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (http_is_same_variable(name, names[i]) && !http_slice_is_like(name, names[i]))
			return true;
	return false;
}

bool http_is_override(struct http_slice name)
{
	static const char *const names[] = {"x-http-method-override", "x-http-method",
					    "x-method-override",      "x-original-url",
					    "x-original-uri",	      "x-rewrite-url"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (http_is_same_variable(name, names[i]))
			return true;
	return false;
}

const char *http_read_framing(struct http_head *head)
{
	struct http_slice length = {0}, coding = {0};
	size_t n_lengths = http_count(head, "content-length", &length);
	size_t n_codings = http_count(head, "transfer-encoding", &coding);

	for (size_t i = 0; i < head->n_fields; i++)
		if (is_framing_disguised(head->fields[i].name))
			return "a field that looks like a length";
	if (n_lengths > 0 && n_codings > 0)
		return "both Content-Length and Transfer-Encoding";
	if (n_lengths > 1)
		return "more than one Content-Length";
	if (n_codings > 1)
		return "more than one Transfer-Encoding";
	if (n_lengths && !read_length(length, &head->length))
		return "a Content-Length that is no number";
	if (n_codings && !http_slice_is_like(coding, "chunked"))
		return "a Transfer-Encoding other than chunked";
	if (n_codings && head->minor == 0)
		return "a Transfer-Encoding in HTTP/1.0";
	head->has_length = n_lengths > 0;
	head->framing = n_codings ? HTTP_CHUNKED : n_lengths ? HTTP_LENGTH : HTTP_NONE;
	return NULL;
}

const char *http_read_connection(struct http_head *head)
{
	struct http_slice upgrade;

	if (!options_are_few(head))
		return "an invalid Connection field";
	head->wants_close = head->minor == 0 || connection_says(head, "close");
	head->wants_websocket = head->minor == 1 && head->framing == HTTP_NONE &&
				http_count(head, "upgrade", &upgrade) == 1 &&
				http_slice_is_like(upgrade, "websocket") &&
				connection_says(head, "upgrade");
	return NULL;
}

bool http_is_hop(const struct http_head *head, struct http_slice name)
{
	static const char *const names[] = {
		"connection", "keep-alive",	"te",	"transfer-encoding",
		"upgrade",    "content-length", "host", "http2-settings",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (http_slice_is_like(name, names[i]))
			return true;
	return http_begins_like(name, "proxy-") || connection_names(head, name);
}

bool http_is_trailer(struct http_slice name)
{
	static const char *const names[] = {
		"connection",
		"keep-alive",
		"te",
		"transfer-encoding",
		"upgrade",
		"content-length",
		"host",
		"http2-settings",
		"trailer",
		"authorization",
		"cookie",
		"set-cookie",
		"content-type",
		"content-encoding",
		"content-range",
		"cache-control",
		"expect",
		"range",
		"max-forwards",
		"www-authenticate",
		"location",
		"date",
		"age",
		"vary",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (http_slice_is_like(name, names[i]))
			return false;
	return !http_begins_like(name, "proxy-") && !http_begins_like(name, "if-") &&
	       !http_is_override(name) && !is_framing_disguised(name);
}

int http_copy_trailers(const char *text, size_t size, struct buf *out)
{
	size_t place = 0, n = 0;

	for (;;) {
		struct http_slice line;
		struct http_field field;
		const char *why;

		if (http_next_line(text, size, &place, &line, &why) != HTTP_OK)
			return -EBADMSG;
		if (line.size == 0)
			return place == size ? 0 : -EBADMSG;
		if (++n > HTTP_FIELDS_MAX || !http_read_field(line, &field, &why))
			return -EBADMSG;
		if (!http_is_trailer(field.name))
			continue;
		buf_add(out, field.name.at, field.name.size);
		buf_add_str(out, ": ");
		buf_add(out, field.value.at, field.value.size);
		buf_add_str(out, "\r\n");
	}
}
