/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/common.h"

#include "base/path.h"
#include "base/str.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char *const places[] = {
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", NULL,
};

static bool has_dots(const char *path)
{
	for (const char *at = path; (at = strstr(at, "..")); at += 2) {
		if ((at == path || at[-1] == '/') && (at[2] == '/' || at[2] == '\0'))
			return true;
	}
	return false;
}

bool common_has(const char *path)
{
	if (has_dots(path))
		return false;
	for (size_t i = 0; places[i]; i++) {
		if (path_is_within(path, places[i]))
			return true;
	}
	return streq(path, "/dev/null");
}

bool common_has_target(const char *dir, const char *text)
{
	char path[PATH_MAX];
	size_t length = strlen(dir);

	if (text[0] == '/')
		return common_has(text);
	while (starts_with(text, "../")) {
		while (length > 0 && dir[length - 1] != '/')
			length--;
		while (length > 0 && dir[length - 1] == '/')
			length--;
		text += 3;
		text += strspn(text, "/");
	}
	return (size_t)snprintf(path, sizeof path, "%.*s/%s", (int)length, dir, text) <
		       sizeof path &&
	       common_has(path);
}
