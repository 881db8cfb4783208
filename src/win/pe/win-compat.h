/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Functions of the C library that Windows' lacks and the shared sources use. Included into every
 * file by tools/windows-build. */
#include <stdlib.h>
#include <string.h>

static inline char *win_stpcpy(char *to, const char *from)
{
	size_t size = strlen(from);

	memcpy(to, from, size + 1);
	return to + size;
}
#define stpcpy win_stpcpy

static inline char *win_strchrnul(const char *text, int c)
{
	while (*text && *text != (char)c)
		text++;
	return (char *)(size_t)text;
}
#define strchrnul win_strchrnul
