/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "base/str.h"

#include <string.h>

/* Bytes of a word that are 0, in their highest bits; what stands above one may be told wrongly. */
static uint64_t zeros(uint64_t word)
{
	return (word - UINT64_C(0x0101010101010101)) & ~word & UINT64_C(0x8080808080808080);
}

/* Is each of eight bytes printable ASCII, and neither the quote nor the backslash? */
static bool is_plain_word(const char *text)
{
	const uint64_t each = UINT64_C(0x0101010101010101), high = UINT64_C(0x8080808080808080);
	uint64_t word;

	memcpy(&word, text, sizeof word);
	return !((word | (word - each * 0x20)) & high) &&
	       !(zeros(word ^ each * '"') | zeros(word ^ each * '\\') | zeros(word ^ each * 0x7f));
}

/* How many bytes from here need no thought. Most texts are plain as a whole. */
static size_t plain_length(const char *text, size_t size)
{
	size_t i = 0;

	while (size - i >= 8 && is_plain_word(text + i))
		i += 8;
	while (i < size && text[i] >= 0x20 && text[i] < 0x7f && text[i] != '"' && text[i] != '\\')
		i++;
	return i;
}

/* From the first byte that needs some on. */
static void quote_rest(struct buf *out, const char *text, size_t size)
{
	size_t i = 0;

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

void json_quote(struct buf *out, const char *text, size_t size)
{
	size_t plain = plain_length(text, size);
	char *at = buf_extend(out, 1 + plain + (plain == size));

	if (!at)
		return;
	*at++ = '"';
	memcpy(at, text, plain);
	if (plain == size)
		at[plain] = '"';
	else
		quote_rest(out, text + plain, size - plain);
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

static void add_digits(struct buf *out, uint64_t value)
{
	char text[20], *at = text + sizeof text;

	do
		*--at = (char)('0' + value % 10);
	while (value /= 10);
	buf_add(out, at, (size_t)(text + sizeof text - at));
}

void json_uint(struct json *json, const char *key, uint64_t value)
{
	start_value(json, key);
	add_digits(json->out, value);
}

void json_uint_str(struct json *json, const char *key, uint64_t value)
{
	start_value(json, key);
	buf_add_char(json->out, '"');
	add_digits(json->out, value);
	buf_add_char(json->out, '"');
}

void json_int(struct json *json, const char *key, int64_t value)
{
	start_value(json, key);
	if (value < 0)
		buf_add_char(json->out, '-');
	add_digits(json->out, value < 0 ? -(uint64_t)value : (uint64_t)value);
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
