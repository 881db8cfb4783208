/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/archive.h"
#include "base/error.h"
#include "base/str.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

static int refuse(struct atoll_error *err, const char *name, const char *why)
{
	char shown[160];

	error_set(err, ATOLL_FAULT_POLICY, 0, "entry '%s': %s", str_show(name, shown, sizeof shown),
		  why);
	return -EINVAL;
}

int arc_clean_name(const char *name, char ret[ARC_NAME_MAX], size_t *ret_depth,
		   struct atoll_error *err)
{
	size_t used = 0, depth = 0;

	if (name[0] == '\0')
		return refuse(err, name, "it has no name");
	if (name[0] == '/')
		return refuse(err, name, "its name is absolute");
	for (const char *at = name; *at;) {
		size_t length = strcspn(at, "/");

		if (length == 2 && at[0] == '.' && at[1] == '.')
			return refuse(err, name, "its name has '..'");
		if (length > NAME_MAX || used + 1 + length >= ARC_NAME_MAX)
			return refuse(err, name, "its name is too long");
		if (length > 0 && !(length == 1 && at[0] == '.')) {
			if (++depth > ARC_DEPTH_MAX)
				return refuse(err, name, "it lies too deep");
			if (used > 0)
				ret[used++] = '/';
			memcpy(ret + used, at, length);
			used += length;
		}
		at += length + (at[length] == '/');
	}
	ret[used] = '\0';
	*ret_depth = depth;
	return 0;
}

bool arc_link_stays(const char *target, size_t depth)
{
	size_t above = depth > 0 ? depth - 1 : 0;
	bool is_down = false;

	if (target[0] == '/' || target[0] == '\0')
		return false;
	for (const char *at = target; *at;) {
		size_t length = strcspn(at, "/");
		bool is_up = length == 2 && at[0] == '.' && at[1] == '.';

		if (is_up && (is_down || above-- == 0))
			return false;
		is_down |= !is_up && length > 0 && !(length == 1 && at[0] == '.');
		at += length + (at[length] == '/');
	}
	return true;
}

bool arc_is_whiteout(const char *clean_name)
{
	for (const char *at = clean_name; at; at = strchr(at, '/')) {
		at += *at == '/';
		if (starts_with(at, ".wh."))
			return true;
	}
	return false;
}

bool arc_takes_attribute(const char *name, bool *ret_is_hostile)
{
	*ret_is_hostile =
		starts_with(name, "user.overlay.") || starts_with(name, "trusted.overlay.");
	return starts_with(name, "user.") && !*ret_is_hostile;
}
