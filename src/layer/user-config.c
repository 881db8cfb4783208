/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/user-config.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int user_config_open(const char *name, bool create, struct atoll_error *err)
{
	const char *home = getenv("HOME"), *config = getenv("XDG_CONFIG_HOME");
	cleanup_fd int dir = -1;
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (config && config[0] == '/')
		snprintf(path, sizeof path, "%s", config);
	else if (home && home[0] == '/')
		snprintf(path, sizeof path, "%s/.config", home);
	else
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "HOME is not set");
	if (create && !(config && config[0] == '/') && access(home, F_OK) < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "HOME is '%.200s', which does not exist; set HOME to your home "
				 "directory, or XDG_CONFIG_HOME to a directory for atoll's answers",
				 home);
	if (create)
		mkdir(path, 0700);
	strncat(path, "/atoll", sizeof path - strlen(path) - 1);
	if (create)
		mkdir(path, 0700);
	dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return errno == ENOENT && !create
			       ? -ENOENT
			       : error_set(err, ATOLL_FAULT_HOST, errno, "open '%s'", path);
	fd = openat(dir, name, O_RDWR | (create ? O_CREAT | O_APPEND : 0) | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return errno == ENOENT ? -ENOENT
				       : error_set(err, ATOLL_FAULT_HOST, errno, "open '%s/%s'",
						   path, name);
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022)) {
		close(fd);
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "'%s/%s' is not yours alone to write; fix its owner and mode",
				 path, name);
	}
	return fd;
}

bool user_config_is_in_reach(int fd, const struct spec *spec, enum spec_access access)
{
	const struct spec_rule *rule;
	char link[64], path[PATH_MAX];
	ssize_t length;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof path - 1);
	if (length <= 0)
		return true;
	path[length] = '\0';
	rule = spec_rule_for(spec, path);
	return path_is_within(path, spec->workspace) || path_is_within(path, spec->caller) ||
	       (rule && (rule->access == SPEC_WRITE || rule->access == access));
}
