/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <stdint.h>
#include <stdio.h>

bool ends_with(const char *text, const char *suffix)
{
	size_t length = strlen(text), tail = strlen(suffix);

	return length >= tail && streq(text + length - tail, suffix);
}

size_t utf8_length(const char *text, size_t size)
{
	const unsigned char *s = (const unsigned char *)text;
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t length;
	uint32_t code;

	if (size == 0)
		return 0;
	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] < 0xe0)
		length = 2, code = s[0] & 0x1f;
	else if ((s[0] & 0xf0) == 0xe0)
		length = 3, code = s[0] & 0x0f;
	else if (s[0] >= 0xf0 && s[0] < 0xf5)
		length = 4, code = s[0] & 0x07;
	else
		return 0;
	if (size < length)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	if (code < least[length] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff)
		return 0;
	return length;
}

/* One of U+0000 to U+001F and U+007F to U+009F? */
static bool is_control(const char *character, size_t length)
{
	const unsigned char *s = (const unsigned char *)character;

	if (length == 1)
		return s[0] < 0x20 || s[0] == 0x7f;
	return length == 2 && s[0] == 0xc2 && s[1] < 0xa0;
}

bool str_is_printable(const char *text)
{
	size_t size = strlen(text);

	for (size_t i = 0; i < size;) {
		size_t length = utf8_length(text + i, size - i);

		if (length == 0 || is_control(text + i, length))
			return false;
		i += length;
	}
	return true;
}

/* Edit distance, rows of at most 63 characters. */
static unsigned distance(const char *a, const char *b)
{
	size_t width = strlen(b);
	unsigned row[64];

	if (width > 63 || strlen(a) > 63)
		return UINT32_MAX;
	for (size_t j = 0; j <= width; j++)
		row[j] = (unsigned)j;
	for (size_t i = 0; a[i]; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i + 1;
		for (size_t j = 1; j <= width; j++) {
			unsigned above = row[j];
			unsigned best = diagonal + (a[i] != b[j - 1]);

			if (above + 1 < best)
				best = above + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = above;
			row[j] = best;
		}
	}
	return row[width];
}

const char *str_nearest(const char *typed, const char *const *words)
{
	unsigned nearest = UINT32_MAX;
	const char *found = NULL;

	for (size_t i = 0; words[i]; i++) {
		unsigned d = distance(typed, words[i]);

		if (d < nearest) {
			nearest = d;
			found = words[i];
		}
	}
	/* A third of the letters may be wrong; beyond that a hint only confuses. */
	return found && nearest <= 1 + strlen(found) / 3 ? found : NULL;
}

/* Does `c` lie in the set that starts behind '['? `*after` is set behind the ']'; a set that is
 * not closed is no set. */
static bool in_set(const char *set, unsigned char c, const char **after, bool *ret_is_set)
{
	bool negate = *set == '!' || *set == '^', found = false;
	const char *p = set + negate;

	for (bool first = true; *p && (first || *p != ']'); first = false) {
		unsigned char low = (unsigned char)*p++;
		unsigned char high = low;

		if (*p == '-' && p[1] && p[1] != ']') {
			high = (unsigned char)p[1];
			p += 2;
		}
		found = found || (c >= low && c <= high);
	}
	*ret_is_set = *p == ']';
	*after = p + 1;
	return found != negate;
}

bool str_glob(const char *pattern, const char *text)
{
	const char *star = NULL, *resume = NULL;

	while (*text) {
		const char *after;
		bool is_set = false, hit = false;

		if (*pattern == '*') {
			star = pattern++;
			resume = text;
			continue;
		}
		if (*pattern == '[')
			hit = in_set(pattern + 1, (unsigned char)*text, &after, &is_set);
		if (is_set && hit) {
			pattern = after;
			text++;
		} else if (!is_set && *pattern && (*pattern == '?' || *pattern == *text)) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++resume;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

bool utf8_is_ignorable(uint32_t code)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{0x00ad, 0x00ad},   {0x034f, 0x034f}, {0x061c, 0x061c},	  {0x115f, 0x1160},
		{0x17b4, 0x17b5},   {0x180b, 0x180f}, {0x200b, 0x200f},	  {0x202a, 0x202e},
		{0x2060, 0x206f},   {0x3164, 0x3164}, {0xfe00, 0xfe0f},	  {0xfeff, 0xfeff},
		{0xffa0, 0xffa0},   {0xfff0, 0xfff8}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
		{0xe0000, 0xe0fff},
	};

	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
		if (code >= ranges[i].first && code <= ranges[i].last)
			return true;
	return false;
}

/* Would a terminal act on these bytes instead of showing them? Control characters, line separators
 * and the marks that turn the direction of writing. */
static bool acts_on_terminal(const char *character, size_t length)
{
	const unsigned char *s = (const unsigned char *)character;

	if (is_control(character, length))
		return true;
	if (length == 2)
		return s[0] == 0xd8 && s[1] == 0x9c; /* U+061C */
	if (length != 3 || s[0] != 0xe2)
		return false;
	return (s[1] == 0x80 && (s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae))) ||
	       (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9);
}

const char *str_show(const char *text, char *ret, size_t size)
{
	size_t left = strlen(text), used = 0, fits = 0;

	while (left) {
		size_t length = utf8_length(text, left);
		char piece[16] = "";

		if (length && !acts_on_terminal(text, length))
			memcpy(piece, text, length);
		else
			for (size_t i = 0; i < (length ? length : 1); i++)
				snprintf(piece + 4 * i, 5, "\\x%02x", (unsigned char)text[i]);
		if (used + strlen(piece) + 1 > size) {
			strcpy(ret + fits, "...");
			return ret;
		}
		memcpy(ret + used, piece, strlen(piece));
		used += strlen(piece);
		/* Where the dots could still stand. */
		if (used + 4 <= size)
			fits = used;
		text += length ? length : 1;
		left -= length ? length : 1;
	}
	ret[used] = '\0';
	return ret;
}

bool str_is_plain_name(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		char c = text[i];
		bool is_first =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

		if (!is_first && (i == 0 || (c != '-' && c != '_' && c != '.')))
			return false;
		if (c == '.' && text[i - 1] == '.')
			return false;
	}
	return size > 0;
}
