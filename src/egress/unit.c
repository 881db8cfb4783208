/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/unit.h"
#include "base/scope.h"
#include "base/str.h"

#include <string.h>

#define DEPTH_MAX UNIT_DEPTH_MAX

static int digit_value(uint8_t digit, unsigned base)
{
	int value = str_hex_value((char)digit);

	return value < (int)base ? value : -1;
}

/* Between `least` and `most` digits at `start`, an ASCII character in all. */
static bool read_number(const uint8_t *at, size_t size, size_t start, size_t least, size_t most,
			unsigned base, struct unit *ret)
{
	unsigned value = 0;
	size_t n = 0;

	while (n < most && start + n < size && digit_value(at[start + n], base) >= 0) {
		value = value * base + (unsigned)digit_value(at[start + n], base);
		if (value > 0x7f)
			return false;
		n++;
	}
	if (n < least)
		return false;
	*ret = (struct unit){(uint8_t)value, (uint8_t)(start + n), (uint8_t)start, (uint8_t)n,
			     (uint8_t)base};
	return true;
}

static bool read_percent(const uint8_t *at, size_t size, int wanted, struct unit *ret)
{
	bool is_found = false;

	for (size_t start = 1, depth = 0; depth < DEPTH_MAX; depth++, start += 2) {
		struct unit unit;

		if (!read_number(at, size, start, 2, 2, 16, &unit))
			break;
		*ret = unit;
		is_found = true;
		/* "%25" begins another escape of two digits, or is the percent sign. */
		if (unit.c == wanted || unit.c != '%')
			break;
	}
	return is_found;
}

static bool is_punctuation(uint8_t c)
{
	return c > ' ' && c < 0x7f && !(c >= '0' && c <= '9') &&
	       !((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static bool read_backslash(const uint8_t *at, size_t size, int wanted, struct unit *ret)
{
	size_t n = 1;

	while (n < size && n < DEPTH_MAX && at[n] == '\\')
		n++;
	if (wanted == '\\' && n > 1) {
		*ret = (struct unit){.c = '\\', .size = 2};
		return true;
	}
	if (n == size)
		return false;
	switch (at[n]) {
	case 'u':
		return read_number(at, size, n + 1, 4, 4, 16, ret);
	case 'U':
		return n == 1 && read_number(at, size, n + 1, 8, 8, 16, ret);
	case 'x':
		return read_number(at, size, n + 1, 2, 2, 16, ret);
	default:
		if (read_number(at, size, n, 1, 3, 8, ret))
			return true;
	}
	/* A shell's "\ ", too. */
	if ((!is_punctuation(at[n]) && at[n] != ' ') || at[n] == '\\')
		return false;
	*ret = (struct unit){.c = at[n], .size = (uint8_t)(n + 1)};
	return true;
}

/* The names that HTML has for characters of ASCII. */
static const struct {
	const char *text;
	char c;
} entities[] = {
	{"&amp;", '&'},	   {"&lt;", '<'},	{"&gt;", '>'},	   {"&quot;", '"'},
	{"&apos;", '\''},  {"&AMP;", '&'},	{"&LT;", '<'},	   {"&GT;", '>'},
	{"&QUOT;", '"'},   {"&excl;", '!'},	{"&num;", '#'},	   {"&dollar;", '$'},
	{"&percnt;", '%'}, {"&lpar;", '('},	{"&rpar;", ')'},   {"&ast;", '*'},
	{"&midast;", '*'}, {"&plus;", '+'},	{"&comma;", ','},  {"&period;", '.'},
	{"&sol;", '/'},	   {"&colon;", ':'},	{"&semi;", ';'},   {"&equals;", '='},
	{"&quest;", '?'},  {"&commat;", '@'},	{"&lsqb;", '['},   {"&lbrack;", '['},
	{"&bsol;", '\\'},  {"&rsqb;", ']'},	{"&rbrack;", ']'}, {"&Hat;", '^'},
	{"&lowbar;", '_'}, {"&UnderBar;", '_'}, {"&grave;", '`'},  {"&lcub;", '{'},
	{"&lbrace;", '{'}, {"&verbar;", '|'},	{"&vert;", '|'},   {"&VerticalLine;", '|'},
	{"&rcub;", '}'},   {"&rbrace;", '}'},
};

static bool read_entity(const uint8_t *at, size_t size, struct unit *ret)
{
	bool is_hex = size > 2 && (at[2] | 0x20) == 'x';

	if (size > 1 && at[1] == '#') {
		if (!read_number(at, size, is_hex ? 3 : 2, 2, 12, is_hex ? 16 : 10, ret))
			return false;
		/* Browsers read it without its end, too. */
		ret->size += ret->size < size && at[ret->size] == ';';
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(entities); i++) {
		size_t length = strlen(entities[i].text);

		if (size >= length && memcmp(at, entities[i].text, length) == 0) {
			*ret = (struct unit){.c = (uint8_t)entities[i].c, .size = (uint8_t)length};
			return true;
		}
	}
	return false;
}

void unit_read(const uint8_t *at, const uint8_t *end, int wanted, struct unit *ret)
{
	size_t size = (size_t)(end - at);

	if ((*at == '%' && read_percent(at, size, wanted, ret)) ||
	    (*at == '\\' && read_backslash(at, size, wanted, ret)) ||
	    (*at == '&' && read_entity(at, size, ret)))
		return;
	*ret = (struct unit){.c = *at, .size = 1};
}

bool unit_read_own(const uint8_t *at, const uint8_t *end, unsigned depth, struct unit *ret)
{
	const char *more = *at == '%' ? "25" : *at == '&' ? "amp;" : "\\";
	size_t length = strlen(more), n = depth, size = 1;

	/* Each time doubles the backslashes. */
	if (*at == '\\')
		n = (1U << depth) - 1;
	for (; n > 0; n--, size += length)
		if ((size_t)(end - at) < size + length || memcmp(at + size, more, length) != 0)
			return false;
	*ret = (struct unit){.c = *at, .size = (uint8_t)size};
	return true;
}

void unit_write(uint8_t *at, const struct unit *unit, uint8_t c)
{
	unsigned rest = c;

	if (unit->n_digits == 0) {
		if (unit->size == 1)
			*at = c;
		return;
	}
	for (size_t i = 0; i < unit->n_digits; i++)
		rest /= unit->base;
	if (rest > 0)
		c = '*';
	rest = c;
	for (size_t i = unit->n_digits; i-- > 0; rest /= unit->base)
		at[unit->digits_at + i] = (uint8_t) "0123456789abcdef"[rest % unit->base];
}
