/* SPDX-License-Identifier: Apache-2.0 */
#include "init/resolve.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uapi.h"

#include <errno.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#define LINKS_MAX 40  /* as in the kernel */
#define SHORT	  256 /* of a string, read first */

void target_done(struct target *target)
{
	if (target->parent >= 0)
		close(target->parent);
	if (target->object >= 0)
		close(target->object);
	target->parent = target->object = -1;
}

int resolve_read_memory(pid_t tid, uint64_t address, void *ret, size_t size)
{
	struct iovec here = {.iov_base = ret, .iov_len = size};
	struct iovec there = {.iov_base = (void *)(uintptr_t)address, .iov_len = size};
	ssize_t got = process_vm_readv(tid, &here, 1, &there, 1, 0);

	if (got < 0)
		return errno == EFAULT ? -EFAULT : -ESRCH;
	return (size_t)got == size ? 0 : -EFAULT;
}

int resolve_read_string(pid_t tid, uint64_t address, char *ret, size_t size)
{
	size_t used = 0;

	while (used < size) {
		/* Up to the end of a page: the next one may not be there. Most are short. */
		size_t want = 4096 - (size_t)((address + used) % 4096);
		int r;

		if (want > SHORT && used == 0)
			want = SHORT;
		if (want > size - used)
			want = size - used;
		r = resolve_read_memory(tid, address + used, ret + used, want);
		if (r < 0)
			return r;
		if (memchr(ret + used, '\0', want))
			return 0;
		used += want;
	}
	return -ENAMETOOLONG;
}

#define STATUS_SIZE 2048

