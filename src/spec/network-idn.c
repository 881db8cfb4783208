/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names beyond ASCII
 *
 * On the wire names are A-labels. A person may write a line as it reads, and it is turned into
 * Punycode (RFC 3492) here. What programs make of such text differs: they fold case, compose marks,
 * take other characters for dots. So only text is accepted on which all of them agree, from a list
 * of letters; for the rest one can always write the A-label ("xn--...") oneself.
 */
#include "base/buf.h"
#include "spec/network-inner.h"

#include <stdio.h>

#define LABEL_MAX 63

/* ---- which letters ---- */

enum script {
	LATIN = 1,
	GREEK = 2,
	CYRILLIC = 4,
	OTHER = 8,	    /* has no case; mixed with others in real names */
	RIGHT_TO_LEFT = 16, /* moves what stands beside it on a screen */
};

enum step {
	ALL,
	EVEN, /* only these: the others are their upper case */
	ODD,
};

/* Letters that are their own lower case and their own composed form. Left out on purpose: sharp s
 * and final sigma, which some programs turn into others; ligatures; combining marks. */
static const struct letters {
	uint32_t first, last;
	enum step step;
	enum script script;
} letters[] = {
	{0xe0, 0xf6, ALL, LATIN},	    {0xf8, 0xff, ALL, LATIN},
	{0x101, 0x131, ODD, LATIN},	    {0x135, 0x137, ODD, LATIN},
	{0x138, 0x13e, EVEN, LATIN},	    {0x142, 0x148, EVEN, LATIN},
	{0x14b, 0x177, ODD, LATIN},	    {0x17a, 0x17e, EVEN, LATIN},
	{0x180, 0x180, ALL, LATIN},	    {0x183, 0x185, ODD, LATIN},
	{0x188, 0x188, ALL, LATIN},	    {0x18c, 0x18c, ALL, LATIN},
	{0x192, 0x192, ALL, LATIN},	    {0x199, 0x19a, ALL, LATIN},
	{0x1a1, 0x1a5, ODD, LATIN},	    {0x1a8, 0x1a8, ALL, LATIN},
	{0x1ad, 0x1ad, ALL, LATIN},	    {0x1b0, 0x1b0, ALL, LATIN},
	{0x1b4, 0x1b6, EVEN, LATIN},	    {0x1ce, 0x1dc, EVEN, LATIN},
	{0x1dd, 0x1ef, ODD, LATIN},	    {0x1f5, 0x1f5, ALL, LATIN},
	{0x1f9, 0x21f, ODD, LATIN},	    {0x223, 0x233, ODD, LATIN},
	{0x247, 0x24f, ODD, LATIN},	    {0x250, 0x2af, ALL, LATIN},
	{0x1e01, 0x1e95, ODD, LATIN},	    {0x1e96, 0x1e99, ALL, LATIN},
	{0x1ea1, 0x1eff, ODD, LATIN},	    {0x390, 0x390, ALL, GREEK},
	{0x3ac, 0x3c1, ALL, GREEK},	    {0x3c3, 0x3ce, ALL, GREEK},
	{0x430, 0x45f, ALL, CYRILLIC},	    {0x461, 0x481, ODD, CYRILLIC},
	{0x48b, 0x4bf, ODD, CYRILLIC},	    {0x4c2, 0x4ce, EVEN, CYRILLIC},
	{0x4cf, 0x52f, ODD, CYRILLIC},	    {0x561, 0x586, ALL, OTHER},
	{0x5d0, 0x5ea, ALL, RIGHT_TO_LEFT}, {0x620, 0x63f, ALL, RIGHT_TO_LEFT},
	{0x641, 0x64a, ALL, RIGHT_TO_LEFT}, {0x671, 0x674, ALL, RIGHT_TO_LEFT},
	{0x679, 0x6d3, ALL, RIGHT_TO_LEFT}, {0x901, 0x939, ALL, OTHER},
	{0x93c, 0x94d, ALL, OTHER},	    {0x966, 0x96f, ALL, OTHER},
	{0x981, 0x9cd, ALL, OTHER},	    {0x9e6, 0x9f1, ALL, OTHER},
	{0xb82, 0xbcd, ALL, OTHER},	    {0xe01, 0xe32, ALL, OTHER},
	{0xe34, 0xe3a, ALL, OTHER},	    {0xe40, 0xe4e, ALL, OTHER},
	{0x10d0, 0x10fa, ALL, OTHER},	    {0x3005, 0x3007, ODD, OTHER},
	{0x3041, 0x3096, ALL, OTHER},	    {0x30a1, 0x30fa, ALL, OTHER},
	{0x30fc, 0x30fe, ALL, OTHER},	    {0x3400, 0x4dbf, ALL, OTHER},
	{0x4e00, 0x9fff, ALL, OTHER},	    {0xac00, 0xd7a3, ALL, OTHER},
	{0x20000, 0x2a6df, ALL, OTHER},
};

