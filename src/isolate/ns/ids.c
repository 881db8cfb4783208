/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/uapi.h"
#include "isolate/ns/cell.h"
#include "isolate/slots.h"
#include "spec/spec.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/*
 * Under which id a sandbox runs
 *
 * An ordinary user has one id to give, his own. Root gives every run an id of its own that owns
 * nothing on the machine (slots.h), and the workspace is mounted with its owner's id mapped to it,
 * so that what is written comes out as the owner's. On a file system that cannot map ids root is
 * refused, unless somebody accepts the weaker way by name: then it runs under the owner's own id.
 */

static bool is_accepted(const struct spec *spec, const char *clause)
{
	for (size_t i = 0; i < spec->n_accepted; i++) {
		if (streq(spec->accepted[i].text, clause))
			return true;
	}
	return false;
}

/* A user namespace that maps one id, held open by a descriptor. */
static int make_userns(void)
{
	char path[64];
	int ends[2], fd = -1;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		char byte;

		if (unshare(CLONE_NEWUSER) == 0 && write(ends[1], "u", 1) == 1)
			pause();
		_exit(read(ends[0], &byte, 0) < 0);
	}
	close(ends[1]);
	if (pid > 0 && fd_read_exact(ends[0], path, 1) == 0) {
		snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
		if (fd_write_text(path, "0 1 1") == 0) {
			snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
			fd_write_text(path, "0 1 1");
			snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
			fd = open(path, O_RDONLY | O_CLOEXEC);
		}
	}
	close(ends[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return fd;
}

/* Can a mount of this directory map ids? Tried on a copy that is never attached. */
static bool can_map(const char *path)
{
	cleanup_fd int userns = make_userns(), tree = -1;
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP};

	if (userns < 0)
		return false;
	attr.userns_fd = (uint64_t)userns;
	tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	return tree >= 0 && mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) == 0;
}

int ids_choose(struct cell *cell, struct atoll_error *err)
{
	struct ns_ids *ids = &cell->ids;
	struct stat st;

	ids->inside_uid = ids->host_uid = geteuid();
	ids->inside_gid = ids->host_gid = getegid();
	if (!slots_are_ours())
		return 0;
	if (lstat(cell->spec->workspace, &st) < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "workspace '%s' (%s)",
				 cell->spec->workspace, cell->spec->workspace_origin);
	ids->is_shifted = true;
	ids->inside_uid = st.st_uid;
	ids->inside_gid = st.st_gid;
	if (!is_accepted(cell->spec, "identity") || can_map(cell->spec->workspace))
		return 0;
	if (st.st_uid == 0)
		return error_set(
			err, ATOLL_FAULT_HOST, 0,
			"'%s' belongs to root and its file system cannot map ids: there is no "
			"id left to run under; give it another owner",
			cell->spec->workspace);
	ids->is_unmapped = true;
	ids->host_uid = st.st_uid;
	ids->host_gid = st.st_gid;
	return 0;
}

int ids_take(struct cell *cell, struct atoll_error *err)
{
	struct ns_ids *ids = &cell->ids;
	uint32_t first;

	if (!ids->is_shifted)
		return 0;
	ids->slot_fd = slots_take(SLOTS_DIR, cell->spec->identity, &first, err);
	if (ids->slot_fd < 0)
		return ids->slot_fd;
	if (!ids->is_unmapped)
		ids->host_uid = first;
	/* Never root's group: much of a system is readable for it. */
	if (!ids->is_unmapped || ids->host_gid == 0)
		ids->host_gid = first;
	return 0;
}

void ids_release(struct cell *cell)
{
	if (cell->ids.slot_fd >= 0)
		close(take_fd(&cell->ids.slot_fd));
}
