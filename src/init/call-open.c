/* SPDX-License-Identifier: Apache-2.0 */
#include "init/call-open.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uapi.h"
#include "spec/spec.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/syscall.h>

/*
 * Opening for writing: the caller gets the descriptor that the guard has opened
 *
 * open() and openat() of what is not the guard's are continued: their flags are in registers, and
 * for every path that the caller may put in the place of this one Landlock refuses to write
 * (WRITE_FILE) and to make a file (MAKE_REG) in a guarded place. Landlock has no such right for a
 * truncation without access to write (LANDLOCK_ACCESS_FS_TRUNCATE is not used, see ns/landlock.c),
 * so that one is never continued: check_elsewhere(). openat2() has its flags in memory and is never
 * continued either: call-openat2.c.
 */

/*
 * An open that may wait (for the other end of a fifo, for a lease to be given back) is done by a
 * child, because the guard must not wait. It opens the object that was asked about, since the name
 * may be another's by then. A fifo's writer is tried again and again, so that the child notices
 * when nobody wants the answer any more.
 */
static int open_later(struct call *call, int object, int flags, bool cloexec)
{
	bool is_writer = (flags & O_ACCMODE) == O_WRONLY;
	char path[64];
	int r;

	if (object < 0)
		return object;
	r = call_hand_over(call);
	if (r <= 0)
		return r;
	snprintf(path, sizeof path, "/proc/self/fd/%d", object);
	flags &= ~(O_CREAT | O_EXCL | O_NOFOLLOW);
	while (answer_is_wanted(call)) {
		int fd = open(path, flags | O_CLOEXEC | (is_writer ? O_NONBLOCK : 0));

		if (fd >= 0) {
			fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
			answer_fd(call, fd, cloexec);
			break;
		}
		if (!is_writer || (errno != ENXIO && errno != EAGAIN)) {
			answer(call, -errno);
			break;
		}
		usleep(5000);
	}
	_exit(0);
}

static int open_path(int dir_fd, const char *name, int flags)
{
	int fd = openat(dir_fd, name, O_PATH | O_CLOEXEC | (flags & O_NOFOLLOW));

	return fd < 0 ? -errno : fd;
}

/* The open itself, without ever waiting. `st` is NULL for what is to be made. */
static int open_now(struct call *call, int dir_fd, const char *name, const struct stat *st,
		    int flags, mode_t mode, bool cloexec)
{
	cleanup_fd int object = -1, fd = -1;
	int r;

	flags |= O_NOCTTY;
	if (st && S_ISFIFO(st->st_mode) && !(flags & O_NONBLOCK) && (flags & O_ACCMODE) != O_RDWR) {
		object = open_path(dir_fd, name, flags);
		return open_later(call, object, flags, cloexec);
	}
	fd = openat(dir_fd, name, flags | O_NONBLOCK | O_CLOEXEC | (st ? 0 : O_EXCL), mode);
	if (fd < 0 && errno == EAGAIN && !(flags & O_NONBLOCK)) {
		object = open_path(dir_fd, name, flags);
		return open_later(call, object, flags, cloexec);
	}
	if (fd < 0)
		return -errno;
	r = guard_confirm(call);
	if (r < 0) {
		if (!st)
			unlinkat(dir_fd, name, 0);
		return r;
	}
	if (!(flags & O_NONBLOCK))
		fcntl(fd, F_SETFL, flags);
	answer_fd(call, fd, cloexec);
	return 0;
}

static int open_commondir(struct call *call, const struct target *target, mode_t mode, bool cloexec)
{
	cleanup_fd int fd = -1;
	struct stat st;
	int r;

	/* An index that is there was read as that of another repository. */
	if (fstatat(target->parent, "index", &st, AT_SYMLINK_NOFOLLOW) == 0)
		return guard_refuse(call, EPERM, "git commondir");
	fd = openat(target->parent, target->name,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, "../..\n", 6);
	if (r == 0)
		answer_fd(call, call->guard->null_fd, cloexec);
	return r;
}

