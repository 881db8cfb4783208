/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/ids.h"
#include "isolate/ns/cell.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/*
 * The public part of a host's tree
 *
 * With `root: layer` the system's trees have their ids mapped, so root inside owns what root owns
 * on the host, and a mode such as 0600 does not keep it out. A read-only overlay between the host's
 * tree and the writable layer does. The kernel asks twice about each file of an overlay: with the
 * ids of the caller, and about the file beneath with the ids and capabilities that the mounter had.
 * The mounter of this overlay is IDS_STRANGER, an id that owns no file and is in no group, with
 * CAP_SYS_ADMIN as the only capability in effect, which mount(2) needs and no mode obeys. So the
 * kernel answers EACCES about whatever the host keeps from others, at each open and each step of a
 * path, and for a file that was made or closed after the start as well.
 *
 * public_mount() is called while the root is built (shared.c, root.c), in the order
 *   setfsuid(), setfsgid()   the kernel drops the capabilities over files with it
 *   capset()                 all others but CAP_SYS_ADMIN
 *   mount()                  the overlay keeps these credentials
 *   and back; a change of the id for files clears the signal at the parent's death, which is
 *   therefore set again, and the parent asked for
 *
 * The kernel stacks two file systems at most (FILESYSTEM_MAX_STACK_DEPTH), so a tree that lies on
 * an overlay itself, as in most containers, cannot have this; nor can its ids be mapped. There
 * `root: layer` is refused (public_prepare()), and the plan says so.
 */

static int fail(struct atoll_error *err, const char *what, const char *path)
{
	return error_set(err, ATOLL_FAULT_HOST, errno, "%s '%s'", what, path);
}

bool public_can_mount(const char *path)
{
	struct statfs fs;

	/* The two kinds that lie on another file system, and count for the depth. */
	return statfs(path, &fs) == 0 && fs.f_type != OVERLAYFS_SUPER_MAGIC &&
	       fs.f_type != ECRYPTFS_SUPER_MAGIC;
}

int public_prepare(const struct cell *cell, struct ns_mount *mount, struct atoll_error *err)
{
	mount->is_public = public_can_mount(ns_source(mount));
	if (mount->is_public || cell->is_plan)
		return 0;
	return error_set(err, ATOLL_FAULT_HOST, 0,
			 "root: layer: '%s' lies on an overlay, and the kernel stacks two file "
			 "systems at most: what root keeps from others could be read inside; run "
			 "atoll as an ordinary user, or outside of the container",
			 ns_source(mount));
}

struct credentials {
	struct __user_cap_header_struct header;
	struct __user_cap_data_struct data[2];
	uid_t uid;
	gid_t gid;
};

static bool set_ids(uid_t uid, gid_t gid)
{
	setfsgid(gid);
	setfsuid(uid);
	return (uid_t)setfsuid((uid_t)-1) == uid && (gid_t)setfsgid((gid_t)-1) == gid;
}

static int become_stranger(struct credentials *old, struct atoll_error *err)
{
	struct __user_cap_data_struct few[2];

	old->header = (struct __user_cap_header_struct){.version = _LINUX_CAPABILITY_VERSION_3};
	old->uid = (uid_t)setfsuid((uid_t)-1);
	old->gid = (gid_t)setfsgid((gid_t)-1);
	if (syscall(SYS_capget, &old->header, old->data) < 0)
		return fail(err, "read", "the capabilities");
	memcpy(few, old->data, sizeof few);
	few[0].effective = 1U << CAP_SYS_ADMIN;
	few[1].effective = 0;
	if (!set_ids(IDS_STRANGER, IDS_STRANGER))
		return error_set(err, ATOLL_FAULT_HOST, EPERM, "take the id %u for files",
				 IDS_STRANGER);
	if (syscall(SYS_capset, &old->header, few) < 0)
		return fail(err, "lower", "the capabilities");
	return 0;
}

static int become_root(const struct cell *cell, struct credentials *old, struct atoll_error *err)
{
	struct pollfd supervisor = {.fd = cell->control_fd};

	/* setfsgid() needs CAP_SETGID for an id that is none of ours, so capabilities come first;
	 * setfsuid() to root adds those over files, which were in effect before. */
	if (syscall(SYS_capset, &old->header, old->data) < 0 || !set_ids(old->uid, old->gid) ||
	    syscall(SYS_capset, &old->header, old->data) < 0)
		return error_set(err, ATOLL_FAULT_HOST, EPERM, "take the sandbox's ids again");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
		return fail(err, "tie to", "the supervisor");
	if (poll(&supervisor, 1, 0) != 0)
		_exit(1);
	return 0;
}

int public_mount(const struct cell *cell, const char *mask, const char *host, const char *target,
		 struct atoll_error *err)
{
	const unsigned long flags = MS_NOSUID | MS_NODEV | MS_RDONLY;
	struct credentials old;
	char options[256];
	int r, back;

	/* An overlay without an upper layer has two lower ones at least. */
	snprintf(options, sizeof options, "lowerdir=%s:%s,userxattr",
		 mask ? mask : NS_STAGE_DIR "/none", host);
	if (!mask && mkdir(NS_STAGE_DIR "/none", 0755) < 0 && errno != EEXIST)
		return fail(err, "create", NS_STAGE_DIR "/none");
	if (mkdir(target, 0755) < 0)
		return fail(err, "create", target);
	r = become_stranger(&old, err);
	if (r == 0 && mount("overlay", target, "overlay", flags, options) < 0)
		r = fail(err, "put a layer of what everybody may read over", host);
	back = become_root(cell, &old, err);
	return r < 0 ? r : back;
}
