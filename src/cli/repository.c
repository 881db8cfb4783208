/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/repository.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "cli/print.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool speaks_of_git(char *const command[])
{
	for (size_t i = 0; command[i]; i++) {
		if (strstr(command[i], "git"))
			return true;
	}
	return false;
}

/* The directory that a `.git` file leads to: "gitdir: PATH", from where the file is. */
static bool read_pointer(const char *file, const char *here, char ret[PATH_MAX])
{
	static const char key[] = "gitdir: ";
	cleanup_fd int fd = open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char text[PATH_MAX];
	ssize_t got;
	int length;

	got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (got <= 0)
		return false;
	text[got] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (!starts_with(text, key))
		return false;
	length = text[sizeof key - 1] == '/'
			 ? snprintf(ret, PATH_MAX, "%s", text + sizeof key - 1)
			 : snprintf(ret, PATH_MAX, "%s/%s", here, text + sizeof key - 1);
	path_normalize(ret);
	return length < PATH_MAX;
}

/* Of a work tree the whole repository is needed: its objects are there. */
static void cut_work_tree(char *path)
{
	char *slash = strrchr(path, '/');
	static const char above[] = "/worktrees";

	if (!slash || (size_t)(slash - path) < sizeof above - 1)
		return;
	slash -= sizeof above - 1;
	if (memcmp(slash, above, sizeof above - 1) == 0)
		*slash = '\0';
}

/* The directory above that has a repository. */
static bool find_above(const char *here, char ret[PATH_MAX])
{
	char path[PATH_MAX];
	struct stat st;
	char *slash;

	snprintf(ret, PATH_MAX, "%s", here);
	while ((slash = strrchr(ret, '/')) && slash > ret) {
		*slash = '\0';
		if (snprintf(path, sizeof path, "%s/.git", ret) < PATH_MAX && lstat(path, &st) == 0)
			return true;
	}
	return false;
}

void repository_hint(const struct atoll_result *result, const char *here, char *const command[],
		     FILE *out)
{
	char path[PATH_MAX], git[PATH_MAX];
	struct stat st;

	if (!here || result->end != ATOLL_EXITED || result->code == 0 || !speaks_of_git(command) ||
	    snprintf(git, sizeof git, "%s/.git", here) >= PATH_MAX)
		return;
	if (lstat(git, &st) < 0) {
		if (!find_above(here, path))
			return;
		fputs("atoll: the git repository is above the workspace, and not seen inside; with "
		      "it: atoll run -C ",
		      out);
		print_word(out, path);
		fputs(" --chdir ", out);
		print_word(out, here);
		fputs(" ...\n", out);
	} else if (S_ISREG(st.st_mode) && read_pointer(git, here, path) &&
		   !path_is_within(path, here)) {
		cut_work_tree(path);
		fputs("atoll: the git repository is outside of the workspace, and not seen inside; "
		      "to look at it: --read ",
		      out);
		print_word(out, path);
		fputs(", to change it: --direct --write ", out);
		print_word(out, path);
		fputc('\n', out);
	}
}
