/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/log-line.h"

#include "audit/audit-base.h"
#include "base/str.h"

#include <errno.h>

/*
 * The form of a line: the members that all lines have, and a JSON syntax check for the others
 *
 * A million lines have to be checked in seconds, so the parser allocates nothing. The first members
 * have exactly one spelling, and the others are scanned once from left to right.
 */

#define DEPTH_MAX 32

bool audit_is_id(const char *text)
{
	size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz234567");

	return length > 0 && length < ATOLL_ID_SIZE && !text[length];
}

/* ---- writing ---- */

static char *put_digits(char *at, unsigned long value, unsigned count)
{
	for (unsigned i = count; i-- > 0; value /= 10)
		at[i] = (char)('0' + value % 10);
	return at + count;
}

static char *put_number(char *at, uint64_t value)
{
	unsigned count = 1;

	for (uint64_t left = value; left > 9; left /= 10)
		count++;
	return put_digits(at, value, count);
}

static char *put(char *at, const char *text)
{
	size_t size = strlen(text);

	memcpy(at, text, size);
	return at + size;
}

/* Converts days since 1970 to a date. A year begins in March here, so that the leap day is its
 * last day; 400 years always have the same number of days. */
static void civil_date(uint64_t days, unsigned *ret_year, unsigned *ret_month, unsigned *ret_day)
{
	uint64_t since = days + 719468; /* since 1 March of the year 0 */
	unsigned day = (unsigned)(since % 146097);
	unsigned year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
	unsigned of_year = day - (365 * year + year / 4 - year / 100);
	unsigned month = (5 * of_year + 2) / 153; /* from March: 0 to 11 */

	*ret_day = of_year - (153 * month + 2) / 5 + 1;
	*ret_month = month < 10 ? month + 3 : month - 9;
	*ret_year = year + (unsigned)(since / 146097) * 400 + (month >= 10);
}

/* Not gmtime_r(): some C libraries read the time zone file in it. */
void audit_time_format(uint64_t time_ns, char ret[AUDIT_TIME_SIZE])
{
	uint64_t seconds = time_ns / 1000000000;
	unsigned year, month, day;
	char *at = ret;

	civil_date(seconds / 86400, &year, &month, &day);
	at = put_digits(at, year, 4);
	*at++ = '-';
	at = put_digits(at, month, 2);
	*at++ = '-';
	at = put_digits(at, day, 2);
	*at++ = 'T';
	at = put_digits(at, seconds / 3600 % 24, 2);
	*at++ = ':';
	at = put_digits(at, seconds / 60 % 60, 2);
	*at++ = ':';
	at = put_digits(at, seconds % 60, 2);
	*at++ = '.';
	at = put_digits(at, time_ns % 1000000000, 9);
	*at++ = 'Z';
	*at = '\0';
}

void audit_line_format(const struct audit_line *line, struct buf *out)
{
	char text[512], *at = text;

	at = put(at, "{\"prev\":\"");
	hash_to_hex(line->prev, HASH_SIZE, at);
	at += 2 * (size_t)HASH_SIZE;
	at = put(at, "\",\"seq\":");
	at = put_number(at, line->seq);
	at = put(at, ",\"time\":\"");
	at = put(at, line->time);
	at = put(at, "\",\"run\":\"");
	at = put(at, line->run);
	if (line->step) {
		at = put(at, "\",\"step\":");
		at = put_number(at, line->step);
		at = put(at, ",\"kind\":\"");
	} else {
		at = put(at, "\",\"kind\":\"");
	}
	at = put(at, line->kind);
	*at++ = '"';
	buf_add(out, text, (size_t)(at - text));
}

/* ---- reading ---- */

struct reader {
	const char *at, *end;
};

static bool read_text(struct reader *in, const char *text)
{
	size_t size = strlen(text);

	if ((size_t)(in->end - in->at) < size || memcmp(in->at, text, size) != 0)
		return false;
	in->at += size;
	return true;
}

/* Reads a decimal number without leading zeros. */
static bool read_number(struct reader *in, uint64_t *ret)
{
	uint64_t value = 0;
	const char *start = in->at;

	for (; in->at < in->end && *in->at >= '0' && *in->at <= '9'; in->at++) {
		if (value > (UINT64_MAX - 9) / 10)
			return false;
		value = value * 10 + (uint64_t)(*in->at - '0');
	}
	*ret = value;
	return in->at > start && (*start != '0' || in->at == start + 1);
}

