/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/query.h"

#include "base/str.h"

#include <stdlib.h>

size_t query_decode(const char *text, size_t size, bool is_form, char *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < size; i++) {
		int high = -1, low = -1;

		if (text[i] == '%' && size - i > 2) {
			high = str_hex_value(text[i + 1]);
			low = str_hex_value(text[i + 2]);
		}
		if (high >= 0 && low >= 0 && (high || low)) {
			ret[n++] = (char)(high << 4 | low);
			i += 2;
		} else {
			ret[n++] = is_form && text[i] == '+' ? ' ' : text[i];
		}
	}
	ret[n] = '\0';
	return n;
}

char *query_split(const char *text, size_t size, size_t *ret_size)
{
	/* "a" becomes "a\0\0": two bytes more for each parameter, which has at least one byte. */
	char *words = malloc(2 * size + 2);
	size_t n = 0, i = size > 0 && *text == '?';

	if (!words)
		return NULL;
	while (i < size) {
		const char *start = text + i;
		const char *end = memchr(start, '&', size - i);
		size_t length = end ? (size_t)(end - start) : size - i;
		const char *equals = length > 0 ? memchr(start, '=', length) : NULL;
		size_t n_name = equals ? (size_t)(equals - start) : length;

		i += length + 1;
		if (length == 0)
			continue;
		n += query_decode(start, n_name, true, words + n) + 1;
		if (equals)
			n += query_decode(equals + 1, length - n_name - 1, true, words + n) + 1;
		else
			words[n++] = '\0';
	}
	*ret_size = n;
	return words;
}

const char *query_find(const char *words, size_t size, const char *name)
{
	for (size_t i = 0; i < size;) {
		const char *value = words + i + strlen(words + i) + 1;

		if (streq(words + i, name))
			return value;
		i = (size_t)(value - words) + strlen(value) + 1;
	}
	return NULL;
}

char *query_segments(const char *path, size_t size, size_t *ret_size)
{
	char *words = malloc(size + 2);
	size_t n = 0, i = 1;

	if (!words)
		return NULL;
	while (i <= size && size > 1) {
		const char *start = path + i;
		const char *end = i < size ? memchr(start, '/', size - i) : NULL;
		size_t length = end ? (size_t)(end - start) : size - i;

		n += query_decode(start, length, false, words + n) + 1;
		i += length + 1;
	}
	*ret_size = n;
	return words;
}

const char *query_word(const char *words, size_t size, size_t n)
{
	for (size_t i = 0; i < size; i += strlen(words + i) + 1)
		if (n-- == 0)
			return words + i;
	return NULL;
}
