/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/repository-hint.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "ui/ui.h"

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

/* Reads the path after `key` in a file of git, relative to `here`. */
static bool read_pointer(const char *file, const char *key, const char *here, char ret[PATH_MAX])
{
	const char *target;
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
	target = text + strlen(key);
	length = target[0] == '/' ? snprintf(ret, PATH_MAX, "%s", target)
				  : snprintf(ret, PATH_MAX, "%s/%s", here, target);
	path_normalize(ret);
	return length < PATH_MAX;
}

/* Cuts REPOSITORY/worktrees/NAME to REPOSITORY, because a work tree needs the objects there.
 * False if `path` does not have that form. */
static bool cut_work_tree(char *path)
{
	char *slash = strrchr(path, '/');
	static const char above[] = "/worktrees";

	if (!slash || (size_t)(slash - path) < sizeof above - 1)
		return false;
	slash -= sizeof above - 1;
	if (memcmp(slash, above, sizeof above - 1) != 0)
		return false;
	*slash = '\0';
	return true;
}

static bool has(const char *dir, const char *name, mode_t type)
{
	char path[PATH_MAX];
	struct stat st;

	return snprintf(path, sizeof path, "%s/%s", dir, name) < PATH_MAX &&
	       lstat(path, &st) == 0 && (st.st_mode & S_IFMT) == type;
}

/* Does `dir`/gitdir name `here`/.git? git writes both ends; a run that planted a .git file could
 * not write the other end. */
static bool leads_back(const char *dir, const char *here)
{
	char file[PATH_MAX], back[PATH_MAX], pointer[PATH_MAX];

	if (snprintf(file, sizeof file, "%s/gitdir", dir) >= PATH_MAX ||
	    snprintf(pointer, sizeof pointer, "%s/.git", here) >= PATH_MAX)
		return false;
	path_normalize(pointer);
	return read_pointer(file, "", dir, back) && strcmp(back, pointer) == 0;
}

/* Replaces `path`, the directory that a .git file names, by the repository of the linked work
 * tree. A run may have planted the .git file: the hint names a repository only if both ends
 * agree. */
static bool find_repository(char path[PATH_MAX], const char *here)
{
	return leads_back(path, here) && cut_work_tree(path) && has(path, "HEAD", S_IFREG) &&
	       has(path, "objects", S_IFDIR) && has(path, "refs", S_IFDIR);
}

/* Finds the nearest directory above that contains .git. */
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
		fputs("atoll: the git repository is above the workspace, so the sandbox does not "
		      "contain it; include it: atoll run -C ",
		      out);
		print_word(out, path);
		fputs(" --chdir ", out);
		print_word(out, here);
		fputs(" ...\n", out);
	} else if (S_ISREG(st.st_mode) && read_pointer(git, "gitdir: ", here, path) &&
		   !path_is_within(path, here)) {
		fputs("atoll: the git repository is outside of the workspace, so the sandbox does "
		      "not contain it",
		      out);
		if (find_repository(path, here)) {
			fputs("; read it with --read ", out);
			print_word(out, path);
			fputs(", change it with --direct --write ", out);
			print_word(out, path);
			fputc('\n', out);
			return;
		}
		fputs("; the file .git leads to ", out);
		print_word(out, path);
		fputs(", which does not point back here: check it before you grant it\n", out);
	}
}