static bool read_time(struct reader *in, char ret[AUDIT_TIME_SIZE])
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd.dddddddddZ";
	const char *text = in->at;

	if ((size_t)(in->end - text) < sizeof form - 1)
		return false;
	for (size_t i = 0; form[i]; i++) {
		if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
			return false;
	}
	memcpy(ret, text, sizeof form - 1);
	ret[sizeof form - 1] = '\0';
	in->at += sizeof form - 1;
	return true;
}

/* Reads lower-case letters and digits up to a quote, and the quote. */
static bool read_word(struct reader *in, char *ret, size_t room)
{
	const char *start = in->at;
	size_t size;

	while (in->at < in->end &&
	       ((*in->at >= 'a' && *in->at <= 'z') || (*in->at >= '2' && *in->at <= '7')))
		in->at++;
	size = (size_t)(in->at - start);
	if (size == 0 || size >= room || !read_text(in, "\""))
		return false;
	memcpy(ret, start, size);
	ret[size] = '\0';
	return true;
}

const char *audit_line_parse(const char *text, size_t size, struct audit_line *ret)
{
	struct reader in = {text, text + size};
	uint64_t step = 0;

	if (!read_text(&in, "{\"prev\":\"") || in.end - in.at < 2 * HASH_SIZE ||
	    !hash_from_hex(in.at, HASH_SIZE, ret->prev))
		return "it does not begin with the hash of the line before";
	in.at += 2 * (size_t)HASH_SIZE;
	if (!read_text(&in, "\",\"seq\":") || !read_number(&in, &ret->seq))
		return "it has no number";
	if (!read_text(&in, ",\"time\":\"") || !read_time(&in, ret->time))
		return "it has no time";
	if (!read_text(&in, "\",\"run\":\"") || !read_word(&in, ret->run, sizeof ret->run))
		return "it names no run";
	if (read_text(&in, ",\"step\":") &&
	    (!read_number(&in, &step) || step == 0 || step > UINT32_MAX))
		return "its step is no number";
	ret->step = (uint32_t)step;
	if (!read_text(&in, ",\"kind\":\"") || !read_word(&in, ret->kind, sizeof ret->kind))
		return "it names no kind";
	if (in.at == in.end || (*in.at != ',' && *in.at != '}'))
		return "it ends early";
	ret->members = in.at;
	ret->members_size = (size_t)(in.end - in.at);
	return NULL;
}

/* ---- JSON ---- */

static bool skip_escape(struct reader *in)
{
	if (in->end - in->at < 2)
		return false;
	if (in->at[1] != 'u') {
		bool is_one = strchr("\"\\/bfnrt", in->at[1]) && in->at[1];

		in->at += 2;
		return is_one;
	}
	if (in->end - in->at < 6)
		return false;
	for (int i = 2; i < 6; i++) {
		if (str_hex_value(in->at[i]) < 0)
			return false;
	}
	in->at += 6;
	return true;
}

static bool skip_string(struct reader *in)
{
	if (in->at == in->end || *in->at != '"')
		return false;
	in->at++;
	while (in->at < in->end) {
		unsigned char c = (unsigned char)*in->at;

		if (c == '"') {
			in->at++;
			return true;
		}
		if (c == '\\') {
			if (!skip_escape(in))
				return false;
		} else if (c >= 0x80) {
			size_t length = utf8_length(in->at, (size_t)(in->end - in->at));

			if (length == 0)
				return false;
			in->at += length;
		} else if (c < 0x20) {
			return false;
		} else {
			in->at++;
		}
	}
	return false;
}

static bool skip_digits(struct reader *in)
{
	const char *start = in->at;

	while (in->at < in->end && *in->at >= '0' && *in->at <= '9')
		in->at++;
	return in->at > start;
}

static bool skip_number(struct reader *in)
{
	const char *start;

	if (in->at < in->end && *in->at == '-')
		in->at++;
	start = in->at;
	if (!skip_digits(in) || (*start == '0' && in->at > start + 1))
		return false;
	if (in->at < in->end && *in->at == '.') {
		in->at++;
		if (!skip_digits(in))
			return false;
	}
	if (in->at < in->end && (*in->at == 'e' || *in->at == 'E')) {
		in->at++;
		if (in->at < in->end && (*in->at == '+' || *in->at == '-'))
			in->at++;
		return skip_digits(in);
	}
	return true;
}

