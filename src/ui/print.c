/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/print.h"

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define COLUMNS 80

static uint32_t code_point(const unsigned char *s, size_t length)
{
	switch (length) {
	case 1:
		return s[0];
	case 2:
		return (s[0] & 0x1fU) << 6 | (s[1] & 0x3fU);
	case 3:
		return (s[0] & 0x0fU) << 12 | (s[1] & 0x3fU) << 6 | (s[2] & 0x3fU);
	default:
		return (s[0] & 0x07U) << 18 | (s[1] & 0x3fU) << 12 | (s[2] & 0x3fU) << 6 |
		       (s[3] & 0x3fU);
	}
}

static bool is_harmless(uint32_t code)
{
	if (code < 0x20 || (code >= 0x7f && code < 0xa0))
		return false;
	/* Line and paragraph separators, and characters that change the direction of text or are
	 * invisible. */
	return !utf8_is_ignorable(code) && code != 0x2028 && code != 0x2029 &&
	       !(code >= 0xfff9 && code <= 0xfffb);
}

static void print_byte(FILE *out, unsigned char byte)
{
	switch (byte) {
	case '\n':
		fputs("\\n", out);
		break;
	case '\t':
		fputs("\\t", out);
		break;
	default:
		fprintf(out, "\\x%02x", byte);
	}
}

void print_escaped(FILE *out, const char *text)
{
	size_t size = strlen(text);

	for (size_t i = 0; i < size;) {
		size_t length = utf8_length(text + i, size - i);
		const unsigned char *s = (const unsigned char *)text + i;

		if (length && is_harmless(code_point(s, length))) {
			fwrite(s, 1, length, out);
		} else {
			length = length ? length : 1;
			for (size_t j = 0; j < length; j++)
				print_byte(out, s[j]);
		}
		i += length;
	}
}

void print_problem(const char *text)
{
	fputs("atoll: ", stderr);
	print_escaped(stderr, text);
	fputc('\n', stderr);
}

void print_wrapped(FILE *out, int at, int indent, const char *text)
{
	bool is_first = true;

	if (at < indent)
		at += fprintf(out, "%*s", indent - at, "");
	for (;;) {
		int length;

		text += strspn(text, " ");
		length = (int)strcspn(text, " ");
		if (length == 0)
			break;
		if (!is_first && at + 1 + length > COLUMNS) {
			fprintf(out, "\n%*s", indent, "");
			at = indent;
		} else if (!is_first) {
			fputc(' ', out);
			at++;
		}
		fwrite(text, 1, (size_t)length, out);
		at += length;
		text += length;
		is_first = false;
	}
	fputc('\n', out);
}

void print_word(FILE *out, const char *text)
{
	bool is_plain = *text != '\0' && str_is_printable(text);

	if (is_plain && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "0123456789_+,./:@%-=") == strlen(text)) {
		fputs(text, out);
		return;
	}
	/* Only $'...' can express unprintable characters. */
	fputs(is_plain ? "'" : "$'", out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (is_plain && c == '\'')
			fputs("'\\''", out);
		else if (is_plain || (c >= ' ' && c < 0x7f && c != '\'' && c != '\\'))
			fputc(c, out);
		else
			fprintf(out, "\\x%02x", c);
	}
	fputc('\'', out);
}
