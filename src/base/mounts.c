/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mounts.h"

#include <stdio.h>
#include <string.h>

/* Blanks and the backslash are written as three octal digits. */
static void unescape(char *path)
{
	char *to = path;

	for (const char *at = path; *at; to++) {
		unsigned code;

		if (at[0] == '\\' && strspn(at + 1, "01234567") >= 3 &&
		    sscanf(at + 1, "%3o", &code) == 1) {
			*to = (char)code;
			at += 4;
		} else {
			*to = *at++;
		}
	}
	*to = '\0';
}

bool mounts_next(const char **text, struct mounts_line *ret)
{
	while (*text && **text) {
		const char *line = *text, *end = strchr(line, '\n');

		*text = end ? end + 1 : NULL;
		if (sscanf(line, "%*s %*s %23s %4095s %4095s", ret->dev, ret->root, ret->point) ==
		    3) {
			unescape(ret->root);
			unescape(ret->point);
			return true;
		}
	}
	return false;
}
