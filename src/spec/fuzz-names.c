/* SPDX-License-Identifier: Apache-2.0 */
/* Paths come from the command: whatever they are, there is an answer, and it does not depend on how
 * a trusted name is written. */
#include "spec/git.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A path as the guard has it, absolute and plain: "/" and the bytes up to the first NUL, without
 * empty components. */
static void make_path(char *path, const uint8_t *data, size_t size)
{
	size_t used = 0;

	path[used++] = '/';
	for (size_t i = 0; i < size && data[i] && used < 4094; i++)
		if (data[i] != '/' || path[used - 1] != '/')
			path[used++] = (char)data[i];
	if (used > 1 && path[used - 1] == '/')
		used--;
	path[used] = '\0';
}

static void ask_git(const char *inside, enum names_action action, bool is_own)
{
	const char *what = NULL;
	enum git_verdict verdict = git_guard(inside, action, is_own, &what);
	const char *name = strrchr(inside, '/');

	name = name ? name + 1 : inside;
	if ((verdict == GIT_REFUSE) != (what && *what))
		abort();
	if (verdict == GIT_COMMONDIR && action != NAMES_CREATE)
		abort();
	if (action == NAMES_SYMLINK && verdict != GIT_REFUSE && verdict != GIT_VET_LINK)
		abort();
	if ((verdict == GIT_VET_CONFIG || verdict == GIT_VET_SUBMODULE_CONFIG) &&
	    action != NAMES_RENAME_TO)
		abort();
	if (verdict != GIT_ALLOW || action == NAMES_REMOVE || action == NAMES_CHMOD)
		return;
	/* Only in the trees of references may a file be called so, and never in modules. */
	if (strcasecmp(name, "commondir") == 0 || strcasecmp(name, "config.worktree") == 0 ||
	    strcasecmp(name, "config") == 0)
		if (action != NAMES_MKDIR && (strncasecmp(inside, "modules/", 8) == 0 ||
					      name == inside || strcasecmp(name, "commondir") == 0))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[4096];
	const char *inside, *marker = NULL;
	enum names_action action;

	if (size < 2)
		return 0;
	action = data[0] % (NAMES_CHMOD + 1);
	make_path(path, data + 1, size - 1);

	names_refuse("/", path, action);
	names_refuse("/home/user", path, action);
	names_refuse(path, path, action);
	ask_git(path + 1, action, data[0] & 0x80);
	inside = names_git_inside("/", path);
	if (inside && (inside < path || inside > path + strlen(path)))
		abort();
	if (inside)
		ask_git(inside, action, false);
	while ((marker = git_next_marker("/", path, marker)))
		ask_git(marker, action, false);
	names_is_container(path + 1);

	/* Upper case, dots and blanks at the end, and what stands before change nothing. */
	if (strlen(path) < 2000 && names_refuse("/", path, action)) {
		char other[4096];
		size_t length = strlen(path);

		for (size_t i = 0; i <= length; i++)
			other[i] =
				(char)(path[i] >= 'a' && path[i] <= 'z' ? path[i] - 0x20 : path[i]);
		strcpy(other + length, ". ");
		if (!names_refuse("/", other, action))
			abort();
	}
	return 0;
}
