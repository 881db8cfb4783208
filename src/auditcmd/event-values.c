/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/event-values.h"

#include "base/buf.h"
#include "base/str.h"

#include <stdio.h>
#include <time.h>

/* Values of an event, and how they are shown. */

const char *event_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

uint64_t event_number(const json_t *object, const char *key, uint64_t otherwise)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return otherwise;
	return (uint64_t)json_integer_value(value);
}

bool event_has(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return value && !json_is_null(value) && !json_is_false(value);
}

/* ---- time ---- */

/* Converts a date to days since 1970; a year begins in March here. */
static int64_t days_since_1970(int64_t year, unsigned month, unsigned day)
{
	int64_t y = month <= 2 ? year - 1 : year, era = y / 400;
	unsigned of_era = (unsigned)(y - era * 400);
	unsigned of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

	return era * 146097 + (int64_t)(of_era * 365 + of_era / 4 - of_era / 100 + of_year) -
	       719468;
}

static bool digits(const char **at, int n, unsigned *ret)
{
	*ret = 0;
	for (; n > 0; n--, (*at)++) {
		if (**at < '0' || **at > '9')
			return false;
		*ret = *ret * 10 + (unsigned)(**at - '0');
	}
	return true;
}

static bool letter(const char **at, char c)
{
	return *(*at)++ == c;
}

bool event_read_time(const char *text, uint64_t *ret_ns)
{
	unsigned year, month, day, hour, minute, second, ns = 0, scale = 100000000;
	bool is_good = digits(&text, 4, &year) && letter(&text, '-') && digits(&text, 2, &month) &&
		       letter(&text, '-') && digits(&text, 2, &day) && letter(&text, 'T') &&
		       digits(&text, 2, &hour) && letter(&text, ':') && digits(&text, 2, &minute) &&
		       letter(&text, ':') && digits(&text, 2, &second);

	if (!is_good || year < 1970 || year > 2500 || month < 1 || month > 12 || day < 1 ||
	    day > 31)
		return false;
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9'; text++, scale /= 10)
			ns += scale * (unsigned)(*text - '0');
	if (text[0] != 'Z' || text[1] != '\0')
		return false;
	*ret_ns = ((uint64_t)days_since_1970(year, month, day) * 86400 + hour * 3600 + minute * 60 +
		   second) *
			  1000000000U +
		  ns;
	return true;
}

/* ---- shown to people ---- */

static uint32_t code_point(const unsigned char *s, size_t length)
{
	static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t code = s[0] & masks[length];

	for (size_t i = 1; i < length; i++)
		code = code << 6 | (s[i] & 0x3fU);
	return code;
}

/* The same rule as print_escaped(): no control characters, none that change the direction of
 * text. */
static bool is_harmless(uint32_t code)
{
	if (code < 0x20 || (code >= 0x7f && code < 0xa0))
		return false;
	return !utf8_is_ignorable(code) && code != 0x2028 && code != 0x2029 &&
	       !(code >= 0xfff9 && code <= 0xfffb);
}

static void show_bytes(const unsigned char *s, size_t length, struct buf *out)
{
	for (size_t i = 0; i < length; i++) {
		if (s[i] == '\n')
			buf_add(out, "\\n", 2);
		else if (s[i] == '\t')
			buf_add(out, "\\t", 2);
		else
			buf_addf(out, "\\x%02x", s[i]);
	}
}

void event_show(const char *text, struct buf *out)
{
	size_t size = strlen(text), i = 0;

	while (i < size) {
		size_t plain = i, length;
		uint32_t code;

		while (plain < size && text[plain] >= 0x20 && text[plain] < 0x7f)
			plain++;
		buf_add(out, text + i, plain - i);
		i = plain;
		if (i == size)
			break;
		length = utf8_length(text + i, size - i);
		code = length ? code_point((const unsigned char *)text + i, length) : 0;
		if (code >= 0x10dc00 && code <= 0x10dcff)
			buf_addf(out, "\\x%02x", (unsigned)(code & 0xff));
		else if (length && is_harmless(code))
			buf_add(out, text + i, length);
		else
			show_bytes((const unsigned char *)text + i, length ? length : 1, out);
		i += length ? length : 1;
	}
}

bool event_json(const json_t *value, struct buf *out)
{
	char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY), *from = text, *at;

	if (!text)
		return false;
	for (at = text; (at = strchr(at, 0xf4));) {
		size_t length = utf8_length(at, strlen(at));
		uint32_t code = length == 4 ? code_point((const unsigned char *)at, 4) : 0;

		if (code < 0x10dc00 || code > 0x10dcff) {
			at++;
			continue;
		}
		buf_add(out, from, (size_t)(at - from));
		buf_addf(out, code == 0x10dc00 ? "\\u00%02x" : "\\udc%02x",
			 (unsigned)(code & 0xff));
		at += 4;
		from = at;
	}
	buf_add_str(out, from);
	free(text);
	return buf_error(out) == 0;
}
