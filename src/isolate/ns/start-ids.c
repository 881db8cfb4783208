/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate/ns/start.h"

#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* ---- the maps, from outside and from inside ---- */

static int write_map(pid_t pid, const char *file, const char *text, struct atoll_error *err)
{
	char path[64];
	cleanup_fd int fd = -1;

	if (pid)
		snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
	else
		snprintf(path, sizeof path, "/proc/self/%s", file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open '%s'", path);
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		return error_set(err, ATOLL_FAULT_HOST, errno, "write '%s'", path);
	return 0;
}

int start_map_ids(pid_t pid, const struct ns_ids *ids, struct atoll_error *err)
{
	char text[IDS_MAP_SIZE];
	int r;

	ids_write_map(ids, false, text, sizeof text);
	r = write_map(pid, "uid_map", text, err);
	ids_write_map(ids, true, text, sizeof text);
	return r < 0 ? r : write_map(pid, "gid_map", text, err);
}

/* Without privilege a group may only be mapped once setgroups is given up. */
int start_map_self(const struct ns_ids *ids, struct atoll_error *err)
{
	cleanup_fd int fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "deny", 4) != 4)
		return start_fail(err, "write '/proc/self/setgroups'");
	return start_map_ids(0, ids, err);
}

/* ---- taking one of them ---- */

static int take_ids(const struct ns_ids *ids, struct atoll_error *err)
{
	/* Keep the namespace's capabilities across the change of id. */
	if (prctl(PR_SET_KEEPCAPS, 1) < 0)
		return start_fail(err, "keep capabilities");
	/* Not by the C library, which would have every thread of the caller's do the same, and wait
	 * for threads that are not in this clone. */
	if (ids->is_shifted && syscall(SYS_setgroups, 0, NULL) < 0)
		return start_fail(err, "drop groups");
	if (syscall(SYS_setresgid, ids->inside_gid, ids->inside_gid, ids->inside_gid) < 0 ||
	    syscall(SYS_setresuid, ids->inside_uid, ids->inside_uid, ids->inside_uid) < 0)
		return start_fail(err, "take the sandbox's ids");
	return 0;
}

/* Capabilities that were kept are not in effect after leaving uid 0. */
static int raise_capabilities(struct atoll_error *err)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		return start_fail(err, "read capabilities");
	for (int i = 0; i < 2; i++)
		data[i].effective = data[i].permitted;
	return syscall(SYS_capset, &header, data) < 0 ? start_fail(err, "raise capabilities") : 0;
}

int start_become_inside(const struct ns_ids *ids, struct atoll_error *err)
{
	int r = take_ids(ids, err);

	return r < 0 ? r : raise_capabilities(err);
}
