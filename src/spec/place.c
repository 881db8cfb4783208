/* SPDX-License-Identifier: Apache-2.0 */
/* What a path or a pattern means as it was written. */
#include "base/buf.h"
#include "base/path.h"
#include "spec/spec-inner.h"

#include <ctype.h>
#include <stdio.h>

#define PATH_SIZE_MAX	   4096
#define COMPONENT_SIZE_MAX 255

static const char specials[] = "*?[";

/* No file system takes longer names, and a name that was cut somewhere would be another one. */
static int check_length(const char *path, const char *origin, struct atoll_error *err)
{
	if (strlen(path) > PATH_SIZE_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: path '%s' is longer than %d bytes; name a directory above it",
				 origin, shown(path), PATH_SIZE_MAX);
	for (const char *p = path; *p; p += *p == '/') {
		size_t length = strcspn(p, "/");

		if (length > COMPONENT_SIZE_MAX)
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "%s: path '%s' has a name longer than %d bytes; no file "
					 "system takes that",
					 origin, shown(path), COMPONENT_SIZE_MAX);
		p += length;
	}
	return 0;
}

static bool has_component(const char *path, const char *name)
{
	size_t size = strlen(name);

	for (const char *p = path; *p; p += *p == '/') {
		size_t length = strcspn(p, "/");

		if (length == size && memcmp(p, name, size) == 0)
			return true;
		p += length;
	}
	return false;
}

/* Does it look like a variable that nobody expands here? On the command line, where the shell
 * has expanded already, only in front: "a/$b" may really be called so. */
static bool has_variable(const char *path, enum spec_source source)
{
	for (const char *p = strchr(path, '$'); p; p = strchr(p + 1, '$')) {
		if (source == SPEC_FROM_FLAG && p != path)
			return false;
		if (isalpha((unsigned char)p[1]) || p[1] == '_' || p[1] == '{')
			return true;
	}
	return false;
}

static int check_written(const char *text, enum spec_source source, const char *origin,
			 struct atoll_error *err)
{
	if (text[0] == '\0')
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: the path is empty; leave the line out, or write '.'", origin);
	if (has_variable(text, source))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: variables are not expanded in '%s'; write the path out",
				 origin, shown_path(text));
	if (text[0] == '~' && text[1] != '\0' && text[1] != '/')
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '%s': only ~/ for your own home is known; write the path out "
				 "(or ./%s if the name begins so)",
				 origin, shown(text), shown(text));
	if (source != SPEC_FROM_FLAG && has_component(text, ".."))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '..' in '%s': paths in a job file do not climb; write an "
				 "absolute path",
				 origin, shown_path(text));
	return check_length(text, origin, err);
}

/* "~/x" as a path in the home; what else is written is copied. */
static char *expand_home(const struct spec *spec, const char *text)
{
	if (text[0] != '~')
		return strdup(text);
	return path_join(spec->home, text[1] ? text + 2 : "");
}

int place_resolve(const struct spec *spec, const char *text, enum spec_source source,
		  const char *origin, char **ret_path, struct atoll_error *err)
{
	int r = check_written(text, source, origin, err);
	char *path;

	if (r < 0)
		return r;
	if (source != SPEC_FROM_FLAG && strchr(text, '*'))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '%s': patterns are only for 'hide' and 'protect'; name a "
				 "directory, or use the flag, which takes '*' literally",
				 origin, shown_path(text));
	path = source != SPEC_FROM_FILE && text[0] != '/' && text[0] != '~'
		       ? path_join(spec->caller, text)
		       : expand_home(spec, text);
	if (!path)
		return error_oom(err);
	if (path[0] == '/')
		path_normalize(path);
	r = check_length(path, origin, err);
	if (r == 0)
		*ret_path = path;
	else
		free(path);
	return r;
}

/* Is every '[' closed within its component? An open one would match itself, which nobody means. */
static bool has_open_set(const char *pattern)
{
	for (const char *p = strchr(pattern, '['); p; p = strchr(p, '[')) {
		p += 1 + (p[1] == '!' || p[1] == '^');
		p += *p == ']';
		p += strcspn(p, "/]");
		if (*p != ']')
			return true;
	}
	return false;
}

/* Take out the backslashes in front of special characters; tells of which kinds there are. */
static void unescape(char *text, bool *ret_has_escaped, bool *ret_has_plain)
{
	char *out = text;

	*ret_has_escaped = *ret_has_plain = false;
	for (const char *in = text; *in; in++) {
		if (*in == '\\' && in[1] && strchr(specials, in[1])) {
			in++;
			*ret_has_escaped = true;
		} else if (strchr(specials, *in)) {
			*ret_has_plain = true;
		}
		*out++ = *in;
	}
	*out = '\0';
}

/* `dir` as part of a pattern that stands for nothing but itself: a directory may really be called
 * "*" or "[a]". */
