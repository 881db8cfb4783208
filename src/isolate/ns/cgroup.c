/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "isolate/ns/cell.h"
#include "spec/spec.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

/*
 * Memory, processes and CPUs, counted by the kernel for the whole tree
 *
 * A group of our own: in one that was made for it (v2: by systemd for atoll-sandboxes.service; or
 * `atoll`, by a set-up), else beneath (v1) or beside (v2, where a group with processes cannot have
 * children with controllers) the one that we run in. Nothing is changed but our own child group,
 * and what a group hands down that systemd has delegated. Where no hierarchy is writable the group
 * stays empty, and weaker mechanisms stand in, as the plan says.
 *
 * A v2 group is entered at birth (CLONE_INTO_CGROUP). On v1 a process has to be moved, which waits
 * for a global lock: 5 to 25 ms on an idle machine for each hierarchy. So v1 is used for what
 * nothing else holds: memory, and CPUs if a part of one is asked for. The number of processes is
 * bounded by RLIMIT_NPROC as strongly.
 *
 * All this is on the way of every start: the usual places are tried first, and the table of mounts
 * is read only where the hierarchies are somewhere else.
 */

#define USUAL_PLACE "/sys/fs/cgroup"

/* Of the unit that is installed with the daemon. */
#define UNIT_PLACE "system.slice/atoll-sandboxes.service"

/* How long one period of a CPU quota is; the kernel's own default. */
#define CPU_PERIOD_US 100000

/* So many groups of others are looked at when one is removed. */
#define SWEEP_MAX 32

/* With at most so many groups beside it also one of many looks at them. */
#define FEW 8

static bool read_text(const char *path, struct buf *buf)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && fd_read_all(fd, buf) == 0 && buf->data;
}

