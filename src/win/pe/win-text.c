/* SPDX-License-Identifier: Apache-2.0 */
/* Converts texts between the two encodings. Called by every module that makes Win32 calls. */
#include "win/pe/win-text.h"

#include "base/scope.h"
#include "base/str.h"

#include <stdio.h>

wchar_t *win_wide_n(const char *text, size_t size)
{
	int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, (int)size, NULL, 0);
	wchar_t *wide = n > 0 ? calloc((size_t)n + 1, sizeof *wide) : NULL;

	if (wide)
		MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, (int)size, wide, n);
	return wide;
}

wchar_t *win_wide(const char *text)
{
	return win_wide_n(text, strlen(text) + 1);
}

char *win_narrow(const wchar_t *text)
{
	int n = WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, text, -1, NULL, 0, NULL, NULL);
	char *narrow = n > 0 ? calloc((size_t)n + 1, 1) : NULL;

	if (narrow)
		WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, text, -1, narrow, n, NULL, NULL);
	return narrow;
}

wchar_t *win_path(const char *path)
{
	cleanup_free char *whole = NULL;

	if (starts_with(path, "\\\\") && asprintf(&whole, "\\\\?\\UNC\\%s", path + 2) < 0)
		return NULL;
	if (!whole && asprintf(&whole, "\\\\?\\%s", path) < 0)
		return NULL;
	return win_wide(whole);
}
