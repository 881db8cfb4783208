/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "isolate/ns/cell.h"
#include "spec/spec.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

/*
 * Memory and number of processes, counted by the kernel for the whole tree
 *
 * A group of our own beneath (v1) or beside (v2, where a group with processes cannot have children
 * with controllers) the one that we run in. Nothing is changed but our own child group. Where no
 * hierarchy is writable the group stays empty, and weaker mechanisms stand in, as the plan says.
 *
 * A v2 group is entered at birth (CLONE_INTO_CGROUP). On v1 a process has to be moved, which waits
 * for a global lock: 5 to 25 ms on an idle machine.
 */

static bool read_text(const char *path, struct buf *buf)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && fd_read_all(fd, buf) == 0 && buf->data;
}

/* Where a v1 controller, or ("") the v2 hierarchy, is mounted. */
static bool find_mount(const char *mountinfo, const char *controller, char *ret, size_t size)
{
	cleanup_free char *copy = strdup(mountinfo);

	for (char *line = copy, *next; line && *line; line = next) {
		char point[PATH_MAX], type[32], options[256];
		const char *dash;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		dash = strstr(line, " - ");
		if (!dash || sscanf(line, "%*s %*s %*s %*s %4095s", point) != 1 ||
		    sscanf(dash, " - %31s %*s %255s", type, options) != 2)
			continue;
		if (controller[0] == '\0' ? streq(type, "cgroup2") : streq(type, "cgroup")) {
			for (char *rest, *word = strtok_r(options, ",", &rest); word;
			     word = strtok_r(NULL, ",", &rest)) {
				if (controller[0] == '\0' || streq(word, controller)) {
					snprintf(ret, size, "%s", point);
					return true;
				}
			}
		}
	}
	return false;
}

/* Our own path in the hierarchy of a v1 controller, or ("") of v2. */
static bool find_own(const char *text, const char *controller, char *ret, size_t size)
{
	cleanup_free char *copy = strdup(text);

	for (char *line = copy, *next; line && *line; line = next) {
		char *list, *path;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		list = strchr(line, ':');
		path = list ? strchr(list + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		list++;
		if (controller[0] == '\0' ? list[0] == '\0' : streq(list, controller)) {
			snprintf(ret, size, "%s", streq(path, "/") ? "" : path);
			return true;
		}
	}
	return false;
}

/* Groups of runs that were killed before they could tidy up: their maker is gone. */
static void sweep(const char *parent)
{
	DIR *dir = opendir(parent);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		pid_t pid;

		if (sscanf(entry->d_name, "atoll-%d-", &pid) == 1 && kill(pid, 0) < 0 &&
		    errno == ESRCH)
			unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	}
	if (dir)
		closedir(dir);
}

static bool make_group(const char *parent, char *ret, size_t size)
{
	sweep(parent);
	if ((size_t)snprintf(ret, size, "%s/atoll-%d-%" PRIx64, parent, getpid(),
			     (uint64_t)clock_monotonic_ns()) < size &&
	    mkdir(ret, 0755) == 0)
		return true;
	ret[0] = '\0';
	return false;
}

static bool set_value(const char *dir, const char *file, uint64_t value)
{
	char path[PATH_MAX], text[32];
	cleanup_fd int fd = -1;

	snprintf(path, sizeof path, "%s/%s", dir, file);
	snprintf(text, sizeof text, "%" PRIu64, value);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0;
}

static void prepare_v1(struct ns_group *group, const struct spec *spec, const char *mounts,
		       const char *own)
{
	uint64_t memory = spec->limits[SPEC_MEMORY].value, pids = spec->limits[SPEC_PIDS].value;
	char point[256], path[256], parent[PATH_MAX];

	if (memory != SPEC_UNLIMITED && find_mount(mounts, "memory", point, sizeof point) &&
	    find_own(own, "memory", path, sizeof path)) {
		snprintf(parent, sizeof parent, "%s%s", point, path);
		group->has_memory =
			make_group(parent, group->memory_dir, sizeof group->memory_dir) &&
			set_value(group->memory_dir, "memory.limit_in_bytes", memory);
	}
	if (pids != SPEC_UNLIMITED && find_mount(mounts, "pids", point, sizeof point) &&
	    find_own(own, "pids", path, sizeof path)) {
		snprintf(parent, sizeof parent, "%s%s", point, path);
		group->has_pids = make_group(parent, group->pids_dir, sizeof group->pids_dir) &&
				  set_value(group->pids_dir, "pids.max", pids + 1);
	}
}