/* The name comes first and may hold anything but a raw newline, which the kernel escapes. */
static int read_status(pid_t tid, char text[STATUS_SIZE])
{
	cleanup_fd int fd = -1;
	char path[64];
	ssize_t got;

	snprintf(path, sizeof path, "/proc/%d/status", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -ESRCH;
	got = read(fd, text, STATUS_SIZE - 1);
	if (got <= 0)
		return -ESRCH;
	text[got] = '\0';
	return 0;
}

/* The last of four: real, effective, saved, and the one for files. */
static bool read_id(const char *text, const char *key, uint32_t *ret)
{
	const char *field = strstr(text, key);
	char *end;

	if (!field)
		return false;
	field += strlen(key);
	for (int i = 0; i < 4; i++) {
		*ret = (uint32_t)strtoul(field, &end, 10);
		if (end == field)
			return false;
		field = end;
	}
	return true;
}

int resolve_read_ids(pid_t tid, uid_t *ret_uid, gid_t *ret_gid)
{
	char text[STATUS_SIZE];
	int r = read_status(tid, text);

	if (r < 0)
		return r;
	return read_id(text, "\nUid:", ret_uid) && read_id(text, "\nGid:", ret_gid) ? 0 : -ESRCH;
}

int resolve_read_status(pid_t tid, mode_t *ret_umask, pid_t *ret_tgid)
{
	char text[STATUS_SIZE];
	const char *field;
	int r = read_status(tid, text);

	if (r < 0)
		return r;
	field = strstr(text, "\nUmask:");
	if (!field)
		return -ESRCH;
	*ret_umask = (mode_t)strtoul(field + 7, NULL, 8);
	field = strstr(text, "\nTgid:");
	if (!field)
		return -ESRCH;
	*ret_tgid = (pid_t)strtol(field + 6, NULL, 10);
	return 0;
}

int resolve_caller_fd(pid_t tid, int fd)
{
	char path[64];
	int ours;

	if (fd < 0)
		return -EBADF;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", tid, fd);
	ours = open(path, O_PATH | O_CLOEXEC);
	if (ours >= 0)
		return ours;
	return errno == ENOENT ? -EBADF : -errno;
}

int resolve_fd_path(int fd, char *ret, size_t size)
{
	char link[64];
	ssize_t length;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	length = readlink(link, ret, size);
	if (length < 0)
		return -errno;
	if ((size_t)length >= size)
		return -ENAMETOOLONG;
	ret[length] = '\0';
	return 0;
}

int resolve_start(pid_t tid, int dir_fd, const char *path, uint64_t openat2_flags)
{
	char link[64];
	int fd;

	/* With RESOLVE_IN_ROOT even an absolute path begins at the caller's directory. */
	if (path[0] == '/' && !(openat2_flags & RESOLVE_IN_ROOT))
		fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	else if (dir_fd != AT_FDCWD)
		return resolve_caller_fd(tid, dir_fd);
	else {
		snprintf(link, sizeof link, "/proc/%d/cwd", tid);
		fd = open(link, O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	return fd < 0 ? -errno : fd;
}

bool resolve_is_proc(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

/* The part of a path that has not been walked yet. */
struct rest {
	char text[2 * PATH_MAX];
	size_t at;
};

/* Put a link's text in front of what is left to walk. */
static int splice_link(struct rest *rest, const char *link)
{
	char tail[PATH_MAX];
	size_t left = strlen(rest->text + rest->at);

	if (left >= sizeof tail)
		return -ENAMETOOLONG;
	memcpy(tail, rest->text + rest->at, left + 1);
	if ((size_t)snprintf(rest->text, sizeof rest->text, "%s%s%s", link, left ? "/" : "",
			     tail) >= PATH_MAX)
		return -ENAMETOOLONG;
	rest->at = 0;
	return 0;
}

/* /proc/self means the caller, whoever looks it up. */
static bool proc_link_text(pid_t tid, const char *name, char *ret, size_t size)
{
	mode_t mask;
	pid_t tgid;

	if (streq(name, "self") || streq(name, "thread-self")) {
		if (resolve_read_status(tid, &mask, &tgid) < 0)
			tgid = tid;
		if (streq(name, "self"))
			snprintf(ret, size, "%d", tgid);
		else
			snprintf(ret, size, "%d/task/%d", tgid, tid);
		return true;
	}
	if (streq(name, "mounts") || streq(name, "net")) {
		snprintf(ret, size, "self/%s", name);
		return true;
	}
	return false;
}

static pid_t kept_out[2];

void resolve_keep_out(pid_t guard, pid_t warden)
{
	kept_out[0] = guard;
	kept_out[1] = warden;
}

static pid_t thread_group(pid_t tid)
{
	mode_t mask;
	pid_t tgid;

	return resolve_read_status(tid, &mask, &tgid) < 0 ? 0 : tgid;
}

/* How many system call filters a process is under: 0 if that cannot be seen. */
static unsigned long count_filters(pid_t pid)
{
	char text[STATUS_SIZE];
	const char *field;

	if (read_status(pid, text) < 0)
		return 0;
	field = strstr(text, "\nSeccomp_filters:");
	return field ? strtoul(field + strlen("\nSeccomp_filters:"), NULL, 10) : 0;
}

/*
 * Would the kernel let this caller follow links of another process (ptrace_may_access())? It has to
 * be sealed in like the caller: a process that is being set up has fewer filters, and is in no
 * Landlock domain yet. Processes that are not dumpable have files in /proc that are not their
 * user's: the children of the guard, and the template. Without a pid namespace the guard can signal
 * the sandbox's processes alone.
 */
static bool is_readable(pid_t tid, pid_t pid)
{
	unsigned long filters = count_filters(tid);
	char path[32];
	struct stat st;
	uid_t uid;
	gid_t gid;

	snprintf(path, sizeof path, "/proc/%d/fd", pid);
	return resolve_read_ids(tid, &uid, &gid) == 0 && lstat(path, &st) == 0 &&
	       st.st_uid == uid && kill(pid, 0) == 0 && filters && count_filters(pid) >= filters;
}

/*
 * May a magic link in this directory of /proc be followed? The guard follows it with its own
 * rights, and those of the caller count. The guard's own links lead to descriptors that are not the
 * caller's. `dir_fd` is bound to its process: should the number be another's by now, opening a name
 * there fails with ESRCH.
 */
static bool may_follow(pid_t tid, int dir_fd)
{
	char path[PATH_MAX];
	pid_t pid, own;

	if (resolve_fd_path(dir_fd, path, sizeof path) < 0 || !starts_with(path, "/proc/"))
		return false;
	pid = (pid_t)strtol(path + strlen("/proc/"), NULL, 10);
	if (pid <= 0 || pid == kept_out[0] || pid == kept_out[1])
		return false;
	own = thread_group(tid);
	return pid == tid || (own && thread_group(pid) == own) || is_readable(tid, pid);
}

/*
 * Component by component, for the paths where one openat2() will not do: what goes through /proc
 * means something else to the caller than to us.
 */
static int walk(pid_t tid, int start, const char *path, bool follow, struct target *ret)
{
	cleanup_fd int at = start;
	struct rest rest = {.at = 0};
	char link[PATH_MAX];
	int links = 0;

	if ((size_t)snprintf(rest.text, sizeof rest.text, "%s", path) >= PATH_MAX)
		return -ENAMETOOLONG;
	for (;;) {
		cleanup_fd int next = -1;
		size_t length;
		struct stat st;
		ssize_t got;
		bool is_last;

		rest.at += strspn(rest.text + rest.at, "/");
		length = strcspn(rest.text + rest.at, "/");
		if (length > NAME_MAX)
			return -ENAMETOOLONG;
		if (length == 0) {
			ret->object = take_fd(&at);
			return 0;
		}
		memcpy(ret->name, rest.text + rest.at, length);
		ret->name[length] = '\0';
		rest.at += length;
		is_last = rest.text[rest.at + strspn(rest.text + rest.at, "/")] == '\0';
		ret->wants_dir = is_last && rest.text[rest.at] == '/';

		next = openat(at, ret->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0 && (errno != ENOENT || !is_last))
			return -errno;
		if (next < 0 || (is_last && !follow)) {
			ret->parent = take_fd(&at);
			return 0;
		}
		if (fstat(next, &st) < 0)
			return -errno;
		if (!S_ISLNK(st.st_mode)) {
			if (is_last && !streq(ret->name, ".") && !streq(ret->name, "..")) {
				ret->parent = take_fd(&at);
				return 0;
			}
			close(at);
			at = take_fd(&next);
			continue;
		}
		if (++links > LINKS_MAX)
			return -ELOOP;
		if (resolve_is_proc(next) && !proc_link_text(tid, ret->name, link, sizeof link)) {
			/* A magic link leads to an object, whatever its text says. */
			int object;

			if (!may_follow(tid, at))
				return -EACCES;
			object = openat(at, ret->name, O_PATH | O_CLOEXEC);
			if (object < 0)
				return -errno;
			close(at);
			at = object;
			continue;
		}
		if (!resolve_is_proc(next)) {
			got = readlinkat(next, "", link, sizeof link - 1);
			if (got < 0)
				return -errno;
			link[got] = '\0';
		}
		if (splice_link(&rest, link) < 0)
			return -ENAMETOOLONG;
		if (link[0] == '/') {
			close(at);
			at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
			if (at < 0)
				return -errno;
		}
	}
}

/* Split off the last component; "" if it has no name to go by (".", "..", "/"). */
static int split(const char *path, char dir[PATH_MAX], struct target *ret)
{
	size_t length = strlen(path), end = length, start;

	while (end > 0 && path[end - 1] == '/')
		end--;
	ret->wants_dir = end < length && end > 0;
	start = end;
	while (start > 0 && path[start - 1] != '/')
		start--;
	if (end - start > NAME_MAX || length >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(ret->name, path + start, end - start);
	ret->name[end - start] = '\0';
	if (end == start || streq(ret->name, ".") || streq(ret->name, "..")) {
		ret->name[0] = '\0';
		memcpy(dir, path, length + 1);
		return 0;
	}
	memcpy(dir, path, start);
	dir[start] = '\0';
	if (start == 0)
		strcpy(dir, ".");
	return 0;
}

/* The usual case: the directory in one call, whatever links lead there. */
static int look_up(int start, const char *path, uint64_t openat2_flags, struct target *ret)
{
	char dir[PATH_MAX];
	int fd, r;

	r = split(path, dir, ret);
	if (r < 0)
		return r;
	fd = fd_openat2(start, dir, O_PATH | (ret->name[0] ? O_DIRECTORY : 0), 0,
			openat2_flags | RESOLVE_NO_MAGICLINKS);
	if (fd < 0)
		return fd;
	if (ret->name[0])
		ret->parent = fd;
	else
		ret->object = fd;
	return 0;
}

static bool get_mount(int fd, uint64_t *ret)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &stx) < 0 || !(stx.stx_mask & STATX_MNT_ID))
		return false;
	*ret = stx.stx_mnt_id;
	return true;
}

static bool is_at(uint64_t mount, const char *path)
{
	cleanup_fd int fd =
		fd_openat2(AT_FDCWD, path, O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_MAGICLINKS);
	uint64_t found;

	return fd >= 0 && get_mount(fd, &found) && found == mount;
}

/* Is what `path` names here, or the directory that it is in, on this mount? The latter is for what
 * has no name any more. */
static bool is_mounted_at(uint64_t mount, const char *path)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(path, '/');

	if (path[0] != '/' || strlen(path) >= sizeof dir)
		return false;
	if (is_at(mount, path))
		return true;
	memcpy(dir, path, (size_t)(slash - path));
	dir[slash - path] = '\0';
	return is_at(mount, slash == path ? "/" : dir);
}

static uint64_t known[64];
static unsigned n_known;

void resolve_forget_mounts(void)
{
	n_known = 0;
}

/*
 * A descriptor from outside has a path from outside, which may well look like one of ours; and what
 * it was opened for is no measure of what we could do with it. Mounts of ours never go away, so
 * what was found once stays true; but for layers that are replaced, whose number may become that of
 * a mount of the host's.
 */
static bool is_foreign(int fd, const char *path)
{
	uint64_t mount;

	if (!get_mount(fd, &mount))
		return true;
	for (unsigned i = 0; i < n_known && i < ARRAY_SIZE(known); i++) {
		if (known[i] == mount)
			return false;
	}
	if (!is_mounted_at(mount, path))
		return true;
	known[n_known++ % ARRAY_SIZE(known)] = mount;
	return false;
}

static int fill_path(struct target *ret)
{
	char dir[PATH_MAX];
	int fd = ret->object >= 0 ? ret->object : ret->parent;
	int r = resolve_fd_path(fd, dir, sizeof dir);

	if (r < 0)
		return r;
	ret->is_foreign = is_foreign(fd, dir);
	if (ret->object >= 0) {
		ret->name[0] = '\0';
		memcpy(ret->path, dir, strlen(dir) + 1);
	} else {
		snprintf(ret->path, sizeof ret->path, "%s/%s", streq(dir, "/") ? "" : dir,
			 ret->name);
	}
	return 0;
}

/* One step from `start`: where the path's directory is, and what its last name is. */
static int resolve_once(pid_t tid, int start, const char *path, bool follow, uint64_t openat2_flags,
			struct target *ret)
{
	int again, r = look_up(start, path, openat2_flags, ret);

	if (r == 0)
		r = fill_path(ret);
	/* What a caller confined on purpose stays as the kernel says it. */
	if (openat2_flags || (r < 0 && r != -ELOOP && r != -ENOENT))
		return r;
	if (r == 0 && !path_is_within(ret->path, "/proc"))
		return 0;

	target_done(ret);
	again = fcntl(start, F_DUPFD_CLOEXEC, 0);
	if (again < 0)
		return -errno;
	r = walk(tid, again, path, follow, ret);
	return r < 0 ? r : fill_path(ret);
}

int resolve_path(pid_t tid, int dir_fd, const char *path, bool follow, uint64_t openat2_flags,
		 struct target *ret)
{
	cleanup_fd int start = -1;
	char link[PATH_MAX];
	ssize_t got;
	int r;

	if (path[0] == '\0')
		return -ENOENT;
	start = resolve_start(tid, dir_fd, path, openat2_flags);
	if (start < 0)
		return start;
	r = resolve_once(tid, start, path, follow, openat2_flags, ret);
	for (int links = 0; r == 0 && follow && ret->object < 0; links++) {
		if (links == LINKS_MAX)
			return -ELOOP;
		got = readlinkat(ret->parent, ret->name, link, sizeof link - 1);
		if (got < 0)
			return 0; /* not there, or not a link */
		if (openat2_flags)
			return -ELOOP; /* a confined walk ends at a link rather than guess */
		link[got] = '\0';
		close(start);
		start = link[0] == '/' ? open("/", O_PATH | O_CLOEXEC) : take_fd(&ret->parent);
		target_done(ret);
		if (start < 0)
			return -errno;
		r = resolve_once(tid, start, link, follow, 0, ret);
	}
	return r;
}

int resolve_fd(pid_t tid, int fd, struct target *ret)
{
	ret->object = resolve_caller_fd(tid, fd);
	if (ret->object < 0)
		return ret->object;
	return fill_path(ret);
}

int target_open_path(const struct target *target)
{
	int fd;

	if (target->object >= 0)
		fd = fcntl(target->object, F_DUPFD_CLOEXEC, 0);
	else
		fd = openat(target->parent, target->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
