/* SPDX-License-Identifier: Apache-2.0 */
#include "init/guard.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uapi.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <linux/limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/xattr.h>

/*
 * One call at a time
 *
 * Each handler below stands for a few system calls that differ in their arguments' order. It
 *returns a negative errno for the caller, or 0 when it has answered itself (or when the answer is
 *0).
 *
 *	read the arguments  →  resolve  →  guard_permit()  →  act  →  answer
 *
 * Where the object lies outside every guarded place the kernel is told to go on by itself
 * (answer_continue). Three kinds of call never go that way, because Landlock has no right for them
 *and a changed argument would count: truncating, changing a mode or an
 * attribute, and connecting.
 */

#define OPEN_FLAGS                                                                                 \
	(O_ACCMODE | O_APPEND | O_CREAT | O_DIRECTORY | O_EXCL | O_NOATIME | O_NONBLOCK | O_SYNC | \
	 O_DSYNC | O_TRUNC | O_TMPFILE | O_DIRECT | O_LARGEFILE)

#define CONNECT_WAIT_US 2000

int guard_init(struct guard *guard, const struct init_config *config, int listener_fd)
{
	struct stat st;

	guard->config = config;
	guard->listener_fd = listener_fd;
	guard->umask = 0;
	umask(0);
	guard->null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	/* The root of the sandbox is on its private storage. */
	if (guard->null_fd < 0 || stat("/", &st) < 0)
		return -errno;
	guard->private_dev = st.st_dev;
	for (size_t i = 0; i < config->spec->n_sockets; i++)
		guard_set_add(&guard->granted_sockets, AT_FDCWD, config->spec->sockets[i].text);
	/* 6.6: hand the CPU over with the answer. Older kernels wake up the slower way. */
	ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	return 0;
}

static bool is_ours(struct call *call, const struct target *target)
{
	const struct init_zone *zone = guard_zone(call->guard, target->path);

	return zone && zone->kind != INIT_ZONE_FREE && !target->is_foreign;
}

/* For what is not left to the kernel when it is not ours. A memfd is the caller's own. */
static bool is_out_of_reach(const struct target *target)
{
	return target->is_foreign && target->path[0] == '/' &&
	       !starts_with(target->path, "/memfd:");
}

/* The caller's umask becomes ours for what is created next. */
static int take_umask(struct call *call)
{
	int r = resolve_read_status(call->tid, &call->umask, &call->tgid);

	if (r < 0)
		return r;
	if (call->umask != call->guard->umask)
		umask(call->umask);
	call->guard->umask = call->umask;
	return 0;
}

static int read_path(struct call *call, int arg, char path[PATH_MAX])
{
	return resolve_read_string(call->tid, call->args[arg], path, PATH_MAX);
}

static int count_one(struct call *call, const struct target *target)
{
	struct guard *guard = call->guard;
	const struct init_zone *zone = guard_zone(guard, target->path);

	if (zone && zone->kind == INIT_ZONE_GUARDED &&
	    guard->n_created >= guard->config->limits.files) {
		call->rule = "limits.files";
		memcpy(call->path, target->path, strlen(target->path) + 1);
		return -ENOSPC;
	}
	return 0;
}

/* Ask, and refuse what needs special care where nothing special can be done. */
static int permit_plain(struct call *call, const struct target *target, enum names_action action,
			bool is_dir)
{
	enum git_verdict verdict;
	int r = guard_permit(call, target, action, is_dir, &verdict);

	if (r == 0 && verdict != GIT_ALLOW) {
		call->rule = "git config";
		return -EPERM;
	}
	return r;
}

/* Something was made. */
static int keep_or_undo(struct call *call, const struct target *target, enum names_action action)
{
	int r = guard_confirm(call);

	if (r == 0)
		guard_made(call, target, action);
	else
		unlinkat(target->parent, target->name, action == NAMES_MKDIR ? AT_REMOVEDIR : 0);
	return r;
}