/* An object without a name: what /proc/self/fd/N leads to, or a directory for O_TMPFILE. */
static int open_object(struct call *call, const struct target *target, int flags, mode_t mode,
		       bool cloexec)
{
	struct sense_before before = {0};
	char path[64];
	struct stat st;
	int r;

	if (fstat(target->object, &st) < 0)
		return -errno;
	/* A directory takes an unnamed file in; everything else is written. */
	r = call_permit_content(call, target, S_ISDIR(st.st_mode));
	if (r == 0)
		r = call_take_umask(call);
	if (r < 0)
		return r;
	snprintf(path, sizeof path, "/proc/self/fd/%d", target->object);
	/* A file without a name changes nothing yet. */
	if (!S_ISDIR(st.st_mode))
		sense_look_before(call, target, &before);
	r = open_now(call, AT_FDCWD, path, &st, (flags & ~(O_CREAT | O_EXCL)) | (flags & O_TMPFILE),
		     mode, cloexec);
	if (r == 0)
		sense_changed(call, target, NULL, &before);
	return r;
}

static int open_named(struct call *call, const struct target *target, int flags, mode_t mode,
		      bool cloexec)
{
	enum git_verdict verdict;
	struct sense_before before;
	struct stat st;
	bool exists = fstatat(target->parent, target->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	int r;

	if (!exists && !(flags & O_CREAT))
		return -ENOENT;
	if (exists && (flags & O_CREAT) && (flags & O_EXCL))
		return -EEXIST;
	if (target->wants_dir && !(exists && S_ISDIR(st.st_mode)))
		return exists ? -ENOTDIR : -EISDIR;
	call->action = exists ? "write" : "create";
	r = guard_permit(call, target, exists ? NAMES_WRITE : NAMES_CREATE, false, &verdict);
	if (r == 0 && !exists)
		r = call_count_one(call, target);
	if (r == 0 && !exists)
		r = call_take_umask(call);
	if (r < 0)
		return r;
	if (verdict == GIT_COMMONDIR)
		return open_commondir(call, target, mode, cloexec);
	if (verdict == GIT_VET_POINTER && (flags & O_ACCMODE) != O_RDONLY &&
	    !(exists && S_ISDIR(st.st_mode))) {
		r = guard_open_pointer(call, target, exists, mode, cloexec);
		if (r == 0 && !exists)
			guard_made(call, target, NAMES_CREATE);
		return r;
	}
	if (verdict != GIT_ALLOW && verdict != GIT_VET_POINTER) {
		call->rule = "git config";
		return -EPERM;
	}
	sense_look_before(call, target, &before);
	r = open_now(call, target->parent, target->name, exists ? &st : NULL, flags | O_NOFOLLOW,
		     mode, cloexec);
	if (r == 0 && !exists)
		guard_made(call, target, NAMES_CREATE);
	if (r == 0)
		sense_changed(call, target, NULL, &before);
	return r;
}

bool open_is_to_read(uint64_t flags)
{
	return !(flags & (O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY)));
}

/*
 * Without a pid namespace /proc is the host's: of processes only those of the sandbox, which are
 * the ones that we may signal, and neither we nor the warden; of these nothing about the network.
 */
static bool is_own_proc(const char *path)
{
	const char *name = path + strlen("/proc");
	pid_t pid;

	if (name[0] != '/' || name[1] < '1' || name[1] > '9')
		return true;
	pid = (pid_t)strtol(name + 1, NULL, 10);
	if (pid == getpid() || pid == getppid() || kill(pid, 0) < 0)
		return false;
	for (const char *at = name; (at = strstr(at, "/net")); at++) {
		if (at[4] == '/' || at[4] == '\0')
			return false;
	}
	return true;
}