static const char other_dot[] = "it has a character that some programs take for a dot; write a "
				"plain one";
static const char invisible[] = "it has a character that cannot be seen or that turns the "
				"direction of writing";
static const char not_plain[] = "it has a letter that programs do not agree about; write lower "
				"case and composed letters, or the name as it is on the wire "
				"(xn--...)";
static const char mixed[] = "it mixes scripts in one part of the name, which reads like another; "
			    "write it as it is on the wire (xn--...) if it is meant";

static bool is_other_dot(uint32_t c)
{
	return c == 0x3002 || c == 0xff0e || c == 0xff61 || c == 0x2024 || c == 0xfe52;
}

static bool is_invisible(uint32_t c)
{
	return (c >= 0x80 && c <= 0xa0) || c == 0xad || c == 0x34f || c == 0x61c || c == 0x115f ||
	       c == 0x1160 || c == 0x17b4 || c == 0x17b5 || (c >= 0x180b && c <= 0x180f) ||
	       (c >= 0x2000 && c <= 0x200f) || (c >= 0x2028 && c <= 0x202f) ||
	       (c >= 0x205f && c <= 0x206f) || c == 0x3000 || c == 0x3164 ||
	       (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff || c == 0xffa0 ||
	       (c >= 0xfff0 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe0fff);
}

/* 0 for what is no letter of the list. */
static unsigned script_of(uint32_t c)
{
	if (c < 0x80)
		return c >= 'a' && c <= 'z' ? LATIN : 0;
	for (size_t i = 0; i < ARRAY_SIZE(letters); i++)
		if (c >= letters[i].first && c <= letters[i].last &&
		    (letters[i].step == ALL || (c & 1) == (letters[i].step == ODD)))
			return letters[i].script;
	return 0;
}

/* Of a label with something beyond ASCII in it. */
static const char *letters_problem(const uint32_t *label, size_t n)
{
	unsigned scripts = 0, alphabets;
	bool has_signs = false;

	for (size_t i = 0; i < n; i++) {
		uint32_t c = label[i];
		unsigned script = script_of(c);

		if (is_other_dot(c))
			return other_dot;
		if (is_invisible(c))
			return invisible;
		if (!script && (c >= 0x80 || (c >= 'A' && c <= 'Z')))
			return not_plain;
		has_signs = has_signs || !script;
		scripts |= script;
	}
	alphabets = scripts & (LATIN | GREEK | CYRILLIC);
	if (alphabets & (alphabets - 1))
		return mixed;
	/* Digits and signs beside letters that run to the left jump about on a screen. */
	if ((scripts & RIGHT_TO_LEFT) && (has_signs || scripts != RIGHT_TO_LEFT))
		return mixed;
	if (n >= 4 && label[2] == '-' && label[3] == '-')
		return "a part of it has '--' as its third and fourth character";
	return NULL;
}

/* ---- Punycode ---- */

static uint32_t adapt(uint32_t delta, uint32_t n, bool is_first)
{
	uint32_t k = 0;

	delta = is_first ? delta / 700 : delta / 2;
	delta += delta / n;
	for (; delta > 455; k += 36)
		delta /= 35;
	return k + 36 * delta / (delta + 38);
}

static uint32_t threshold(uint32_t k, uint32_t bias)
{
	return k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
}

static char digit_char(uint32_t digit)
{
	return (char)(digit < 26 ? 'a' + digit : '0' + digit - 26);
}

/* One delta as a number of variable length; false if it does not fit. */
static bool put_delta(uint32_t delta, uint32_t bias, char *ret, size_t *used)
{
	for (uint32_t k = 36;; k += 36) {
		uint32_t t = threshold(k, bias);

		if (*used == LABEL_MAX)
			return false;
		if (delta < t) {
			ret[(*used)++] = digit_char(delta);
			return true;
		}
		ret[(*used)++] = digit_char(t + (delta - t) % (36 - t));
		delta = (delta - t) / (36 - t);
	}
}

/* `ret` has room for LABEL_MAX bytes. The length, or 0 if the label would be too long: at most 63
 * characters of 21 bits are added up, so that nothing overflows 32 bits. */
static size_t puny_encode(const uint32_t *label, size_t n, char *ret)
{
	uint32_t next = 0x80, delta = 0, bias = 72, done = 0, basic;
	size_t used = 0;

	memcpy(ret, "xn--", 4);
	used = 4;
	for (size_t i = 0; i < n; i++)
		if (label[i] < 0x80 && used < LABEL_MAX)
			ret[used++] = (char)label[i];
	basic = done = (uint32_t)used - 4;
	if (basic && used < LABEL_MAX)
		ret[used++] = '-';
	while (done < n) {
		uint32_t least = UINT32_MAX;

		for (size_t i = 0; i < n; i++)
			if (label[i] >= next && label[i] < least)
				least = label[i];
		delta += (least - next) * (done + 1);
		next = least;
		for (size_t i = 0; i < n; i++) {
			delta += label[i] < next;
			if (label[i] != next)
				continue;
			if (!put_delta(delta, bias, ret, &used))
				return 0;
			bias = adapt(delta, done + 1, done == basic);
			delta = 0;
			done++;
		}
		delta++;
		next++;
	}
	return used;
}

static int digit_value(char c)
{
	if (c >= 'a' && c <= 'z')
		return c - 'a';
	return c >= '0' && c <= '9' ? c - '0' + 26 : -1;
}

/* What follows "xn--". The number of characters, or 0 if it is no Punycode. */
static size_t puny_decode(const char *text, size_t size, uint32_t ret[LABEL_MAX])
{
	uint32_t next = 0x80, at = 0, bias = 72;
	size_t n = 0, i = 0;

	for (size_t j = size; j-- > 0;) {
		if (text[j] != '-')
			continue;
		for (; n < j; n++)
			ret[n] = (uint8_t)text[n];
		i = j + 1;
		break;
	}
	while (i < size && n < LABEL_MAX) {
		uint32_t weight = 1, before = at;

		for (uint32_t k = 36;; k += 36) {
			int digit = i < size ? digit_value(text[i++]) : -1;
			uint32_t t = threshold(k, bias), step;

			if (digit < 0 || __builtin_mul_overflow((uint32_t)digit, weight, &step) ||
			    __builtin_add_overflow(at, step, &at))
				return 0;
			if ((uint32_t)digit < t)
				break;
			if (__builtin_mul_overflow(weight, 36 - t, &weight))
				return 0;
		}
		bias = adapt(at - before, (uint32_t)n + 1, before == 0);
		next += at / ((uint32_t)n + 1);
		at %= (uint32_t)n + 1;
		if (next > 0x10ffff || next < 0x80 || (next >= 0xd800 && next <= 0xdfff))
			return 0;
		memmove(ret + at + 1, ret + at, (n - at) * sizeof *ret);
		ret[at++] = next;
		n++;
	}
	return i == size ? n : 0;
}

/* ---- names ---- */

/* The character at `text`, which is valid UTF-8 of this length. */
static uint32_t character(const char *text, size_t length)
{
	static const uint8_t masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t c = (uint8_t)text[0] & masks[length];

	for (size_t i = 1; i < length; i++)
		c = c << 6 | ((uint8_t)text[i] & 0x3f);
	return c;
}

/* A label becomes ASCII in `ret`, which has room for LABEL_MAX. */
static const char *label_to_ascii(const char *text, size_t size, char *ret, size_t *ret_size)
{
	uint32_t label[LABEL_MAX];
	const char *problem;
	bool is_ascii = true;
	size_t n = 0;

	for (size_t i = 0; i < size;) {
		size_t length = utf8_length(text + i, size - i);

		if (length == 0)
			return "it is not valid UTF-8";
		if (n == LABEL_MAX)
			return "a part between two dots is longer than 63 characters";
		label[n] = character(text + i, length);
		is_ascii = is_ascii && label[n] < 0x80;
		n++;
		i += length;
	}
	if (is_ascii) {
		memcpy(ret, text, size);
		*ret_size = size;
		return NULL;
	}
	problem = letters_problem(label, n);
	if (problem)
		return problem;
	*ret_size = puny_encode(label, n, ret);
	return *ret_size ? NULL : "a part between two dots is longer than 63 characters";
}

const char *idn_to_ascii(const char *text, size_t size, char ret[NETWORK_NAME_MAX])
{
	char name[NETWORK_NAME_MAX + LABEL_MAX + 1];
	size_t used = 0, start = 0;

	for (size_t i = 0; i <= size; i++) {
		const char *problem;
		size_t length;

		if (i < size && text[i] != '.')
			continue;
		if (used >= NETWORK_NAME_MAX)
			return "it is longer than 253 characters";
		problem = label_to_ascii(text + start, i - start, name + used, &length);
		if (problem)
			return problem;
		used += length;
		if (i < size)
			name[used++] = '.';
		start = i + 1;
	}
	return network_name_problem(name, used, ret);
}

bool idn_is_sound(const char *name)
{
	uint32_t decoded[LABEL_MAX];
	size_t length;

	for (const char *label = name;; label += length + 1) {
		length = strcspn(label, ".");
		if (starts_with(label, "xn--") && length <= LABEL_MAX &&
		    puny_decode(label + 4, length - 4, decoded) == 0)
			return false;
		if (label[length] == '\0')
			return true;
	}
}

static bool label_to_utf8(const char *label, size_t size, struct buf *out)
{
	uint32_t decoded[LABEL_MAX];
	char again[LABEL_MAX];
	size_t n;

	if (size < 5 || size > LABEL_MAX || memcmp(label, "xn--", 4) != 0) {
		buf_add(out, label, size);
		return true;
	}
	n = puny_decode(label + 4, size - 4, decoded);
	/* Only what would have been accepted the other way round, with the same result. */
	if (n == 0 || letters_problem(decoded, n) || puny_encode(decoded, n, again) != size ||
	    memcmp(again, label, size) != 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		uint32_t c = decoded[i];

		if (c < 0x80) {
			buf_add_char(out, (char)c);
		} else if (c < 0x800) {
			buf_add_char(out, (char)(0xc0 | c >> 6));
		} else if (c < 0x10000) {
			buf_add_char(out, (char)(0xe0 | c >> 12));
			buf_add_char(out, (char)(0x80 | (c >> 6 & 0x3f)));
		} else {
			buf_add_char(out, (char)(0xf0 | c >> 18));
			buf_add_char(out, (char)(0x80 | (c >> 12 & 0x3f)));
			buf_add_char(out, (char)(0x80 | (c >> 6 & 0x3f)));
		}
		if (c >= 0x80)
			buf_add_char(out, (char)(0x80 | (c & 0x3f)));
	}
	return true;
}

bool idn_to_unicode(const char *name, char *ret, size_t size)
{
	cleanup_buf struct buf out = BUF_INIT(NETWORK_NAME_MAX * 4);
	size_t length;

	for (const char *label = name;; label += length + 1) {
		length = strcspn(label, ".");
		if (!label_to_utf8(label, length, &out))
			return false;
		if (label[length] == '\0')
			break;
		buf_add_char(&out, '.');
	}
	if (buf_error(&out) || !out.data || out.used >= size || streq(out.data, name))
		return false;
	memcpy(ret, out.data, out.used + 1);
	return true;
}
