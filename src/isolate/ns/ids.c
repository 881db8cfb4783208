/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/uapi.h"
#include "isolate/ns/cell.h"
#include "isolate/slots.h"
#include "spec/spec.h"

#include <errno.h>
#include <linux/capability.h>
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

int ids_make_userns(const char *uid_map, const char *gid_map)
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
		if (fd_write_text(path, uid_map) == 0) {
			snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
			fd_write_text(path, gid_map);
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
	cleanup_fd int userns = ids_make_userns("0 1 1", "0 1 1"), tree = -1;
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
	ids->inside_uid = ids->owner_uid = st.st_uid;
	ids->inside_gid = ids->owner_gid = st.st_gid;
	if (cell->spec->root_is_layer && !is_accepted(cell->spec, "identity")) {
		ids->has_many = true;
		ids->inside_uid = ids->inside_gid = 0;
	}
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

/*
 * With many ids root inside is the slot's first, as everybody who is alone in a sandbox. The next
 * fifteen are left out: two of them are egress's. `nobody` has one, too.
 */
#define MANY_FIRST 16
#define MANY_COUNT (SLOTS_IDS - MANY_FIRST - 1)
#define NOBODY	   65534

void ids_write_map(const struct ns_ids *ids, bool is_group, char *ret, size_t size)
{
	const unsigned host = is_group ? ids->host_gid : ids->host_uid;

	if (ids->has_many)
		snprintf(ret, size, "0 %u 1\n1 %u %u\n%u %u 1\n", host, host + MANY_FIRST,
			 MANY_COUNT, NOBODY, host + SLOTS_IDS - 1);
	else
		snprintf(ret, size, "%u %u 1\n", is_group ? ids->inside_gid : ids->inside_uid,
			 host);
}

/* One id only: what anybody else inside would make in the workspace, he may not. */
int ids_map_owner(struct cell *cell, struct atoll_error *err)
{
	const struct ns_ids *ids = &cell->ids;
	char uid_map[64], gid_map[64];

	if (!ids->has_many)
		return 0;
	snprintf(uid_map, sizeof uid_map, "%u %u 1\n", ids->owner_uid, ids->host_uid);
	snprintf(gid_map, sizeof gid_map, "%u %u 1\n", ids->owner_gid, ids->host_gid);
	cell->map_ns_fd = ids_make_userns(uid_map, gid_map);
	return cell->map_ns_fd < 0 ? error_set(err, ATOLL_FAULT_HOST, -cell->map_ns_fd,
					       "make a user namespace for the workspace's owner")
				   : 0;
}

/*
 * Over files and ids of the sandbox's own range: a package manager unpacks files of several owners,
 * and leaves root for some of its work. None of them reaches the network, mounts, devices or other
 * processes; the filter and Landlock stay as they are.
 */
uint64_t ids_capabilities(const struct ns_ids *ids)
{
	return ids->has_many ? 1ULL << CAP_CHOWN | 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_FOWNER |
				       1ULL << CAP_FSETID | 1ULL << CAP_SETGID | 1ULL << CAP_SETUID
			     : 0;
}

void ids_release(struct cell *cell)
{
	if (cell->ids.slot_fd >= 0)
		close(take_fd(&cell->ids.slot_fd));
}