/* May this be read, where Landlock leaves it to us? */
static int permit_reading(struct call *call, const struct target *target,
			  const struct init_zone *zone)
{
	const struct spec_rule *rule = spec_rule_inside(call->guard->config->spec, target->path);

	memcpy(call->path, target->path, strlen(target->path) + 1);
	if (streq(zone->path, "/")) /* what no line speaks of; that "/" exists is no secret */
		return streq(target->path, "/") ? 0 : -EACCES;
	if (path_is_within(target->path, "/proc"))
		return zone->is_hidden || !is_own_proc(target->path) ? -EACCES : 0;
	if (zone->is_hidden || (rule && rule->access == SPEC_HIDE))
		return guard_refuse(call, EACCES, "hide");
	return 0;
}

int open_again(struct call *call, int object, uint64_t flags)
{
	char link[64];
	struct stat st;

	if (fstat(object, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	if ((flags & O_DIRECTORY) && !S_ISDIR(st.st_mode))
		return -ENOTDIR;
	snprintf(link, sizeof link, "/proc/self/fd/%d", object);
	return open_now(call, AT_FDCWD, link, &st, (int)flags & OPEN_FLAGS, 0, flags & O_CLOEXEC);
}

/* Where something is hidden in the midst of what is shown, and no mount can be put over it. */
int open_to_read(struct call *call, int dir_fd, const char *path, uint64_t flags, uint64_t resolve)
{
	cleanup_target struct target target = TARGET_INIT;
	cleanup_fd int object = -1;
	const struct init_zone *zone;
	int r = resolve_path(call->tid, dir_fd, path, !(flags & O_NOFOLLOW), resolve, &target);

	call->action = "read";
	if (r < 0)
		return r;
	zone = guard_zone(call->guard, target.path);
	if (target.is_foreign || !zone || !(zone->guards_reading || call->nr == SYS_openat2)) {
		if (call->nr == SYS_openat2)
			return -ENOSYS;
		answer_continue(call); /* Landlock decides; the flags are in a register */
		return 0;
	}
	r = permit_reading(call, &target, zone);
	if (r < 0 && !call->rule && tell_is_on(&call->guard->tell))
		sense_use(call, SENSE_READ, "read", target.path);
	if (r < 0)
		return r;
	object = target_open_path(&target);
	if (object < 0)
		return object;
	if (target.wants_dir)
		flags |= O_DIRECTORY;
	return open_again(call, object, flags);
}

/* Telling of changes is a kind of reading that Landlock does not know. */
int call_watch(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	cleanup_fd int inotify = -1, object = -1;
	const __u64 *a = call->args;
	const struct init_zone *zone;
	char link[64];
	int r = call_resolve(call, 1, false, a[2] & IN_DONT_FOLLOW ? 0 : AT_SYMLINK_FOLLOW,
			     &target);

	call->action = "watch";
	if (r < 0)
		return r;
	zone = guard_zone(call->guard, target.path);
	if (target.is_foreign || !zone)
		return -EACCES;
	r = permit_reading(call, &target, zone);
	if (r < 0)
		return r;
	object = target_open_path(&target);
	if (object < 0)
		return object;
	inotify = call_get_fd(call, (int)a[0]);
	if (inotify < 0)
		return inotify;
	snprintf(link, sizeof link, "/proc/self/fd/%d", object);
	r = inotify_add_watch(inotify, link, (uint32_t)a[2] & ~(uint32_t)IN_DONT_FOLLOW);
	if (r < 0)
		return -errno;
	answer(call, r);
	return 0;
}

/* A file or directory of a disk or of memory? Devices and /proc look at who opens them. */
static bool is_plain(const struct target *target)
{
	int fd = target->object >= 0 ? target->object : target->parent;
	struct stat st;

	if (resolve_is_proc(fd))
		return false;
	if (target->object >= 0 ? fstat(fd, &st) < 0
				: fstatat(fd, target->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return true; /* to be made, or it fails */
	return !S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode);
}

/*
 * Not the guard's, and not to be continued: done by the guard all the same, where the contract lets
 * the caller write and the object does not depend on who opens it. Every mount of the host's there
 * is read-only; what is left is the sandbox's own.
 */
static int check_elsewhere(struct call *call, const struct target *target)
{
	const struct init_zone *zone = guard_zone(call->guard, target->path);

	if (target->is_foreign || !zone || !is_plain(target))
		return call->nr == SYS_openat2 ? -ENOSYS : -EACCES;
	if (call->nr == SYS_openat2 && call->guard->has_inner_rules)
		return -ENOSYS; /* by openat() the caller's own Landlock rules count */
	/* Without mounts only the private places are left. */
	return zone->is_writable && !call_is_out_of_reach(call, target) ? 0 : -EROFS;
}

static int open_resolved(struct call *call, struct target *target, uint64_t flags, mode_t mode)
{
	if (target->object < 0 && (flags & O_TMPFILE) == O_TMPFILE) {
		/* The directory itself, not a name in it. */
		target->object =
			openat(target->parent, target->name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (target->object < 0)
			return -errno;
	}
	mode &= 01777; /* the filter has refused set-id bits already where it sees them */
	if (target->object >= 0)
		return open_object(call, target, (int)flags & OPEN_FLAGS, mode, flags & O_CLOEXEC);
	return open_named(call, target, (int)flags & OPEN_FLAGS, mode, flags & O_CLOEXEC);
}

int open_to_change(struct call *call, int dir_fd, const char *path, uint64_t flags, mode_t mode,
		   uint64_t resolve)
{
	cleanup_target struct target target = TARGET_INIT;
	bool is_temporary = (flags & O_TMPFILE) == O_TMPFILE;
	int r;

	call->action = flags & O_CREAT ? "create" : "write";
	r = resolve_path(call->tid, dir_fd, path,
			 !(flags & O_NOFOLLOW) &&
				 !((flags & O_CREAT) && (flags & O_EXCL) && !is_temporary),
			 resolve, &target);
	if (r < 0)
		return r;
	if (!call_is_ours(call, &target)) {
		call_see(call, &target);
		if (call->nr != SYS_openat2 &&
		    !((flags & O_TRUNC) && (flags & O_ACCMODE) == O_RDONLY)) {
			answer_continue(call);
			return 0;
		}
		r = check_elsewhere(call, &target);
		if (r < 0)
			return r;
	}
	return open_resolved(call, &target, flags, mode);
}

static int do_open(struct call *call, int dir_fd, const char *path, uint64_t flags, mode_t mode)
{
	/* With mounts of its own, what is there may be read. */
	if (flags & O_PATH || (open_is_to_read(flags) && !call->guard->config->is_bare)) {
		if (!(flags & O_PATH))
			sense_open_to_read(call, dir_fd, path);
		answer_continue(call);
		return 0;
	}
	if (open_is_to_read(flags))
		return open_to_read(call, dir_fd, path, flags, 0);
	return open_to_change(call, dir_fd, path, flags, mode, 0);
}

int call_open(struct call *call)
{
	const __u64 *a = call->args;
	char path[PATH_MAX];
	int r, at = call->nr == SYS_openat;

	r = call_read_path(call, at, path);
	/* A program that keeps everybody out of its memory still reads what Landlock lets it. */
	if (r == -ESRCH && call->guard->config->is_bare && open_is_to_read((uint32_t)a[at + 1])) {
		answer_continue(call);
		return 0;
	}
	if (r < 0)
		return r;
#ifdef SYS_creat
	if (call->nr == SYS_creat)
		return do_open(call, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, (mode_t)a[1]);
#endif
	return do_open(call, at ? (int)a[0] : AT_FDCWD, path, (uint32_t)a[at + 1],
		       (mode_t)a[at + 2]);
}
