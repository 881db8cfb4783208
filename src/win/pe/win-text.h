/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "win/pe/win-headers.h"

#include <stddef.h>

/* UTF-8 to UTF-16 and back, into fresh memory that the caller frees. NULL for bytes that are no
 * UTF-8, surrogates without their other half, and if memory ran out. */
wchar_t *win_wide(const char *text);
wchar_t *win_wide_n(const char *text, size_t size); /* with NULs inside: an environment block */
char *win_narrow(const wchar_t *text);

/* A path as Windows opens it without rewriting it: \\?\C:\x. */
wchar_t *win_path(const char *path);
