/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool streq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static inline bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The value of a hexadecimal digit, or -1. */
static inline int str_hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool ends_with(const char *text, const char *suffix);

/* Are the first `size` bytes a name that can become a part of a path or a URL: letters, digits,
 * '-',
 * '_' and '.', with a letter or digit first and no ".."? */
bool str_is_plain_name(const char *text, size_t size);

/* Bytes of the UTF-8 character that starts here (1 to 4), or 0 where none does: overlong forms,
 * surrogates and values past U+10FFFF are none. */
size_t utf8_length(const char *text, size_t size);
/* Default_Ignorable_Code_Point of Unicode: takes no place where it is shown, and some file systems
 * drop it from names. */
bool utf8_is_ignorable(uint32_t code);

/* Is the whole text valid UTF-8 without control characters? */
bool str_is_printable(const char *text);

/* The word in a NULL-terminated list that is nearest to what was typed, for "did you mean";
 * NULL if none is near. */
const char *str_nearest(const char *typed, const char *const *words);

/* Shell-style match of one path component or name: `*`, `?` and `[set]`; nothing else is
 * special and case counts. */
bool str_glob(const char *pattern, const char *text);

/*
 * Text from strangers, fit for a line that people read: control characters, marks that turn the
 * direction of writing and bytes that are not UTF-8 become \xNN, and what does not fit into `size`
 * bytes is cut and ends in "...". Returns `ret`; `size` is at least 8.
 */
const char *str_show(const char *text, char *ret, size_t size);
