/* SPDX-License-Identifier: Apache-2.0 */
#include "init/call-open.h"

#include "base/fd.h"
#include "base/uapi.h"

#include <errno.h>
#include <linux/openat2.h>
#include <sys/stat.h>

/*
 * openat2(), which is never continued
 *
 * Its flags and its mode are in the caller's memory, where another thread may change them after the
 * guard's look: a call that asked to read when it was looked at truncates when the kernel reads the
 * flags again. So the guard reads struct open_how once, opens by that copy, and hands over the
 * descriptor (SECCOMP_IOCTL_NOTIF_ADDFD), also for reading.
 *
 * Files in /proc and devices depend on who opens them, and the kernel hands over no descriptor that
 * was opened with O_PATH (EBADF). For these the answer is ENOSYS, as from a kernel before 5.6:
 * programs then use openat(), whose flags are in a register.
 *
 * Landlock rules that a program gives itself bind that program and not the guard. So when somebody
 * has done so (call_restrict()), the same answer is given for all that the guard need not open.
 */

#define RESOLVE_FLAGS                                                                              \
	(RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH |         \
	 RESOLVE_IN_ROOT | RESOLVE_CACHED)
#define HOW_FLAGS (OPEN_FLAGS | O_PATH | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC | O_ASYNC)

/* A larger struct of a newer program is accepted as long as the rest is zeros. */
static int check_rest(struct call *call, uint64_t address, uint64_t size)
{
	char rest[256];

	if (size > 4096)
		return -E2BIG;
	for (uint64_t at = sizeof(struct open_how); at < size; at += sizeof rest) {
		size_t want = size - at < sizeof rest ? (size_t)(size - at) : sizeof rest;
		int r = resolve_read_memory(call->tid, address + at, rest, want);

		if (r < 0)
			return r;
		for (size_t i = 0; i < want; i++) {
			if (rest[i])
				return -E2BIG;
		}
	}
	return 0;
}

/* As the kernel checks it (build_open_flags() in fs/open.c). */
static int check_how(const struct open_how *how)
{
	const uint64_t of_path = O_DIRECTORY | O_NOFOLLOW | O_PATH | O_CLOEXEC;
	bool makes = how->flags & O_CREAT || (how->flags & O_TMPFILE) == O_TMPFILE;

	if (how->flags & ~(uint64_t)HOW_FLAGS || how->resolve & ~(uint64_t)RESOLVE_FLAGS)
		return -EINVAL;
	if ((how->resolve & RESOLVE_BENEATH) && (how->resolve & RESOLVE_IN_ROOT))
		return -EINVAL;
	if (makes ? how->mode & ~(uint64_t)07777 : how->mode != 0)
		return -EINVAL;
	if ((how->flags & O_PATH) && (how->flags & ~of_path))
		return -EINVAL;
	if ((how->flags & O_CREAT) && (how->flags & O_DIRECTORY))
		return -EINVAL;
	if ((how->flags & O_TMPFILE) == O_TMPFILE && !(how->flags & (O_WRONLY | O_RDWR)))
		return -EINVAL;
	/* As the filter does for open(). */
	if ((how->flags & O_ACCMODE) == O_ACCMODE && (how->flags & O_TRUNC))
		return -EACCES;
	return makes && how->mode & 06000 ? -EPERM : 0;
}

static int read_how(struct call *call, struct open_how *ret)
{
	const uint64_t address = call->args[2], size = call->args[3];
	int r;

	if (size < sizeof *ret)
		return -EINVAL;
	r = resolve_read_memory(call->tid, address, ret, sizeof *ret);
	if (r == 0 && size > sizeof *ret)
		r = check_rest(call, address, size);
	return r < 0 ? r : check_how(ret);
}

/* What is there, to read, where mounts decide about that: found by the kernel's own walk, with the
 * caller's confinement. */
static int open_existing(struct call *call, const char *path, const struct open_how *how)
{
	const uint64_t strict = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
	cleanup_fd int start = resolve_start(call->tid, (int)call->args[0], path, how->resolve);
	cleanup_fd int object = -1;
	struct stat st;

	if (start < 0)
		return start;
	object = fd_openat2(start, path, O_PATH | (int)(how->flags & (O_NOFOLLOW | O_DIRECTORY)), 0,
			    how->resolve | RESOLVE_NO_MAGICLINKS);
	/* A magic link: what it means depends on who follows it. */
	if (object == -ELOOP && !(how->resolve & strict))
		return -ENOSYS;
	if (object < 0)
		return object;
	if (fstat(object, &st) < 0)
		return -errno;
	if (resolve_is_proc(object) || S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
		return -ENOSYS;
	return open_again(call, object, how->flags);
}

/* The call's arguments are in registers. */
int call_restrict(struct call *call)
{
	call->guard->has_inner_rules = true;
	answer_continue(call);
	return 0;
}

int call_openat2(struct call *call)
{
	const int dir_fd = (int)call->args[0];
	char path[PATH_MAX];
	struct open_how how;
	int r = call_read_path(call, 1, path);

	call->action = "read";
	if (r == 0)
		r = read_how(call, &how);
	if (r < 0)
		return r;
	if (how.flags & O_PATH || (open_is_to_read(how.flags) && call->guard->has_inner_rules))
		return -ENOSYS;
	if (!open_is_to_read(how.flags))
		return open_to_change(call, dir_fd, path, how.flags, (mode_t)how.mode, how.resolve);
	if (call->guard->config->is_bare)
		return open_to_read(call, dir_fd, path, how.flags, how.resolve);
	sense_open_to_read(call, dir_fd, path);
	return open_existing(call, path, &how);
}