/* The nearest ancestor that hands both controllers down. */
static bool find_v2_parent(const char *point, char *path, char *ret, size_t size)
{
	for (;;) {
		cleanup_buf struct buf text = BUF_INIT(4096);
		char file[PATH_MAX];
		char *slash = strrchr(path, '/');

		if (!slash)
			return false;
		*slash = '\0';
		snprintf(file, sizeof file, "%s%s/cgroup.subtree_control", point, path);
		if (read_text(file, &text) && strstr(text.data, "memory") &&
		    strstr(text.data, "pids")) {
			snprintf(ret, size, "%s%s", point, path);
			return true;
		}
	}
}

static void prepare_v2(struct ns_group *group, const struct spec *spec, const char *mounts,
		       const char *own)
{
	uint64_t memory = spec->limits[SPEC_MEMORY].value, pids = spec->limits[SPEC_PIDS].value;
	char point[256], path[512], parent[PATH_MAX];

	if (!find_mount(mounts, "", point, sizeof point) || !find_own(own, "", path, sizeof path) ||
	    !find_v2_parent(point, path, parent, sizeof parent) ||
	    !make_group(parent, group->memory_dir, sizeof group->memory_dir))
		return;
	group->v2_fd = open(group->memory_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	group->is_v2 = group->v2_fd >= 0;
	group->has_memory =
		memory != SPEC_UNLIMITED && set_value(group->memory_dir, "memory.max", memory);
	set_value(group->memory_dir, "memory.swap.max", 0);
	set_value(group->memory_dir, "memory.oom.group", 1);
	group->has_pids =
		pids != SPEC_UNLIMITED && set_value(group->memory_dir, "pids.max", pids + 1);
}

int cgroup_prepare(struct cell *cell, struct atoll_error *err)
{
	cleanup_buf struct buf mounts = BUF_INIT(4 << 20), own = BUF_INIT(1 << 16);

	(void)err; /* no group is not a failure: the plan tells what stands in for it */
	cell->group.v2_fd = -1;
	if (!read_text("/proc/self/mountinfo", &mounts) || !read_text("/proc/self/cgroup", &own))
		return 0;
	prepare_v2(&cell->group, cell->spec, mounts.data, own.data);
	/* Moving into a v1 group is root's; do not pay for looking otherwise. */
	if (!cell->group.is_v2 && geteuid() == 0)
		prepare_v1(&cell->group, cell->spec, mounts.data, own.data);
	return 0;
}

static int enter(const char *dir, pid_t pid, struct atoll_error *err)
{
	if (dir[0] && !set_value(dir, "cgroup.procs", (uint64_t)pid))
		return error_set(err, ATOLL_FAULT_HOST, errno, "enter the control group '%s'", dir);
	return 0;
}

int cgroup_enter(const struct ns_group *group, pid_t pid, struct atoll_error *err)
{
	int r = enter(group->memory_dir, pid, err);

	return r < 0 ? r : enter(group->pids_dir, pid, err);
}

static uint64_t read_value(const char *dir, const char *file, const char *key)
{
	cleanup_buf struct buf text = BUF_INIT(4096);
	char path[PATH_MAX];
	const char *at;

	snprintf(path, sizeof path, "%s/%s", dir, file);
	if (!read_text(path, &text))
		return 0;
	at = key ? strstr(text.data, key) : text.data;
	return at ? strtoull(at + (key ? strlen(key) : 0), NULL, 10) : 0;
}

void cgroup_account(const struct ns_group *group, uint64_t *ret_peak, bool *ret_out_of_memory)
{
	const char *dir = group->memory_dir;

	if (!group->has_memory)
		return;
	*ret_peak =
		read_value(dir, group->is_v2 ? "memory.peak" : "memory.max_usage_in_bytes", NULL);
	*ret_out_of_memory = group->is_v2 ? read_value(dir, "memory.events", "oom_kill ") > 0
					  : read_value(dir, "memory.oom_control", "oom_kill ") > 0;
}

void cgroup_release(struct ns_group *group)
{
	if (group->v2_fd > 0)
		close(group->v2_fd);
	group->v2_fd = -1;
	/* Its processes are gone by now; a moment may pass until the kernel has noticed. */
	for (int i = 0;
	     i < 50 && group->memory_dir[0] && rmdir(group->memory_dir) < 0 && errno == EBUSY; i++)
		usleep(2000);
	for (int i = 0;
	     i < 50 && group->pids_dir[0] && rmdir(group->pids_dir) < 0 && errno == EBUSY; i++)
		usleep(2000);
	group->memory_dir[0] = group->pids_dir[0] = '\0';
}
