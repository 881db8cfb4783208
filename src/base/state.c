/* SPDX-License-Identifier: Apache-2.0 */
#include "base/state.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Does the environment name the place of all programs' states itself? */
static const char *named_place(void)
{
	const char *state = getenv("XDG_STATE_HOME");

	return state && state[0] == '/' ? state : NULL;
}

int state_path(char path[PATH_MAX], struct atoll_error *err)
{
	const char *state = named_place(), *home = getenv("HOME");
	int length;

	if (state)
		length = snprintf(path, PATH_MAX, "%s/atoll", state);
	else if (home && home[0] == '/')
		length = snprintf(path, PATH_MAX, "%s/.local/state/atoll", home);
	else
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "neither HOME nor XDG_STATE_HOME is set, so there is no place for "
				 "records of runs");
	if (length >= PATH_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "the store of records");
	path_normalize(path);
	return 0;
}

/* A home directory that does not exist is a mistake, or says that there is none (/nonexistent of
 * accounts for services): it is never created. */
int state_check_home(struct atoll_error *err)
{
	const char *home = getenv("HOME");
	struct stat st;

	if (named_place() || !home || (stat(home, &st) == 0 && S_ISDIR(st.st_mode)))
		return 0;
	return error_set(
		err, ATOLL_FAULT_REQUEST, 0,
		"HOME is '%.200s', which is no directory, so there is no place for records "
		"of runs; set HOME to your home directory, or XDG_STATE_HOME to a "
		"directory for the records",
		home);
}

/* With all directories above it. What is there already is left as it is. */
static int make_path(const char *path, struct atoll_error *err)
{
	char part[PATH_MAX];

	if (mkdir(path, 0700) == 0 || errno == EEXIST)
		return 0;
	for (const char *slash = path; errno == ENOENT && (slash = strchr(slash + 1, '/'));) {
		snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
		if (mkdir(part, 0700) == 0 || errno == EEXIST)
			errno = ENOENT;
	}
	/* Whatever else one above it failed of is the reason. */
	if (errno != ENOENT || (mkdir(path, 0700) < 0 && errno != EEXIST))
		return error_set(err, ATOLL_FAULT_HOST, errno,
				 "create '%s', where records of runs are kept (XDG_STATE_HOME "
				 "names another place)",
				 path);
	return 0;
}

/* Whoever else could write it could have his own files applied to the workspace, and who reads it
 * reads what the runs wrote. */
static int check_owner(int fd, const char *path, struct atoll_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "look at '%s'", path);
	if (st.st_uid != geteuid())
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "'%s' holds records of runs and belongs to somebody else (uid "
				 "%u); move it away, or set XDG_STATE_HOME",
				 path, st.st_uid);
	if (st.st_mode & 077)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "'%s' holds records of runs and is open to others (mode %03o); "
				 "chmod 700 it if you trust what is in it",
				 path, st.st_mode & 0777);
	return 0;
}

int state_open(bool create, char ret_path[PATH_MAX], struct atoll_error *err)
{
	cleanup_fd int fd = -1;
	char *path = ret_path;
	int r = state_path(path, err);

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && create) {
		r = state_check_home(err);
		if (r == 0)
			r = make_path(path, err);
		if (r < 0)
			return r;
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "'%s' holds records of runs and has to be a directory, not a link "
				 "or a file",
				 path);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open '%s'", path);
	r = check_owner(fd, path, err);
	if (r < 0)
		return r;
	return take_fd(&fd);
}