static bool is_kind(const char *path, long magic)
{
	struct statfs st;

	return statfs(path, &st) == 0 && (long)st.f_type == magic;
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

static bool find_point(const char *usual, const char *controller, char *ret, size_t size)
{
	cleanup_buf struct buf mounts = BUF_INIT(4 << 20);

	if (is_kind(usual, controller[0] ? CGROUP_SUPER_MAGIC : CGROUP2_SUPER_MAGIC)) {
		snprintf(ret, size, "%s", usual);
		return true;
	}
	return read_text("/proc/self/mountinfo", &mounts) &&
	       find_mount(mounts.data, controller, ret, size);
}

/* Our own path in the hierarchy of a v1 controller, or ("") of v2; "" for its top. */
static bool find_own(const char *controller, char *ret, size_t size)
{
	cleanup_buf struct buf text = BUF_INIT(1 << 16);

	if (!read_text("/proc/self/cgroup", &text))
		return false;
	for (char *line = text.data, *next; line && *line; line = next) {
		char *list, *path, *rest;
		bool is_it;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		list = strchr(line, ':');
		path = list ? strchr(list + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		list++;
		is_it = controller[0] == '\0' && list[0] == '\0';
		for (char *word = strtok_r(list, ",", &rest); word && !is_it;
		     word = strtok_r(NULL, ",", &rest))
			is_it = streq(word, controller);
		/* Outside of what this cgroup namespace shows there is nothing to make. */
		if (is_it && !starts_with(path, "/..")) {
			snprintf(ret, size, "%s", streq(path, "/") ? "" : path);
			return true;
		}
	}
	return false;
}

/* ---- groups ---- */

/*
 * Groups of runs that were killed before they could tidy up. Their makers held a lock that ended
 * with them; a number of a process would say less, because numbers are used again and mean nothing
 * in another pid namespace.
 *
 * A few of them each time, from anywhere in the list on: with thousands of sandboxes whoever ends
 * would else look at all others. The kernel lists groups by a hash of their names, which is also
 * the place to go on from.
 */
static void sweep_from(DIR *dir, int *left)
{
	struct dirent *entry;

	while (*left > 0 && (entry = readdir(dir))) {
		cleanup_fd int fd = -1;

		if (!starts_with(entry->d_name, "atoll-"))
			continue;
		--*left;
		fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	}
}

static void sweep(const char *parent)
{
	const long somewhere = (long)(clock_monotonic_ns() % INT32_MAX);
	DIR *dir = opendir(parent);
	int left = SWEEP_MAX;

	if (!dir)
		return;
	seekdir(dir, somewhere);
	sweep_from(dir, &left);
	rewinddir(dir);
	sweep_from(dir, &left);
	closedir(dir);
}

static bool make_group(const char *parent, struct ns_group_dir *ret)
{
	/* Once more if somebody swept it before it was locked. */
	for (int tries = 0; tries < 3; tries++) {
		if ((size_t)snprintf(ret->path, sizeof ret->path, "%s/atoll-%d-%" PRIx64, parent,
				     getpid(),
				     (uint64_t)clock_monotonic_ns()) >= sizeof ret->path ||
		    mkdir(ret->path, 0755) < 0)
			break;
		ret->fd = open(ret->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (ret->fd >= 0 && flock(ret->fd, LOCK_EX | LOCK_NB) == 0 &&
		    faccessat(ret->fd, "cgroup.procs", F_OK, 0) == 0)
			return true;
		if (ret->fd >= 0)
			close(take_fd(&ret->fd));
		rmdir(ret->path);
	}
	ret->path[0] = '\0';
	return false;
}

/* The kernel counts a directory's own directories as its links. */
static bool has_few_groups(const char *parent)
{
	struct stat st;

	return stat(parent, &st) == 0 && st.st_nlink <= 2 + FEW;
}

/* `sweeps`: with all that others have left; else only if those are few. */
static void remove_group(struct ns_group_dir *group, bool sweeps)
{
	char *slash = strrchr(group->path, '/');

	if (!slash)
		return;
	/* Its processes are gone by now; a moment may pass until the kernel has noticed. */
	for (int i = 0; i < 50 && rmdir(group->path) < 0 && errno == EBUSY; i++)
		usleep(2000);
	if (group->fd >= 0)
		close(take_fd(&group->fd));
	*slash = '\0';
	if (sweeps || has_few_groups(group->path))
		sweep(group->path);
	group->path[0] = '\0';
}

static bool set_text(const struct ns_group_dir *group, const char *file, const char *text)
{
	cleanup_fd int fd = openat(group->fd, file, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0;
}

static bool set_value(const struct ns_group_dir *group, const char *file, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof text, "%" PRIu64, value);
	return set_text(group, file, text);
}

/* ---- v1 ---- */

static bool make_v1(const char *usual, const char *controller, struct ns_group_dir *ret)
{
	char point[256], path[256], parent[PATH_MAX];

	if (!find_point(usual, controller, point, sizeof point))
		return false;
	snprintf(parent, sizeof parent, "%s/atoll", point);
	if (make_group(parent, ret))
		return true;
	if (!find_own(controller, path, sizeof path))
		return false;
	snprintf(parent, sizeof parent, "%s%s", point, path);
	return make_group(parent, ret);
}

static uint64_t quota_us(uint64_t thousandths)
{
	return thousandths * CPU_PERIOD_US / 1000;
}

static void prepare_v1(struct ns_group *group, const struct spec *spec)
{
	uint64_t memory = spec->limits[SPEC_MEMORY].value, cpus = spec->limits[SPEC_CPUS].value;

	if (memory != SPEC_UNLIMITED && make_v1(USUAL_PLACE "/memory", "memory", &group->main)) {
		group->has_memory = set_value(&group->main, "memory.limit_in_bytes", memory);
		/* There only where the kernel counts swap. */
		group->has_swap = set_value(&group->main, "memory.memsw.limit_in_bytes", memory);
	}
	/* Whole CPUs are held by the set of CPUs alone. */
	if (cpus != SPEC_UNLIMITED && cpus % 1000 != 0 &&
	    make_v1(USUAL_PLACE "/cpu", "cpu", &group->cpu))
		group->has_cpus = set_value(&group->cpu, "cpu.cfs_period_us", CPU_PERIOD_US) &&
				  set_value(&group->cpu, "cpu.cfs_quota_us", quota_us(cpus));
}

/* ---- v2 ---- */

static bool hands_down(const char *dir)
{
	cleanup_buf struct buf text = BUF_INIT(4096);
	char file[PATH_MAX];

	snprintf(file, sizeof file, "%s/cgroup.subtree_control", dir);
	return read_text(file, &text) && strstr(text.data, "memory") && strstr(text.data, "pids");
}

/* Of a unit with Delegate=: what is beneath is not systemd's, and what is above is not ours. */
static bool is_delegated(const char *dir)
{
	char value[2];

	return (getxattr(dir, "user.delegate", value, sizeof value) == 1 ||
		getxattr(dir, "trusted.delegate", value, sizeof value) == 1) &&
	       value[0] == '1';
}

/* The kernel refuses it as long as there are processes in the group itself. */
static bool hand_down(const char *dir)
{
	static const char *const names[] = {"+memory", "+pids", "+cpu", "+io"};
	cleanup_fd int fd = -1;
	char file[PATH_MAX];

	snprintf(file, sizeof file, "%s/cgroup.subtree_control", dir);
	fd = open(file, O_WRONLY | O_CLOEXEC);
	for (size_t i = 0; fd >= 0 && i < ARRAY_SIZE(names); i++) {
		if (write(fd, names[i], strlen(names[i])) < 0 && i < 2)
			return false;
	}
	return fd >= 0;
}

/* The nearest ancestor that hands both controllers down. What is delegated is a whole subtree:
 * above that, or a group that cannot be written, there is nothing to find. The top is the one group
 * that may have processes and children. */
static bool find_v2_parent(const char *point, char *ret, size_t size)
{
	char path[512];
	char *slash;

	if (!find_own("", path, sizeof path))
		return false;
	do {
		slash = strrchr(path, '/');
		if (slash)
			*slash = '\0';
		snprintf(ret, size, "%s%s", point, path);
		if (access(ret, W_OK) < 0)
			return false;
		if (hands_down(ret))
			return true;
		if (is_delegated(ret))
			return hand_down(ret);
	} while (slash && path[0]);
	return false;
}

static void fill_v2(struct ns_group *group, const struct spec *spec)
{
	uint64_t memory = spec->limits[SPEC_MEMORY].value, pids = spec->limits[SPEC_PIDS].value;
	uint64_t cpus = spec->limits[SPEC_CPUS].value;
	char text[64];

	if (memory != SPEC_UNLIMITED) {
		group->has_memory = set_value(&group->main, "memory.max", memory);
		group->has_swap = set_value(&group->main, "memory.swap.max", 0);
	}
	set_value(&group->main, "memory.oom.group", 1);
	group->has_pids = pids != SPEC_UNLIMITED && set_value(&group->main, "pids.max", pids + 1);
	if (cpus != SPEC_UNLIMITED) { /* only where the controller is handed down */
		snprintf(text, sizeof text, "%" PRIu64 " %d", quota_us(cpus), CPU_PERIOD_US);
		group->has_cpus = set_text(&group->main, "cpu.max", text);
	}
}

/* Where root's groups belong. */
static bool make_v2_of_root(const char *point, struct ns_group_dir *ret)
{
	char parent[PATH_MAX];

	snprintf(parent, sizeof parent, "%s/" UNIT_PLACE, point);
	if (hands_down(parent) && make_group(parent, ret))
		return true;
	snprintf(parent, sizeof parent, "%s/atoll", point);
	return make_group(parent, ret);
}

static void prepare_v2(struct ns_group *group, const struct spec *spec, const char *usual)
{
	char point[256], parent[PATH_MAX];

	if (!find_point(usual, "", point, sizeof point))
		return;
	if (!(geteuid() == 0 && make_v2_of_root(point, &group->main)) &&
	    !(find_v2_parent(point, parent, sizeof parent) && make_group(parent, &group->main)))
		return;
	group->is_v2 = true;
	group->v2_fd = group->main.fd;
	fill_v2(group, spec);
}

/* ---- all ---- */

void cgroup_prepare(struct ns_group *group, const struct spec *spec)
{
	const bool is_root = geteuid() == 0;

	if (is_kind(USUAL_PLACE, CGROUP2_SUPER_MAGIC)) {
		prepare_v2(group, spec, USUAL_PLACE);
		return;
	}
	/* Where v1 holds the controllers, or nothing is mounted where it usually is, moving a
	 * process is root's: an ordinary user does not pay for looking. */
	if (!is_root)
		return;
	if (is_kind(USUAL_PLACE "/memory", CGROUP_SUPER_MAGIC)) {
		prepare_v1(group, spec);
		return;
	}
	prepare_v2(group, spec, USUAL_PLACE "/unified");
	if (!group->is_v2)
		prepare_v1(group, spec);
}

static int enter(const struct ns_group_dir *group, pid_t pid, struct atoll_error *err)
{
	if (group->path[0] && !set_value(group, "cgroup.procs", (uint64_t)pid))
		return error_set(err, ATOLL_FAULT_HOST, errno, "enter the control group '%s'",
				 group->path);
	return 0;
}

int cgroup_enter(const struct ns_group *group, pid_t pid, struct atoll_error *err)
{
	int r = enter(&group->main, pid, err);

	return r < 0 ? r : enter(&group->cpu, pid, err);
}

/* The first number in a file, or the one behind `key`; 0 if there is none. */
static uint64_t read_value(const struct ns_group_dir *group, const char *file, const char *key)
{
	cleanup_fd int fd = openat(group->fd, file, O_RDONLY | O_CLOEXEC);
	char text[4096];
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	const char *at;

	if (got <= 0)
		return 0;
	text[got] = '\0';
	at = key ? strstr(text, key) : text;
	return at ? strtoull(at + (key ? strlen(key) : 0), NULL, 10) : 0;
}

void cgroup_account(const struct ns_group *group, struct cell_usage *usage)
{
	uint64_t pids;

	if (group->has_memory && group->is_v2) {
		usage->memory_peak = read_value(&group->main, "memory.peak", NULL);
		usage->memory = read_value(&group->main, "memory.current", NULL);
		usage->is_out_of_memory =
			read_value(&group->main, "memory.events", "oom_kill ") > 0;
	} else if (group->has_memory) {
		usage->memory_peak = read_value(&group->main, "memory.max_usage_in_bytes", NULL);
		usage->memory = read_value(&group->main, "memory.usage_in_bytes", NULL);
		usage->is_out_of_memory =
			read_value(&group->main, "memory.oom_control", "oom_kill ") > 0;
	}
	if (!group->is_v2)
		return;
	/* Whatever has ended is in it, also what nobody waited for. */
	usage->cpu_ms = read_value(&group->main, "cpu.stat", "usage_usec ") / 1000;
	pids = read_value(&group->main, "pids.peak", NULL); /* 6.1 */
	if (pids > 1)
		usage->processes_peak = pids - 1; /* without the first process */
}

void cgroup_release(struct ns_group *group)
{
	/* Of a thousand sandboxes that live on, not each looks at all the others at its end. But
	 * the last ones do: nobody comes behind them who could. */
	const bool sweeps = !group->is_of_many || clock_monotonic_ns() / 1000 % 16 == 0;

	group->v2_fd = -1;
	remove_group(&group->main, sweeps);
	remove_group(&group->cpu, sweeps);
}
