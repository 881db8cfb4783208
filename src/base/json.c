/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "base/str.h"

#include <inttypes.h>
#include <string.h>

/* How many bytes from here need no thought: printable ASCII but the quote and the backslash. */
static size_t plain_length(const char *text, size_t size)
{
	size_t i = 0;

	while (i < size && text[i] >= 0x20 && text[i] < 0x7f && text[i] != '"' && text[i] != '\\')
		i++;
	return i;
}

void json_quote(struct buf *out, const char *text, size_t size)
{
	size_t i = 0;

	buf_add_char(out, '"');
	while (i < size) {
		size_t plain = plain_length(text + i, size - i), length;
		unsigned char c;

		buf_add(out, text + i, plain);
		i += plain;
		if (i == size)
			break;
		c = (unsigned char)text[i];
		length = utf8_length(text + i, size - i);
		if (c == '"' || c == '\\') {
			buf_addf(out, "\\%c", c);
		} else if (c == '\n') {
			buf_add_str(out, "\\n");
		} else if (c < 0x20 || c == 0x7f) {
			buf_addf(out, "\\u%04x", c);
		} else if (length == 0) {
			buf_addf(out, "\\udc%02x", c);
			length = 1;
		} else if (length == 3 && memcmp(text + i, "\xe2\x80\xa8", 3) == 0) {
			buf_add_str(out, "\\u2028"); /* ends a line in JavaScript */
		} else if (length == 3 && memcmp(text + i, "\xe2\x80\xa9", 3) == 0) {
			buf_add_str(out, "\\u2029");
		} else {
			buf_add(out, text + i, length);
		}
		i += length ? length : 1;
	}
	buf_add_char(out, '"');
}

static void start_value(struct json *json, const char *key)
{
	if (json->needs_comma)
		buf_add_char(json->out, ',');
	if (key) {
		json_quote(json->out, key, strlen(key));
		buf_add_char(json->out, ':');
	}
	json->needs_comma = true;
}

void json_open(struct json *json, const char *key, char bracket)
{
	start_value(json, key);
	buf_add_char(json->out, bracket);
	json->needs_comma = false;
}

void json_close(struct json *json, char bracket)
{
	buf_add_char(json->out, bracket);
	json->needs_comma = true;
}

void json_strn(struct json *json, const char *key, const char *value, size_t size)
{
	start_value(json, key);
	json_quote(json->out, value, size);
}

void json_str(struct json *json, const char *key, const char *value)
{
	if (!value)
		json_none(json, key);
	else
		json_strn(json, key, value, strlen(value));
}

void json_uint(struct json *json, const char *key, uint64_t value)
{
	start_value(json, key);
	buf_addf(json->out, "%" PRIu64, value);
}

void json_int(struct json *json, const char *key, int64_t value)
{
	start_value(json, key);
	buf_addf(json->out, "%" PRId64, value);
}

void json_bool(struct json *json, const char *key, bool value)
{
	start_value(json, key);
	buf_add_str(json->out, value ? "true" : "false");
}

void json_none(struct json *json, const char *key)
{
	start_value(json, key);
	buf_add_str(json->out, "null");
}

void json_raw(struct json *json, const char *key, const char *text)
{
	start_value(json, key);
	buf_add_str(json->out, text);
}