static bool skip_value(struct reader *in, unsigned depth);

/* Skips an array or object. */
static bool skip_list(struct reader *in, unsigned depth)
{
	bool is_object = *in->at == '{';
	char close = is_object ? '}' : ']';

	in->at++;
	if (in->at < in->end && *in->at == close) {
		in->at++;
		return true;
	}
	while (depth < DEPTH_MAX) {
		if (is_object && (!skip_string(in) || !read_text(in, ":")))
			return false;
		if (!skip_value(in, depth + 1) || in->at == in->end)
			return false;
		if (*in->at == close) {
			in->at++;
			return true;
		}
		if (*in->at++ != ',')
			return false;
	}
	return false;
}

static bool skip_value(struct reader *in, unsigned depth)
{
	if (in->at == in->end)
		return false;
	switch (*in->at) {
	case '{':
	case '[':
		return skip_list(in, depth);
	case '"':
		return skip_string(in);
	case 't':
		return read_text(in, "true");
	case 'f':
		return read_text(in, "false");
	case 'n':
		return read_text(in, "null");
	default:
		return skip_number(in);
	}
}

bool audit_json_is_valid(const char *text, size_t size)
{
	struct reader in = {text, text + size};

	return skip_value(&in, 0) && in.at == in.end;
}

/* ---- one member ---- */

int audit_json_string(const char *text, size_t size, char *ret, size_t room)
{
	struct reader in = {text, text + size};
	const char *end = text + size - 1;
	size_t used = 0;

	if (!skip_string(&in) || in.at != in.end)
		return -EBADMSG;
	for (const char *at = text + 1; at < end; at++) {
		char c = *at;

		/* The writer uses \\u escapes for ASCII control characters only. */
		if (c == '\\' && at[1] == 'u') {
			if (at[2] != '0' || at[3] != '0' || str_hex_value(at[4]) > 7)
				return -EBADMSG;
			c = (char)(str_hex_value(at[4]) << 4 | str_hex_value(at[5]));
			at += 5;
		} else if (c == '\\') {
			c = *++at == 'n' ? '\n' : *at;
		}
		if (used + 1 >= room)
			return -E2BIG;
		ret[used++] = c;
	}
	ret[used] = '\0';
	return (int)used;
}

/* Finds a member; `in` is at the comma before the first member, or at the closing brace. */
static int find_member(struct reader in, const char *key, const char **ret, size_t *ret_size)
{
	size_t length = strlen(key);

	while (read_text(&in, ",")) {
		const char *name = in.at + 1, *value;
		size_t name_size;

		if (!skip_string(&in))
			return -EBADMSG;
		name_size = (size_t)(in.at - name) - 1;
		if (!read_text(&in, ":"))
			return -EBADMSG;
		value = in.at;
		if (!skip_value(&in, 0))
			return -EBADMSG;
		if (name_size == length && memcmp(name, key, length) == 0) {
			*ret = value;
			*ret_size = (size_t)(in.at - value);
			return 0;
		}
	}
	return -ENOENT;
}

int audit_json_member(const char *text, size_t size, const char *key, const char **ret,
		      size_t *ret_size)
{
	struct reader in = {text, text + size};
	const char *value;
	size_t length = strlen(key);

	if (!read_text(&in, "{") || !skip_string(&in) || !read_text(&in, ":"))
		return -EBADMSG;
	value = in.at;
	if (!skip_value(&in, 0))
		return -EBADMSG;
	if ((size_t)(value - text) == length + 4 && memcmp(text + 2, key, length) == 0) {
		*ret = value;
		*ret_size = (size_t)(in.at - value);
		return 0;
	}
	return find_member(in, key, ret, ret_size);
}

int audit_line_string(const struct audit_line *line, const char *key, char *ret, size_t room)
{
	struct reader in = {line->members, line->members + line->members_size};
	const char *value;
	size_t size;
	int r = find_member(in, key, &value, &size);

	return r < 0 ? r : audit_json_string(value, size, ret, room);
}