/* ---- open ---- */

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
	pid_t pid;

	if (object < 0)
		return object;
	if (call->guard->n_helpers == GUARD_HELPERS_MAX)
		return -EAGAIN;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0) {
		call->guard->n_helpers++;
		call->is_answered = true;
		return 0;
	}
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
	r = permit_plain(call, target, NAMES_WRITE, false);
	if (r == 0)
		r = take_umask(call);
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
		r = count_one(call, target);
	if (r == 0 && !exists)
		r = take_umask(call);
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
	if (!is_ours(call, &target)) {
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

static int handle_open(struct call *call)
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
	r = read_path(call, at, path);
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

/* ---- names that come and go ---- */

static int handle_mkdir(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	int r, at = call->nr == SYS_mkdirat;
	char path[PATH_MAX];

	call->action = "create";
	r = read_path(call, at, path);
	if (r == 0)
		r = resolve_path(call->tid, at ? (int)call->args[0] : AT_FDCWD, path, false, 0,
				 &target);
	if (r < 0)
		return r;
	if (!is_ours(call, &target)) {
		answer_continue(call);
		return 0;
	}
	if (target.object >= 0 ||
	    faccessat(target.parent, target.name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	r = permit_plain(call, &target, NAMES_MKDIR, false);
	if (r == 0)
		r = count_one(call, &target);
	if (r == 0)
		r = take_umask(call);
	if (r < 0)
		return r;
	if (mkdirat(target.parent, target.name, (mode_t)call->args[at + 1]) < 0)
		return -errno;
	return keep_or_undo(call, &target, NAMES_MKDIR);
}

static int handle_mknod(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	int r, at = call->nr == SYS_mknodat;
	mode_t mode = (mode_t)call->args[at + 1];
	char path[PATH_MAX];

	call->action = "create";
	r = read_path(call, at, path);
	if (r == 0)
		r = resolve_path(call->tid, at ? (int)call->args[0] : AT_FDCWD, path, false, 0,
				 &target);
	if (r < 0)
		return r;
	if (!is_ours(call, &target)) {
		answer_continue(call);
		return 0;
	}
	if (target.object >= 0)
		return -EEXIST;
	r = permit_plain(call, &target, NAMES_CREATE, false);
	if (r == 0)
		r = count_one(call, &target);
	if (r == 0)
		r = take_umask(call);
	if (r < 0)
		return r;
	if (mknodat(target.parent, target.name, mode, 0) < 0)
		return -errno;
	return keep_or_undo(call, &target, NAMES_CREATE);
}

static int handle_symlink(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	int r, at = call->nr == SYS_symlinkat;
	char text[PATH_MAX], path[PATH_MAX];

	call->action = "create";
	r = read_path(call, 0, text);
	if (r == 0)
		r = read_path(call, at + 1, path);
	if (r == 0)
		r = resolve_path(call->tid, at ? (int)call->args[1] : AT_FDCWD, path, false, 0,
				 &target);
	if (r < 0)
		return r;
	if (!is_ours(call, &target)) {
		answer_continue(call);
		return 0;
	}
	if (target.object >= 0)
		return -EEXIST;
	r = permit_plain(call, &target, NAMES_SYMLINK, false);
	if (r == 0)
		r = count_one(call, &target);
	if (r < 0)
		return r;
	if (symlinkat(text, target.parent, target.name) < 0)
		return -errno;
	return keep_or_undo(call, &target, NAMES_SYMLINK);
}

static int handle_unlink(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	int r, at = call->nr == SYS_unlinkat;
	int flags = at ? (int)call->args[2] : 0;
	char path[PATH_MAX];

#ifdef SYS_rmdir
	if (call->nr == SYS_rmdir)
		flags = AT_REMOVEDIR;
#endif
	call->action = "remove";
	r = read_path(call, at, path);
	if (r == 0)
		r = resolve_path(call->tid, at ? (int)call->args[0] : AT_FDCWD, path, false, 0,
				 &target);
	if (r < 0)
		return r;
	if (!is_ours(call, &target)) {
		answer_continue(call);
		return 0;
	}
	if (target.object >= 0)
		return flags & AT_REMOVEDIR ? -EINVAL : -EISDIR;
	if (target.wants_dir && !(flags & AT_REMOVEDIR))
		return -ENOTDIR;
	if (faccessat(target.parent, target.name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	/* An empty directory takes nothing away with it. */
	r = permit_plain(call, &target, NAMES_REMOVE, false);
	if (r < 0)
		return r;
	guard_forget(call->guard, target.parent, target.name);
	return unlinkat(target.parent, target.name, flags) < 0 ? -errno : 0;
}

/* How a thing of this type arrives at a new name. */
static enum names_action arrival(const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return NAMES_RENAME_DIR_TO;
	return S_ISLNK(st->st_mode) ? NAMES_SYMLINK : NAMES_RENAME_TO;
}

/* Something of type `st` leaves `from` and arrives at `to`. */
static int permit_move(struct call *call, const struct target *from, const struct target *to,
		       const struct stat *st, enum git_verdict *ret_verdict)
{
	int r = permit_plain(call, from, NAMES_REMOVE, S_ISDIR(st->st_mode));

	call->moves_from = from->path;
	return r < 0 ? r : guard_permit(call, to, arrival(st), S_ISDIR(st->st_mode), ret_verdict);
}

static int do_rename(struct call *call, const struct target *from, const struct target *to,
		     unsigned flags)
{
	enum git_verdict verdict, back = GIT_ALLOW;
	struct stat st, over;
	bool replaces;
	int r;

	if (from->object >= 0 || to->object >= 0)
		return -EBUSY;
	if (fstatat(from->parent, from->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	replaces = fstatat(to->parent, to->name, &over, AT_SYMLINK_NOFOLLOW) == 0;
	if (replaces && (flags & RENAME_NOREPLACE))
		return -EEXIST;
	r = permit_move(call, from, to, &st, &verdict);
	if (r == 0 && (flags & RENAME_EXCHANGE) && replaces)
		r = permit_move(call, to, from, &over, &back);
	if (r < 0)
		return r;
	if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE) || back != GIT_ALLOW)
		return -EINVAL;
	if (verdict != GIT_ALLOW) {
		if (flags || verdict == GIT_COMMONDIR)
			return -EINVAL;
		if (verdict == GIT_VET_INDEX)
			return guard_install_index(call, from, to);
		return guard_install_config(call, from, to, verdict == GIT_VET_SUBMODULE_CONFIG);
	}
	if (replaces && !(flags & RENAME_EXCHANGE))
		guard_forget(call->guard, to->parent, to->name);
	if (renameat2(from->parent, from->name, to->parent, to->name, flags) < 0)
		return -errno;
	r = guard_confirm(call);
	if (r == 0)
		guard_made(call, to, arrival(&st));
	else
		renameat2(to->parent, to->name, from->parent, from->name,
			  flags & RENAME_EXCHANGE ? RENAME_EXCHANGE : RENAME_NOREPLACE);
	return r;
}

static int handle_rename(struct call *call)
{
	cleanup_target struct target from = TARGET_INIT, to = TARGET_INIT;
	const __u64 *a = call->args;
	bool at = true;
	char path[PATH_MAX];
	int r;

#ifdef SYS_rename
	at = call->nr != SYS_rename;
#endif
	call->action = "rename";
	r = read_path(call, at ? 1 : 0, path);
	if (r == 0)
		r = resolve_path(call->tid, at ? (int)a[0] : AT_FDCWD, path, false, 0, &from);
	if (r == 0)
		r = read_path(call, at ? 3 : 1, path);
	if (r == 0)
		r = resolve_path(call->tid, at ? (int)a[2] : AT_FDCWD, path, false, 0, &to);
	if (r < 0)
		return r;
	if (!is_ours(call, &from) && !is_ours(call, &to)) {
		answer_continue(call);
		return 0;
	}
	if (!is_ours(call, &from) || !is_ours(call, &to))
		return -EXDEV;
	return do_rename(call, &from, &to, call->nr == SYS_renameat2 ? (unsigned)a[4] : 0);
}

static int do_link(struct call *call, const struct target *from, const struct target *to)
{
	cleanup_fd int object = target_open_path(from);
	char path[64];
	struct stat st;
	int r;

	if (object < 0)
		return object;
	if (to->object >= 0)
		return -EEXIST;
	if (fstat(object, &st) < 0)
		return -errno;
	r = permit_plain(call, from, NAMES_WRITE, false);
	if (r == 0)
		r = permit_plain(call, to, arrival(&st), false);
	if (r == 0)
		r = count_one(call, to);
	if (r < 0)
		return r;
	/* A link's own /proc entry cannot be followed to the link itself. */
	if (S_ISLNK(st.st_mode)) {
		if (from->object >= 0)
			return -EPERM;
		r = linkat(from->parent, from->name, to->parent, to->name, 0);
	} else {
		snprintf(path, sizeof path, "/proc/self/fd/%d", object);
		r = linkat(AT_FDCWD, path, to->parent, to->name, AT_SYMLINK_FOLLOW);
	}
	if (r < 0)
		return -errno;
	return keep_or_undo(call, to, arrival(&st));
}

static int handle_link(struct call *call)
{
	cleanup_target struct target from = TARGET_INIT, to = TARGET_INIT;
	const __u64 *a = call->args;
	bool at = call->nr == SYS_linkat;
	int r, flags = at ? (int)a[4] : 0;
	char path[PATH_MAX];

	call->action = "link";
	r = read_path(call, at ? 1 : 0, path);
	if (r == 0 && path[0] == '\0' && (flags & AT_EMPTY_PATH))
		r = resolve_fd(call->tid, (int)a[0], &from);
	else if (r == 0)
		r = resolve_path(call->tid, at ? (int)a[0] : AT_FDCWD, path,
				 flags & AT_SYMLINK_FOLLOW, 0, &from);
	if (r == 0)
		r = read_path(call, at ? 3 : 1, path);
	if (r == 0)
		r = resolve_path(call->tid, at ? (int)a[2] : AT_FDCWD, path, false, 0, &to);
	if (r < 0)
		return r;
	if (!is_ours(call, &from) && !is_ours(call, &to)) {
		answer_continue(call);
		return 0;
	}
	if (!is_ours(call, &from) || !is_ours(call, &to))
		return -EXDEV;
	return do_link(call, &from, &to);
}

/* ---- what exists ---- */

/* Through a descriptor, because truncate() itself waits for a lease to be given back; then a child
 * does. */
static int truncate_object(struct call *call, int object, off_t length)
{
	cleanup_fd int fd = -1;
	char path[64];
	struct stat st;
	pid_t pid;

	if (fstat(object, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	snprintf(path, sizeof path, "/proc/self/fd/%d", object);
	fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		return ftruncate(fd, length) < 0 ? -errno : 0;
	if (errno != EAGAIN || call->guard->n_helpers == GUARD_HELPERS_MAX)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		answer(call, truncate(path, length) < 0 ? -errno : 0);
		_exit(0);
	}
	call->guard->n_helpers++;
	call->is_answered = true;
	return 0;
}

static int handle_truncate(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	cleanup_fd int object = -1;
	char path[PATH_MAX];
	int r;

	call->action = "write";
	r = read_path(call, 0, path);
	if (r == 0)
		r = resolve_path(call->tid, AT_FDCWD, path, true, 0, &target);
	if (r < 0)
		return r;
	/* Made here wherever it is: before ABI 3 Landlock has no right for it. */
	if (is_out_of_reach(&target))
		return -EACCES;
	object = target_open_path(&target);
	if (object < 0)
		return object;
	r = permit_plain(call, &target, NAMES_WRITE, false);
	if (r < 0)
		return r;
	return truncate_object(call, object, (off_t)call->args[1]);
}

static int chmod_target(struct call *call, const struct target *target, mode_t mode)
{
	cleanup_fd int object = target_open_path(target);
	char path[64];
	struct stat st;
	int r;

	if (object < 0)
		return object;
	if (is_out_of_reach(target))
		return -EPERM;
	r = permit_plain(call, target, NAMES_CHMOD, false);
	if (r < 0)
		return r;
	if (fstat(object, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -EOPNOTSUPP;
	snprintf(path, sizeof path, "/proc/self/fd/%d", object);
	return chmod(path, mode) < 0 ? -errno : 0;
}

static int handle_chmod(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	const __u64 *a = call->args;
	char path[PATH_MAX];
	bool at = true;
	int r, flags;

#ifdef SYS_chmod
	at = call->nr != SYS_chmod;
#endif
	call->action = "chmod";
	if (call->nr == SYS_fchmod) {
		r = resolve_fd(call->tid, (int)a[0], &target);
		return r < 0 ? r : chmod_target(call, &target, (mode_t)a[1]);
	}
	flags = call->nr == SYS_fchmodat2 ? (int)a[3] : 0;
	r = read_path(call, at ? 1 : 0, path);
	if (r == 0 && path[0] == '\0' && (flags & AT_EMPTY_PATH))
		r = resolve_fd(call->tid, (int)a[0], &target);
	else if (r == 0)
		r = resolve_path(call->tid, at ? (int)a[0] : AT_FDCWD, path,
				 !(flags & AT_SYMLINK_NOFOLLOW), 0, &target);
	return r < 0 ? r : chmod_target(call, &target, (mode_t)a[at ? 2 : 1]);
}

/* Access lists and other attributes: what chmod must not do they must not do either. */
static int handle_xattr(struct call *call)
{
	static char value[XATTR_SIZE_MAX];
	cleanup_target struct target target = TARGET_INIT;
	cleanup_fd int object = -1;
	const __u64 *a = call->args;
	bool is_fd = call->nr == SYS_fsetxattr || call->nr == SYS_fremovexattr;
	bool is_set =
		call->nr == SYS_setxattr || call->nr == SYS_lsetxattr || call->nr == SYS_fsetxattr;
	bool follows = call->nr == SYS_setxattr || call->nr == SYS_removexattr;
	char path[PATH_MAX], name[XATTR_NAME_MAX + 1];
	struct stat st;
	int r;

	call->action = "set attribute";
	r = is_fd ? 0 : read_path(call, 0, path);
	if (r == 0)
		r = resolve_read_string(call->tid, a[1], name, sizeof name);
	if (r == 0 && is_set && a[3] > sizeof value)
		r = -E2BIG;
	if (r == 0 && is_set && a[3])
		r = resolve_read_memory(call->tid, a[2], value, a[3]);
	if (r == 0)
		r = is_fd ? resolve_fd(call->tid, (int)a[0], &target)
			  : resolve_path(call->tid, AT_FDCWD, path, follows, 0, &target);
	if (r < 0)
		return r;
	object = target_open_path(&target);
	if (object < 0)
		return object;
	if (is_out_of_reach(&target))
		return -EPERM;
	r = permit_plain(call, &target, starts_with(name, "system.") ? NAMES_CHMOD : NAMES_WRITE,
			 false);
	if (r < 0)
		return r;
	if (fstat(object, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -EPERM; /* what the kernel says for user attributes of a link */
	snprintf(path, sizeof path, "/proc/self/fd/%d", object);
	if (is_set)
		return setxattr(path, name, value, a[3], (int)a[4]) < 0 ? -errno : 0;
	return removexattr(path, name) < 0 ? -errno : 0;
}

/* ---- sockets ---- */

/* The caller's own socket, shared. A thread may have descriptors of its own, and outlive the one
 * that the process is named after; before 6.9 there is no asking a thread. */
static int get_socket(struct call *call, int fd)
{
	cleanup_fd int pidfd = (int)syscall(SYS_pidfd_open, call->tid, UAPI_PIDFD_THREAD);
	int ours;

	if (pidfd < 0 && errno == EINVAL) {
		if (call->tgid == 0 &&
		    resolve_read_status(call->tid, &call->umask, &call->tgid) < 0)
			return -ESRCH;
		pidfd = (int)syscall(SYS_pidfd_open, call->tgid, 0);
	}
	if (pidfd < 0)
		return -ESRCH;
	ours = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	return ours < 0 ? -errno : ours;
}

static int read_address(struct call *call, struct sockaddr_storage *ret, socklen_t *ret_size)
{
	uint64_t size = (uint32_t)call->args[2];
	int r;

	memset(ret, 0, sizeof *ret);
	if (size > sizeof *ret)
		return -EINVAL;
	*ret_size = (socklen_t)size;
	r = size ? resolve_read_memory(call->tid, call->args[1], ret, size) : 0;
	/* What is longer the kernel refuses as well; and address_path() needs a zero behind it. */
	if (r == 0 && ret->ss_family == AF_UNIX && size > sizeof(struct sockaddr_un))
		return -EINVAL;
	return r;
}

/* The path of a unix address, or NULL if it is none or abstract. NUL-terminated by the zeroes that
 * follow in the storage. */
static const char *address_path(const struct sockaddr_storage *address, socklen_t size)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)address;

	if (address->ss_family != AF_UNIX || size <= offsetof(struct sockaddr_un, sun_path) ||
	    un->sun_path[0] == '\0')
		return NULL;
	return un->sun_path;
}

/*
 * By its whole path if that fits, because the socket keeps the text as its name, and servers tell
 * it to their clients. Only another run in the same directory could lead the path elsewhere
 * meanwhile; that is noticed, and undone.
 */
static int bind_at(struct call *call, const struct target *target)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	bool is_whole = strlen(target->path) < sizeof un.sun_path;
	cleanup_fd int fd = -1;
	struct stat st;
	int r;

	if (!is_whole && strlen(target->name) >= sizeof un.sun_path)
		return -ENAMETOOLONG;
	strcpy(un.sun_path, is_whole ? target->path : target->name);
	fd = get_socket(call, (int)call->args[0]);
	if (fd < 0)
		return fd;
	r = take_umask(call);
	if (r < 0)
		return r;
	if (!is_whole && fchdir(target->parent) < 0)
		return -errno;
	r = bind(fd, (struct sockaddr *)&un, sizeof un) < 0 ? -errno : 0;
	if (r == 0 && fstatat(target->parent, target->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		unlink(un.sun_path);
		r = -EACCES;
	}
	if (r == 0) {
		guard_set_add(&call->guard->own_sockets, target->parent, target->name);
		r = keep_or_undo(call, target, NAMES_CREATE);
	}
	return chdir("/") < 0 ? -errno : r;
}

static int handle_bind(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	struct sockaddr_storage address;
	socklen_t size;
	const char *path;
	int r = read_address(call, &address, &size);

	call->action = "bind";
	if (r < 0)
		return r;
	path = address_path(&address, size);
	if (!path) {
		answer_continue(call);
		return 0;
	}
	r = resolve_path(call->tid, AT_FDCWD, path, false, 0, &target);
	if (r < 0)
		return r;
	if (!is_ours(call, &target)) {
		answer_continue(call);
		return 0;
	}
	if (target.object >= 0 ||
	    faccessat(target.parent, target.name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return -EADDRINUSE;
	r = permit_plain(call, &target, NAMES_CREATE, false);
	if (r == 0)
		r = count_one(call, &target);
	return r < 0 ? r : bind_at(call, &target);
}

/* Sockets that were made inside, and those that the contract names: not by their names, which a job
 * may give to others of the host's. */
static int permit_connect(struct call *call, const struct target *target, int object,
			  const struct stat *st)
{
	const struct guard *guard = call->guard;

	memcpy(call->path, target->path, strlen(target->path) + 1);
	if (!S_ISSOCK(st->st_mode))
		return -ECONNREFUSED;
	if (st->st_dev == guard->private_dev || guard_set_has(&guard->own_sockets, object, "") ||
	    guard_set_has(&guard->granted_sockets, object, ""))
		return 0;
	call->rule = "sockets";
	return -EACCES;
}

static void on_alarm(int number)
{
	(void)number;
}

/* connect() that waits a moment at most, then -EINTR: asked again it goes on where it was. */
static int connect_for_a_moment(int fd, const struct sockaddr_storage *address, socklen_t size)
{
	const struct itimerval never = {0}, soon = {.it_interval.tv_usec = CONNECT_WAIT_US,
						    .it_value.tv_usec = CONNECT_WAIT_US};
	const struct sigaction action = {.sa_handler = on_alarm};
	sigset_t alarm;
	int r;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	sigprocmask(SIG_UNBLOCK, &alarm, NULL);
	r = connect(fd, (const struct sockaddr *)address, size) < 0 ? -errno : 0;
	sigprocmask(SIG_BLOCK, &alarm, NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	return r;
}

/* In the caller's stead, on its own socket. O_NONBLOCK would not tell whether it takes time:
 * another thread can change it. A child waits, for as long as somebody wants the answer. */
static int connect_now(struct call *call, const struct sockaddr_storage *address, socklen_t size)
{
	cleanup_fd int fd = get_socket(call, (int)call->args[0]);
	pid_t pid;
	int r;

	if (fd < 0)
		return fd;
	r = connect_for_a_moment(fd, address, size);
	if (r != -EINTR)
		return r;
	if (call->guard->n_helpers == GUARD_HELPERS_MAX)
		return -EAGAIN;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		while (r == -EINTR && answer_is_wanted(call))
			r = connect_for_a_moment(fd, address, size);
		answer(call, r);
		_exit(0);
	}
	call->guard->n_helpers++;
	call->is_answered = true;
	return 0;
}

static int handle_connect(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	cleanup_fd int object = -1;
	struct sockaddr_storage address;
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	socklen_t size;
	const char *path;
	struct stat st;
	int r = read_address(call, &address, &size);

	call->action = "connect";
	if (r < 0)
		return r;
	path = address_path(&address, size);
	if (!path)
		return connect_now(call, &address, size);
	r = resolve_path(call->tid, AT_FDCWD, path, true, 0, &target);
	if (r < 0)
		return r;
	object = target_open_path(&target);
	if (object < 0)
		return object;
	if (fstat(object, &st) < 0)
		return -errno;
	r = permit_connect(call, &target, object, &st);
	if (r < 0)
		return r;
	snprintf(un.sun_path, sizeof un.sun_path, "/proc/self/fd/%d", object);
	memcpy(&address, &un, sizeof un);
	return connect_now(call, &address, sizeof un);
}

/* ---- the list ---- */

static int dispatch(struct call *call)
{
	switch (call->nr) {
#ifdef SYS_open
	case SYS_open:
	case SYS_creat:
#endif
	case SYS_openat:
	case SYS_openat2:
		return handle_open(call);
#ifdef SYS_mkdir
	case SYS_mkdir:
#endif
	case SYS_mkdirat:
		return handle_mkdir(call);
#ifdef SYS_mknod
	case SYS_mknod:
#endif
	case SYS_mknodat:
		return handle_mknod(call);
#ifdef SYS_symlink
	case SYS_symlink:
#endif
	case SYS_symlinkat:
		return handle_symlink(call);
#ifdef SYS_unlink
	case SYS_unlink:
	case SYS_rmdir:
#endif
	case SYS_unlinkat:
		return handle_unlink(call);
#ifdef SYS_rename
	case SYS_rename:
#endif
#ifdef SYS_renameat
	case SYS_renameat:
#endif
	case SYS_renameat2:
		return handle_rename(call);
#ifdef SYS_link
	case SYS_link:
#endif
	case SYS_linkat:
		return handle_link(call);
	case SYS_truncate:
		return handle_truncate(call);
#ifdef SYS_chmod
	case SYS_chmod:
#endif
	case SYS_fchmod:
	case SYS_fchmodat:
	case SYS_fchmodat2:
		return handle_chmod(call);
	case SYS_setxattr:
	case SYS_lsetxattr:
	case SYS_fsetxattr:
	case SYS_removexattr:
	case SYS_lremovexattr:
	case SYS_fremovexattr:
		return handle_xattr(call);
	case SYS_bind:
		return handle_bind(call);
	case SYS_connect:
		return handle_connect(call);
	default:
		return -ENOSYS;
	}
}

static void read_program(pid_t tid, char ret[16])
{
	cleanup_fd int fd = -1;
	char path[64];
	ssize_t got;

	snprintf(path, sizeof path, "/proc/%d/comm", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? 0 : read(fd, ret, 15);
	if (got > 0 && ret[got - 1] == '\n')
		got--;
	ret[got > 0 ? got : 0] = '\0';
}

static void report(struct call *call)
{
	struct init_message message = {.type = INIT_DENIAL};
	struct atoll_denial *denial = &message.denial;
	size_t length = strlen(call->path), room = sizeof denial->path;

	denial->pid = call->tid;
	denial->count = 1;
	snprintf(denial->action, sizeof denial->action, "%s", call->action);
	snprintf(denial->rule, sizeof denial->rule, "%s", call->rule);
	if (length < room)
		memcpy(denial->path, call->path, length + 1);
	else
		snprintf(denial->path, room, "...%s", call->path + length - (room - 4));
	read_program(call->tid, denial->program);
	/* A supervisor that does not keep up must not stop the work: the count tells. */
	send(call->guard->config->control_fd, &message, sizeof message,
	     MSG_DONTWAIT | MSG_NOSIGNAL);
}

int guard_serve(struct guard *guard)
{
	static union {
		struct seccomp_notif notif;
		char room[256]; /* a newer kernel may write more */
	} request;
	static struct call call;
	int r;

	memset(&request, 0, sizeof request);
	if (ioctl(guard->listener_fd, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
		return errno == ENOENT || errno == EINTR ? 0 : -errno;

	call.guard = guard;
	call.id = request.notif.id;
	call.tid = (pid_t)request.notif.pid;
	call.nr = request.notif.data.nr;
	call.args = request.notif.data.args;
	call.tgid = 0;
	call.is_answered = call.makes_git_dir = false;
	call.rule = NULL;
	call.action = "use";
	call.moves_from = NULL;
	call.path[0] = '\0';
	if (!answer_is_wanted(&call))
		return 0; /* the thread is gone, and its number may be another's by now */
	call.n_unsure = 0;
	r = dispatch(&call);
	while (call.n_unsure)
		close(call.unsure[--call.n_unsure].dir_fd);
	if (call.rule)
		report(&call);
	if (!call.is_answered)
		answer(&call, r);
	return 0;
}

void guard_helper_ended(struct guard *guard)
{
	if (guard->n_helpers)
		guard->n_helpers--;
}