static char *join_quoted(const char *dir, const char *between, const char *pattern)
{
	struct buf out = BUF_INIT(1 << 20);

	for (const char *p = streq(dir, "/") ? "" : dir; *p; p++) {
		if (strchr(specials, *p))
			buf_addf(&out, "[%c]", *p);
		else
			buf_add_char(&out, *p);
	}
	buf_addf(&out, "/%s%s", between, pattern);
	if (buf_error(&out))
		buf_done(&out);
	return buf_take(&out);
}

static int resolve_real_pattern(const struct spec *spec, const char *text, const char *origin,
				char **ret_path, struct atoll_error *err)
{
	char *path;

	if (has_component(text, ".."))
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"%s: '..' in pattern '%s': write it from the workspace, or absolute",
			origin, shown_path(text));
	if (has_open_set(text))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '[' without ']' in pattern '%s'; write \\[ for the character",
				 origin, shown_path(text));
	if (text[0] == '~')
		path = join_quoted(spec->home, "", text[1] ? text + 2 : "");
	else
		path = strdup(text);
	if (!path)
		return error_oom(err);
	*ret_path = path;
	return 0;
}

/* `plain` is `text` without its backslashes, and is at this function's disposal. */
static int resolve_unescaped(const struct spec *spec, const char *text, char *plain,
			     enum spec_source source, const char *origin, char **ret_path,
			     bool *ret_is_pattern, struct atoll_error *err)
{
	bool has_escaped, has_plain;
	int r;

	unescape(plain, &has_escaped, &has_plain);
	if (has_escaped && has_plain)
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"%s: '%s' mixes a pattern with \\-escapes; write [*] for a literal "
			"'*' in a pattern",
			origin, shown_path(text));
	r = check_written(plain, source, origin, err);
	if (r < 0)
		return r;
	*ret_is_pattern = has_plain;
	if (has_plain)
		return resolve_real_pattern(spec, text, origin, ret_path, err);
	/* Nothing special is left: as literal as on the command line, but counted as in the file.
	 */
	if (source != SPEC_FROM_FLAG && plain[0] != '/' && plain[0] != '~') {
		*ret_path = NULL;
		return spec_set_text(ret_path, plain, err);
	}
	return place_resolve(spec, plain, SPEC_FROM_FLAG, origin, ret_path, err);
}

int place_resolve_pattern(const struct spec *spec, const char *text, enum spec_source source,
			  const char *origin, char **ret_path, bool *ret_is_pattern,
			  struct atoll_error *err)
{
	char *plain = strdup(text);
	int r;

	if (!plain)
		return error_oom(err);
	r = resolve_unescaped(spec, text, plain, source, origin, ret_path, ret_is_pattern, err);
	free(plain);
	return r;
}

int place_anchor(const struct spec *spec, char **path, bool is_pattern, const char *origin,
		 struct atoll_error *err)
{
	char *anchored;

	if ((*path)[0] != '/') {
		if (is_pattern)
			anchored = join_quoted(spec->workspace, strchr(*path, '/') ? "" : "**/",
					       *path);
		else
			anchored = path_join(spec->workspace, *path);
		if (!anchored)
			return error_oom(err);
		free(*path);
		*path = anchored;
	}
	path_normalize(*path);
	if (is_pattern && path_depth(*path) > PLACE_PATTERN_COMPONENTS)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: pattern '%s' has more than %d parts; write '**' for some",
				 origin, shown_path(*path), PLACE_PATTERN_COMPONENTS);
	return check_length(*path, origin, err);
}

/* The component at `*path`, copied; `*path` moves behind it. False at the end. */
static bool next_component(const char **path, char component[COMPONENT_SIZE_MAX + 1])
{
	size_t length;

	while (**path == '/')
		(*path)++;
	length = strcspn(*path, "/");
	if (length == 0 || length > COMPONENT_SIZE_MAX)
		return false;
	memcpy(component, *path, length);
	component[length] = '\0';
	*path += length;
	return true;
}

/* Where a match may stand: bit i for "the first i components of the pattern are used up". A
 * "**" may be used up by nothing. */
static uint64_t skip_stars(uint64_t states, const char *pattern)
{
	char want[COMPONENT_SIZE_MAX + 1];

	for (unsigned i = 0; next_component(&pattern, want); i++)
		if ((states >> i & 1) && streq(want, "**"))
			states |= UINT64_C(1) << (i + 1);
	return states;
}

size_t place_match_depth(const char *pattern, const char *path)
{
	char have[COMPONENT_SIZE_MAX + 1], want[COMPONENT_SIZE_MAX + 1];
	uint64_t done = UINT64_C(1) << path_depth(pattern);
	uint64_t states = skip_stars(1, pattern);
	size_t depth = 0, deepest = 0;

	while (states && next_component(&path, have)) {
		const char *rest = pattern;
		uint64_t next = 0;

		for (unsigned i = 0; next_component(&rest, want); i++) {
			if (!(states >> i & 1))
				continue;
			if (streq(want, "**"))
				next |= UINT64_C(1) << i;
			else if (str_glob(want, have) || streq(want, have))
				next |= UINT64_C(1) << (i + 1);
		}
		states = skip_stars(next, pattern);
		depth++;
		if (states & done)
			deepest = depth;
	}
	return deepest;
}
