/* SPDX-License-Identifier: Apache-2.0 */
#include "init/call.h"

#include "base/fd.h"
#include "base/uapi.h"

#include <errno.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>

/* Opening for writing: the caller gets the descriptor that the guard has opened. */

#define OPEN_FLAGS                                                                                 \
	(O_ACCMODE | O_APPEND | O_CREAT | O_DIRECTORY | O_EXCL | O_NOATIME | O_NONBLOCK | O_SYNC | \
	 O_DSYNC | O_TRUNC | O_TMPFILE | O_DIRECT | O_LARGEFILE)

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
	cleanup_fd int fd = openat(target->parent, target->name,
				   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	int r;

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
	char path[64];
	struct stat st;
	int r;

	/* A directory takes an unnamed file in; everything else is written. */
	r = call_permit_plain(call, target, NAMES_WRITE, false);
	if (r == 0)
		r = call_take_umask(call);
	if (r < 0)
		return r;
	if (fstat(target->object, &st) < 0)
		return -errno;
	snprintf(path, sizeof path, "/proc/self/fd/%d", target->object);
	return open_now(call, AT_FDCWD, path, &st,
			(flags & ~(O_CREAT | O_EXCL)) | (flags & O_TMPFILE), mode, cloexec);
}

static int open_named(struct call *call, const struct target *target, int flags, mode_t mode,
		      bool cloexec)
{
	enum git_verdict verdict;
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
	if (verdict != GIT_ALLOW) {
		call->rule = "git config";
		return -EPERM;
	}
	r = open_now(call, target->parent, target->name, exists ? &st : NULL, flags | O_NOFOLLOW,
		     mode, cloexec);
	if (r == 0 && !exists)
		guard_made(call, target, NAMES_CREATE);
	return r;
}

static int do_open(struct call *call, int dir_fd, const char *path, uint64_t flags, mode_t mode,
		   uint64_t resolve)
{
	cleanup_target struct target target = TARGET_INIT;
	bool is_temporary = (flags & O_TMPFILE) == O_TMPFILE;
	int r;

	call->action = flags & O_CREAT ? "create" : "write";
	if (flags & O_PATH) {
		answer_continue(call);
		return 0;
	}
	r = resolve_path(call->tid, dir_fd, path,
			 !(flags & O_NOFOLLOW) &&
				 !((flags & O_CREAT) && (flags & O_EXCL) && !is_temporary),
			 resolve, &target);
	if (r < 0)
		return r;
	if (!call_is_ours(call, &target)) {
		/* Nobody means this, and before ABI 3 Landlock would let it through. */
		if ((flags & O_TRUNC) && (flags & O_ACCMODE) == O_RDONLY)
			return -EACCES;
		answer_continue(call);
		return 0;
	}
	if (target.object < 0 && is_temporary) {
		/* The directory itself, not a name in it. */
		target.object =
			openat(target.parent, target.name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (target.object < 0)
			return -errno;
	}
	mode &= 01777; /* the filter has refused set-id bits already where it sees them */
	if (target.object >= 0)
		return open_object(call, &target, (int)flags & OPEN_FLAGS, mode, flags & O_CLOEXEC);
	return open_named(call, &target, (int)flags & OPEN_FLAGS, mode, flags & O_CLOEXEC);
}

int call_open(struct call *call)
{
	const __u64 *a = call->args;
	char path[PATH_MAX];
	struct open_how how = {0};
	int r, at = 0;

#ifdef SYS_open
	at = call->nr == SYS_open || call->nr == SYS_creat ? 0 : 1;
#else
	at = 1;
#endif
	r = call_read_path(call, at, path);
	if (r < 0)
		return r;
#ifdef SYS_creat
	if (call->nr == SYS_creat)
		return do_open(call, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, (mode_t)a[1], 0);
#endif
	if (call->nr == SYS_openat2) {
		if (a[3] < sizeof how)
			return -EINVAL;
		r = resolve_read_memory(call->tid, a[2], &how, sizeof how);
		if (r < 0)
			return r;
		if (!(how.flags & (O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY)))) {
			answer_continue(call);
			return 0;
		}
		if (how.mode & 06000)
			return -EPERM;
		return do_open(call, (int)a[0], path, how.flags, (mode_t)how.mode, how.resolve);
	}
	return do_open(call, at ? (int)a[0] : AT_FDCWD, path, (uint32_t)a[at + 1],
		       (mode_t)a[at + 2], 0);
}
