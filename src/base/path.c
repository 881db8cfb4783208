/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include "base/str.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

void path_normalize(char *path)
{
	char *out = path;
	const char *in = path;

	while (*in) {
		size_t length;

		while (*in == '/')
			in++;
		length = strcspn(in, "/");
		if (length == 0)
			break;
		if (length == 2 && in[0] == '.' && in[1] == '.') {
			while (out > path && *--out != '/')
				;
		} else if (length != 1 || in[0] != '.') {
			*out++ = '/';
			/* Most paths are plain already, and the guard asks about every one. */
			if (out != in)
				memmove(out, in, length);
			out += length;
		}
		in += length;
	}
	if (out == path)
		*out++ = '/';
	*out = '\0';
}

bool path_is_within(const char *path, const char *above)
{
	if (streq(above, "/"))
		return path[0] == '/';
	/* Two paths mostly differ soon: the guard compares each with all places of the contract. */
	for (; *above; path++, above++) {
		if (*path != *above)
			return false;
	}
	return path[0] == '\0' || path[0] == '/';
}

size_t path_depth(const char *path)
{
	size_t depth = 0;

	for (; *path; path++)
		depth += *path == '/' && path[1] != '\0';
	return depth;
}

const char *path_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

char *path_join(const char *dir, const char *name)
{
	/* By hand: the defaults make some hundred of them at every start, and a C library that
	 * formats twice takes ten times as long. */
	char *joined = malloc(strlen(dir) + 1 + strlen(name) + 1), *at;

	if (!joined)
		return NULL;
	at = stpcpy(joined, streq(dir, "/") ? "" : dir);
	*at = '/';
	strcpy(at + 1, name);
	return joined;
}

/* Copy the component at `path` and return what follows it, NULL if no path is that long. Not
 * NAME_MAX: exFAT and NTFS have longer names, and those must not slip out of a rule. */
static const char *next_component(const char *path, char component[PATH_MAX])
{
	size_t length;

	while (*path == '/')
		path++;
	length = strcspn(path, "/");
	if (length >= PATH_MAX)
		return NULL;
	memcpy(component, path, length);
	component[length] = '\0';
	return path + length;
}

bool path_glob(const char *pattern, const char *path)
{
	char want[PATH_MAX], have[PATH_MAX];
	/* As in matching `*` within a name: remember the last "**" and what it has eaten. */
	const char *star = NULL, *resume = NULL;

	for (;;) {
		const char *pattern_rest = next_component(pattern, want);
		const char *path_rest = next_component(path, have);

		if (!pattern_rest)
			return false;
		if (want[0] == '\0')
			return true; /* the path may go on: it lies beneath a match */
		if (streq(want, "**")) {
			star = pattern_rest;
			resume = path;
			pattern = pattern_rest;
			continue;
		}
		if (!path_rest)
			return false;
		/* A name that is written like a pattern means itself as well. */
		if (have[0] != '\0' && (str_glob(want, have) || streq(want, have))) {
			pattern = pattern_rest;
			path = path_rest;
			continue;
		}
		if (!star)
			return false;
		resume = next_component(resume, have);
		if (!resume || have[0] == '\0')
			return false;
		pattern = star;
		path = resume;
	}
}

size_t path_literal_length(const char *pattern)
{
	size_t length = strcspn(pattern, "*?[");

	while (length > 1 && pattern[length - 1] != '/')
		length--;
	while (length > 1 && pattern[length - 1] == '/')
		length--;
	return length;
}

bool path_is_pattern(const char *text)
{
	return strpbrk(text, "*?[") != NULL;
}

bool path_has_late_dots(const char *text)
{
	bool is_late = text[0] == '/';

	while (*(text += strspn(text, "/"))) {
		size_t length = strcspn(text, "/");
		bool is_up = length == 2 && memcmp(text, "..", 2) == 0;

		if (is_up && is_late)
			return true;
		is_late = is_late || (!is_up && !(length == 1 && text[0] == '.'));
		text += length;
	}
	return false;
}
