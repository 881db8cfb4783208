/* SPDX-License-Identifier: Apache-2.0 */
#include "init/call.h"

#include "base/fd.h"
#include "base/str.h"
#include "base/uapi.h"
#include "spec/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <sys/xattr.h>

/* Length, mode and attributes of what exists. */

/* Through a descriptor, because truncate() itself waits for a lease to be given back; then a child
 * does. */
static int truncate_object(struct call *call, int object, off_t length)
{
	cleanup_fd int fd = -1;
	char path[64];
	struct stat st;
	int r;

	if (fstat(object, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	snprintf(path, sizeof path, "/proc/self/fd/%d", object);
	fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		return ftruncate(fd, length) < 0 ? -errno : 0;
	if (errno != EAGAIN)
		return -errno;
	r = call_hand_over(call);
	if (r <= 0)
		return r;
	answer(call, truncate(path, length) < 0 ? -errno : 0);
	_exit(0);
}

int call_truncate(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	cleanup_fd int object = -1;
	struct sense_before before;
	int r;

	call->action = "write";
	r = call_resolve(call, 0, false, AT_SYMLINK_FOLLOW, &target);
	if (r < 0)
		return r;
	call_see(call, &target);
	/* Made here wherever it is: before ABI 3 Landlock has no right for it. */
	if (call_is_out_of_reach(call, &target))
		return -EACCES;
	object = target_open_path(&target);
	if (object < 0)
		return object;
	r = call_permit_content(call, &target, false);
	if (r < 0)
		return r;
	sense_look_before(call, &target, &before);
	r = truncate_object(call, object, (off_t)call->args[1]);
	if (r == 0)
		sense_changed(call, &target, NULL, &before);
	return r;
}

static int chmod_target(struct call *call, const struct target *target, mode_t mode)
{
	cleanup_fd int object = target_open_path(target);
	struct sense_before before;
	char path[64];
	struct stat st;
	int r;

	if (object < 0)
		return object;
	call_see(call, target);
	if (call_is_out_of_reach(call, target))
		return -EPERM;
	r = call_permit_plain(call, target, NAMES_CHMOD, false);
	if (r < 0)
		return r;
	if (fstat(object, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -EOPNOTSUPP;
	snprintf(path, sizeof path, "/proc/self/fd/%d", object);
	sense_look_before(call, target, &before);
	if (chmod(path, mode) < 0)
		return -errno;
	sense_changed(call, target, NULL, &before);
	return 0;
}

int call_chmod(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	const __u64 *a = call->args;
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
	r = call_resolve(call, 0, at,
			 (flags & AT_EMPTY_PATH) |
				 (flags & AT_SYMLINK_NOFOLLOW ? 0 : AT_SYMLINK_FOLLOW),
			 &target);
	return r < 0 ? r : chmod_target(call, &target, (mode_t)a[at ? 2 : 1]);
}

/* Access lists and other attributes: what chmod must not do they must not do either. */
int call_xattr(struct call *call)
{
	static char value[XATTR_SIZE_MAX];
	cleanup_target struct target target = TARGET_INIT;
	cleanup_fd int object = -1;
	const __u64 *a = call->args;
	bool is_fd = call->nr == SYS_fsetxattr || call->nr == SYS_fremovexattr;
	bool is_set =
		call->nr == SYS_setxattr || call->nr == SYS_lsetxattr || call->nr == SYS_fsetxattr;
	bool follows = call->nr == SYS_setxattr || call->nr == SYS_removexattr;
	struct sense_before before;
	char path[64], name[XATTR_NAME_MAX + 1];
	struct stat st;
	int r;

	call->action = "set attribute";
	r = resolve_read_string(call->tid, a[1], name, sizeof name);
	if (r == 0 && is_set && a[3] > sizeof value)
		r = -E2BIG;
	if (r == 0 && is_set && a[3])
		r = resolve_read_memory(call->tid, a[2], value, a[3]);
	if (r == 0)
		r = is_fd ? resolve_fd(call->tid, (int)a[0], &target)
			  : call_resolve(call, 0, false, follows ? AT_SYMLINK_FOLLOW : 0, &target);
	if (r < 0)
		return r;
	object = target_open_path(&target);
	if (object < 0)
		return object;
	call_see(call, &target);
	if (call_is_out_of_reach(call, &target))
		return -EPERM;
	r = call_permit_plain(call, &target,
			      starts_with(name, "system.") ? NAMES_CHMOD : NAMES_WRITE, false);
	if (r < 0)
		return r;
	/* The host's files are the base of later layers: such an attribute hides files there. */
	if (starts_with(name, "user.overlay.") && guard_guarded_zone(call, &target))
		return guard_refuse(call, EPERM, "attribute of overlayfs");
	if (fstat(object, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -EPERM; /* what the kernel says for user attributes of a link */
	snprintf(path, sizeof path, "/proc/self/fd/%d", object);
	sense_look_before(call, &target, &before);
	r = is_set ? setxattr(path, name, value, a[3], (int)a[4]) : removexattr(path, name);
	if (r < 0)
		return -errno;
	sense_changed(call, &target, NULL, &before);
	return 0;
}

/* Times and owners come here only where there are no mounts to make read-only. */
static int permit_here(struct call *call, const struct target *target)
{
	const struct spec_rule *rule = spec_rule_inside(call->guard->config->spec, target->path);

	call_see(call, target);
	if (call_is_out_of_reach(call, target))
		return -EPERM;
	return rule && rule->access == SPEC_HIDE ? -EACCES : 0;
}

int call_times(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	cleanup_fd int object = -1;
	const __u64 *a = call->args;
	struct timespec times[2];
	int r = a[2] ? resolve_read_memory(call->tid, a[2], times, sizeof times) : 0;

	call->action = "set times";
	if (r == 0)
		r = a[1] ? call_resolve(
				   call, 0, true,
				   ((int)a[3] & AT_EMPTY_PATH) |
					   (a[3] & AT_SYMLINK_NOFOLLOW ? 0 : AT_SYMLINK_FOLLOW),
				   &target)
			 : resolve_fd(call->tid, (int)a[0], &target);
	if (r < 0)
		return r;
	object = target_open_path(&target);
	if (object < 0)
		return object;
	r = permit_here(call, &target);
	if (r < 0)
		return r;
	return syscall(SYS_utimensat, object, "", a[2] ? times : NULL, AT_EMPTY_PATH) < 0 ? -errno
											  : 0;
}

int call_owner(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	cleanup_fd int object = -1;
	const __u64 *a = call->args;
	bool at = call->nr == SYS_fchownat;
	int flags = at ? (int)a[4] : 0, r;

#ifdef SYS_lchown
	flags |= call->nr == SYS_lchown ? AT_SYMLINK_NOFOLLOW : 0;
#endif
	call->action = "chown";
	r = call->nr == SYS_fchown
		    ? resolve_fd(call->tid, (int)a[0], &target)
		    : call_resolve(call, 0, at,
				   (flags & AT_EMPTY_PATH) |
					   (flags & AT_SYMLINK_NOFOLLOW ? 0 : AT_SYMLINK_FOLLOW),
				   &target);
	if (r < 0)
		return r;
	object = target_open_path(&target);
	if (object < 0)
		return object;
	r = permit_here(call, &target);
	if (r < 0)
		return r;
	return fchownat(object, "", (uid_t)a[1 + at], (gid_t)a[2 + at], AT_EMPTY_PATH) < 0 ? -errno
											   : 0;
}
