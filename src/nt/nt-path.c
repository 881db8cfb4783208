/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads Windows paths that a contract names. Called by the planner for every path of a contract,
 * and by the Win32 code for the names that Windows returns.
 *
 * Order: the prefix (drive, share, \\?\) is read first, then each component is checked and "." and
 * ".." are resolved as text. Resolving ".." as text is right for Win32 paths: Windows does the same
 * before it looks at any link.
 */
#include "nt/nt-path.h"

#include "base/scope.h"
#include "base/str.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#define PATH_BYTES_MAX 32767
#define NAME_UNITS_MAX 255

struct reader {
	const char *at;
	bool is_verbatim; /* \\?\: Windows takes "/" , "." and ".." for names here */
	char *out;
	size_t used, room;
	size_t root; /* length of "C:" or "\\server\share" in `out` */
};

static char upper(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool is_letter(char c)
{
	return upper(c) >= 'A' && upper(c) <= 'Z';
}

static bool is_separator(const struct reader *in, char c)
{
	return c == '\\' || (c == '/' && !in->is_verbatim);
}

/* ---- one component ---- */

/* Characters as Windows counts them: two for those beyond U+FFFF. 0 if the bytes are no UTF-8. */
static size_t count_units(const char *name, size_t size)
{
	size_t units = 0;

	for (size_t at = 0, n; at < size; at += n) {
		n = utf8_length(name + at, size - at);
		if (n == 0)
			return 0;
		units += n == 4 ? 2 : 1;
	}
	return units;
}

/* Whether the part before the first dot or blank is a device. COM and LPT also take the superscript
 * digits 1 to 3. */
static bool is_device(const char *name, size_t size)
{
	static const char *const whole[] = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"};
	static const char *const superscript[] = {"\xc2\xb9", "\xc2\xb2", "\xc2\xb3"};
	size_t stem = 0;

	while (stem < size && name[stem] != '.' && name[stem] != ' ')
		stem++;
	for (size_t i = 0; i < ARRAY_SIZE(whole); i++)
		if (stem == strlen(whole[i]) && strncasecmp(name, whole[i], stem) == 0)
			return true;
	if (stem < 4 || (strncasecmp(name, "COM", 3) != 0 && strncasecmp(name, "LPT", 3) != 0))
		return false;
	if (stem == 4)
		return name[3] >= '0' && name[3] <= '9';
	for (size_t i = 0; stem == 5 && i < ARRAY_SIZE(superscript); i++)
		if (memcmp(name + 3, superscript[i], 2) == 0)
			return true;
	return false;
}

/* Whether a name has the form of a generated short name: up to eight characters with "~" and a
 * digit before an extension of up to three. */
static bool is_short_name(const char *name, size_t size)
{
	const char *dot = memchr(name, '.', size);
	const char *tilde = memchr(name, '~', size);
	size_t stem = dot ? (size_t)(dot - name) : size;

	if (!tilde || stem > 8 || (dot && size - stem > 4))
		return false;
	if ((size_t)(tilde - name) + 1 >= stem)
		return false;
	for (const char *c = tilde + 1; c < name + stem; c++)
		if (*c < '0' || *c > '9')
			return false;
	return true;
}

static enum nt_path_problem check_component(const char *name, size_t size)
{
	size_t units = count_units(name, size);

	if (units == 0)
		return NT_PATH_ENCODING;
	if (units > NAME_UNITS_MAX)
		return NT_PATH_TOO_LONG;
	for (size_t i = 0; i < size; i++) {
		if (name[i] == ':')
			return NT_PATH_STREAM;
		if ((unsigned char)name[i] < 0x20 || strchr("<>\"|?*/\\", name[i]))
			return NT_PATH_CHARACTER;
	}
	if (name[size - 1] == '.' || name[size - 1] == ' ')
		return NT_PATH_TRAILING;
	if (is_device(name, size))
		return NT_PATH_DEVICE;
	return is_short_name(name, size) ? NT_PATH_SHORT_NAME : NT_PATH_OK;
}

/* ---- the path ---- */

static bool put(struct reader *in, const char *data, size_t size)
{
	if (size >= in->room - in->used)
		return false;
	memcpy(in->out + in->used, data, size);
	in->used += size;
	in->out[in->used] = '\0';
	return true;
}

static size_t component_length(const struct reader *in)
{
	size_t size = 0;

	while (in->at[size] && !is_separator(in, in->at[size]))
		size++;
	return size;
}

static bool is_dots(const char *name, size_t size, size_t n)
{
	return size == n && memcmp(name, "..", n) == 0;
}

static enum nt_path_problem go_up(struct reader *in)
{
	if (in->used == in->root)
		return NT_PATH_ABOVE_ROOT;
	while (in->out[--in->used] != '\\')
		;
	in->out[in->used] = '\0';
	return NT_PATH_OK;
}

static enum nt_path_problem read_component(struct reader *in)
{
	const size_t size = component_length(in);
	const char *name = in->at;
	enum nt_path_problem problem;

	in->at += size;
	if (size == 0)
		return in->is_verbatim ? NT_PATH_CHARACTER : NT_PATH_OK;
	if (is_dots(name, size, 1) && !in->is_verbatim)
		return NT_PATH_OK;
	if (is_dots(name, size, 2))
		return in->is_verbatim ? NT_PATH_ABOVE_ROOT : go_up(in);
	problem = check_component(name, size);
	if (problem != NT_PATH_OK)
		return problem;
	return put(in, "\\", 1) && put(in, name, size) ? NT_PATH_OK : NT_PATH_TOO_LONG;
}

static enum nt_path_problem read_components(struct reader *in)
{
	in->root = in->used;
	while (*in->at) {
		enum nt_path_problem problem;

		in->at++; /* the separator */
		if (!*in->at)
			break;
		problem = read_component(in);
		if (problem != NT_PATH_OK)
			return problem;
	}
	/* The root of a drive or share has a separator at its end, nothing else has. */
	if (in->used == in->root && !put(in, "\\", 1))
		return NT_PATH_TOO_LONG;
	return NT_PATH_OK;
}

/* Behind the two separators: server and share, which ".." does not leave. */
static enum nt_path_problem read_share(struct reader *in)
{
	if (!put(in, "\\", 1))
		return NT_PATH_TOO_LONG;
	for (int i = 0; i < 2; i++) {
		size_t size = component_length(in);
		enum nt_path_problem problem;

		if (size == 0 || is_dots(in->at, size, 1) || is_dots(in->at, size, 2))
			return NT_PATH_SHARE;
		problem = check_component(in->at, size);
		if (problem != NT_PATH_OK)
			return problem;
		if (!put(in, "\\", 1) || !put(in, in->at, size))
			return NT_PATH_TOO_LONG;
		in->at += size;
		if (i == 0 && !*in->at++)
			return NT_PATH_SHARE;
	}
	return read_components(in);
}

static enum nt_path_problem read_drive(struct reader *in)
{
	const char drive[2] = {upper(in->at[0]), ':'};

	if (!is_letter(in->at[0]) || in->at[1] != ':' || !is_separator(in, in->at[2]))
		return NT_PATH_RELATIVE;
	in->at += 2;
	return put(in, drive, 2) ? read_components(in) : NT_PATH_TOO_LONG;
}

static enum nt_path_problem read_prefix(struct reader *in)
{
	if (starts_with(in->at, "\\??\\"))
		return NT_PATH_DEVICE;
	if (starts_with(in->at, "\\\\?\\")) {
		in->is_verbatim = true;
		in->at += 4;
		if (strncasecmp(in->at, "UNC\\", 4) != 0)
			return is_letter(in->at[0]) && in->at[1] == ':' ? read_drive(in)
									: NT_PATH_DEVICE;
		in->at += 4;
		return read_share(in);
	}
	if (is_separator(in, in->at[0]) && is_separator(in, in->at[1])) {
		in->at += 2;
		/* //?/ and \\.\ in any mixture of separators are devices, too. */
		if ((in->at[0] == '.' || in->at[0] == '?') &&
		    (in->at[1] == '\0' || is_separator(in, in->at[1])))
			return NT_PATH_DEVICE;
		return read_share(in);
	}
	return read_drive(in);
}

enum nt_path_problem nt_path_read(const char *text, char *ret, size_t size)
{
	struct reader in = {.at = text, .out = ret, .room = size};

	if (size == 0)
		return NT_PATH_TOO_LONG;
	ret[0] = '\0';
	if (!*text)
		return NT_PATH_EMPTY;
	if (strlen(text) > PATH_BYTES_MAX)
		return NT_PATH_TOO_LONG;
	return read_prefix(&in);
}

const char *nt_path_explain(enum nt_path_problem problem)
{
	static const char *const reasons[] = {
		[NT_PATH_OK] = "is accepted",
		[NT_PATH_EMPTY] = "is empty",
		[NT_PATH_TOO_LONG] = "is too long",
		[NT_PATH_RELATIVE] = "is not absolute: write a drive or \\\\server\\share first",
		[NT_PATH_DEVICE] = "names a device",
		[NT_PATH_STREAM] = "names a stream: a component has a colon",
		[NT_PATH_CHARACTER] = "has a character that no file name can have",
		[NT_PATH_ENCODING] = "is not valid UTF-8",
		[NT_PATH_TRAILING] = "has a component that ends in a dot or a blank",
		[NT_PATH_SHORT_NAME] = "has a short name such as PROGRA~1: write the long name",
		[NT_PATH_ABOVE_ROOT] = "leads above its drive or share",
		[NT_PATH_SHARE] = "names a server without a share",
	};

	return reasons[problem];
}

/* ---- comparing ---- */

bool nt_path_equal(const char *a, const char *b)
{
	while (*a && upper(*a) == upper(*b)) {
		a++;
		b++;
	}
	return *a == '\0' && *b == '\0';
}

bool nt_path_is_within(const char *path, const char *above)
{
	size_t size = strlen(above);

	/* "C:\" has its separator already. */
	if (size > 0 && above[size - 1] == '\\')
		size--;
	for (size_t i = 0; i < size; i++)
		if (upper(path[i]) != upper(above[i]))
			return false;
	return path[size] == '\0' || path[size] == '\\';
}
