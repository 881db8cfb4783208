/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ids.h"
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
 *
 * Where a contract says who there is inside (`users`), or wants to be root of its own system
 * (`root: layer`), root gives a range of ids. The workspace's owner is then the first of the users.
 * What others write to a layer lies there under an id that is nobody's on the host (base/ids.h),
 * the same in every run whatever slot that has; where the host's own files are written all that is
 * made is the first user's, root inside acts as that one there (init/guard.c), and nobody else can
 * make any. A grant that is seen at another place has the owner that its directory has.
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
	bool is_mapped;
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
		is_mapped = fd_write_text(path, uid_map) == 0;
		snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
		is_mapped = is_mapped && fd_write_text(path, gid_map) == 0;
		snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
		if (is_mapped)
			fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	close(ends[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return fd;
}

bool ids_can_map(const char *path)
{
	cleanup_fd int userns = ids_make_userns("0 1 1", "0 1 1"), tree = -1;
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP};

	if (userns < 0)
		return false;
	attr.userns_fd = (uint64_t)userns;
	tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	return tree >= 0 && mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) == 0;
}

/*
 * With many ids root inside is the slot's first, as everybody who is alone in a sandbox. Of the
 * next fifteen two are egress's. Then those of a system, from 1 on, and `nobody` is the last. Where
 * the contract names users, the range ends with what belongs to a system (999, where useradd begins
 * for its accounts), and users beyond it have what is left of the slot.
 */
#define MANY_FIRST   16
#define MANY_COUNT   (SLOTS_IDS - MANY_FIRST - 1)
#define SYSTEM_COUNT 999
#define ALONE_FIRST  (SLOTS_EGRESS_NEAR + 1)
#define STRANGER     (MANY_FIRST - 1) /* IDS_STRANGER, for public.c */
#define ALONE_COUNT  (STRANGER - ALONE_FIRST)
#define NOBODY	     65534u

_Static_assert(ALONE_COUNT + MANY_COUNT - SYSTEM_COUNT >= SPEC_USERS_MAX, "room for all users");

static bool takes_many(const struct spec *spec)
{
	return (spec->root_is_layer || spec->n_users) && !is_accepted(spec, "identity");
}

static void note_beyond(struct ns_ids *ids, const struct spec *spec)
{
	for (size_t i = 0; i < spec->n_users; i++) {
		const uint32_t own[2] = {spec->users[i].uid, spec->users[i].gid};

		for (int k = 0; k < 2; k++) {
			bool is_known = own[k] <= SYSTEM_COUNT;

			for (size_t j = 0; j < ids->n_beyond[k]; j++)
				is_known = is_known || ids->beyond[k][j] == own[k];
			if (!is_known)
				ids->beyond[k][ids->n_beyond[k]++] = own[k];
		}
	}
}

bool isolate_user_ids(const struct spec *spec, size_t user, uid_t *ret_uid, gid_t *ret_gid)
{
	if (user >= spec->n_users || !takes_many(spec) || !slots_are_ours())
		return false;
	*ret_uid = spec->users[user].uid;
	*ret_gid = spec->users[user].gid;
	return true;
}

int ids_choose(struct cell *cell, struct atoll_error *err)
{
	struct ns_ids *ids = &cell->ids;
	struct stat st;

	ids->inside_uid = ids->host_uid = geteuid();
	ids->inside_gid = ids->host_gid = getegid();
	ids->has_users = cell->spec->n_users;
	if (ids->has_users) {
		ids->inside_uid = cell->spec->users[0].uid;
		ids->inside_gid = cell->spec->users[0].gid;
	}
	ids->first_id[0] = ids->inside_uid;
	ids->first_id[1] = ids->inside_gid;
	if (!slots_are_ours())
		return 0;
	if (lstat(cell->spec->workspace, &st) < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "workspace '%s' (%s)",
				 cell->spec->workspace, cell->spec->workspace_origin);
	ids->is_shifted = true;
	ids->owner_uid = st.st_uid;
	ids->owner_gid = st.st_gid;
	if (!ids->has_users) {
		ids->inside_uid = st.st_uid;
		ids->inside_gid = st.st_gid;
	}
	if (takes_many(cell->spec)) {
		ids->has_many = true;
		ids->inside_uid = ids->inside_gid = 0;
		note_beyond(ids, cell->spec);
	}
	if (!ids->has_users) {
		ids->first_id[0] = ids->inside_uid;
		ids->first_id[1] = ids->inside_gid;
	}
	if (!is_accepted(cell->spec, "identity") || ids_can_map(cell->spec->workspace))
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

/* How many ids there are from 1 on, without those that stand alone. */
static uint32_t many_count(const struct ns_ids *ids)
{
	return ids->has_users ? SYSTEM_COUNT : MANY_COUNT;
}

uint32_t ids_most(const struct ns_ids *ids)
{
	return many_count(ids);
}

/* The host ids of those that stand alone, in order. */
static uint32_t alone(const struct ns_ids *ids, bool is_group, size_t i)
{
	return (is_group ? ids->host_gid : ids->host_uid) +
	       (uint32_t)(i < ALONE_COUNT ? ALONE_FIRST + i
					  : MANY_FIRST + SYSTEM_COUNT + i - ALONE_COUNT);
}

uint32_t ids_host_id(const struct ns_ids *ids, bool is_group, uint32_t inside)
{
	const uint32_t host = is_group ? ids->host_gid : ids->host_uid;

	if (!ids->has_many || inside == 0)
		return host;
	for (size_t i = 0; i < ids->n_beyond[is_group]; i++) {
		if (ids->beyond[is_group][i] == inside)
			return alone(ids, is_group, i);
	}
	return inside <= many_count(ids) ? host + MANY_FIRST + inside - 1 : host + SLOTS_IDS - 1;
}

uint32_t ids_inside_id(const struct ns_ids *ids, bool is_group, uint32_t host)
{
	const uint32_t first = is_group ? ids->host_gid : ids->host_uid;

	if (host == first)
		return ids->has_many ? 0 : is_group ? ids->inside_gid : ids->inside_uid;
	for (size_t i = 0; i < ids->n_beyond[is_group]; i++) {
		if (alone(ids, is_group, i) == host)
			return ids->beyond[is_group][i];
	}
	return ids->has_many && host >= first + MANY_FIRST &&
			       host - first - MANY_FIRST < many_count(ids)
		       ? host - first - MANY_FIRST + 1
		       : NOBODY;
}

void ids_write_map(const struct ns_ids *ids, bool is_group, char *ret, size_t size)
{
	const unsigned host = is_group ? ids->host_gid : ids->host_uid;
	size_t used;

	if (!ids->has_many) {
		snprintf(ret, size, "%u %u 1\n", is_group ? ids->inside_gid : ids->inside_uid,
			 host);
		return;
	}
	used = (size_t)snprintf(ret, size, "0 %u 1\n1 %u %u\n%u %u 1\n%u %u 1\n", host,
				host + MANY_FIRST, many_count(ids), NOBODY, host + SLOTS_IDS - 1,
				IDS_STRANGER, host + STRANGER);
	for (size_t i = 0; i < ids->n_beyond[is_group]; i++)
		used += (size_t)snprintf(ret + used, size - used, "%u %u 1\n",
					 ids->beyond[is_group][i], alone(ids, is_group, i));
}

/* One id only: what anybody else inside would make in the workspace, he may not. */
static void write_owner_map(const struct ns_ids *ids, bool is_group, char *ret, size_t size)
{
	snprintf(ret, size, "%u %u 1\n", is_group ? ids->owner_gid : ids->owner_uid,
		 ids_host_id(ids, is_group, ids->first_id[is_group]));
}

struct map {
	char *text;
	size_t size, used;
};

static void add_kept(struct map *map, const struct ns_ids *ids, bool is_group, uint32_t inside,
		     uint32_t count)
{
	if (count)
		map->used += (size_t)snprintf(map->text + map->used, map->size - map->used,
					      "%u %u %u\n", IDS_KEPT_FIRST + inside,
					      ids_host_id(ids, is_group, inside), count);
}

/* The owner, and everybody else under an id that is kept for him. */
static void write_layer_map(const struct ns_ids *ids, bool is_group, char *ret, size_t size)
{
	const uint32_t first = ids->first_id[is_group], n = many_count(ids);
	const bool is_in_range = first >= 1 && first <= n;
	struct map map = {.text = ret, .size = size};

	write_owner_map(ids, is_group, ret, size);
	map.used = strlen(ret);
	add_kept(&map, ids, is_group, 0, first != 0);
	add_kept(&map, ids, is_group, 1, is_in_range ? first - 1 : n);
	add_kept(&map, ids, is_group, first + 1, is_in_range ? n - first : 0);
	add_kept(&map, ids, is_group, NOBODY, 1);
	for (size_t i = 0; i < ids->n_beyond[is_group]; i++)
		add_kept(&map, ids, is_group, ids->beyond[is_group][i],
			 ids->beyond[is_group][i] != first);
}

/* Everybody under such an id: what is written beside the workspace is not its owner's. */
static void write_kept_map(const struct ns_ids *ids, bool is_group, char *ret, size_t size)
{
	struct map map = {.text = ret, .size = size};

	add_kept(&map, ids, is_group, 0, 1);
	add_kept(&map, ids, is_group, 1, many_count(ids));
	add_kept(&map, ids, is_group, NOBODY, 1);
	for (size_t i = 0; i < ids->n_beyond[is_group]; i++)
		add_kept(&map, ids, is_group, ids->beyond[is_group][i], 1);
}

typedef void write_fn(const struct ns_ids *ids, bool is_group, char *ret, size_t size);

static int map_by(const struct ns_ids *ids, write_fn *write, int *ret, struct atoll_error *err)
{
	char uid_map[IDS_MAP_SIZE], gid_map[IDS_MAP_SIZE];

	write(ids, false, uid_map, sizeof uid_map);
	write(ids, true, gid_map, sizeof gid_map);
	*ret = ids_make_userns(uid_map, gid_map);
	return *ret < 0 ? error_set(err, ATOLL_FAULT_HOST, -*ret,
				    "make a user namespace for the workspace's owner")
			: 0;
}

/* Does the host's own tree appear as the owner's? Layers and the system's have other maps. */
static bool is_owners(const struct cell *cell, const struct ns_mount *mount)
{
	return ns_has_tree(mount) && !mount->is_ephemeral && !mount->kept && !mount->is_base &&
	       (!cell->ids.has_users || (!mount->is_layer && mount->kind != NS_STAGE)) &&
	       (mount->is_writable || mount->is_explicit);
}

/* What is written at another place is written as the owner's there, whoever has the workspace. */
static int map_moved(struct cell *cell, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < cell->n_mounts; i++) {
		struct ns_mount *mount = &cell->mounts[i];
		struct ns_ids theirs = cell->ids;

		if (!mount->is_moved || !mount->is_writable || theirs.is_unmapped ||
		    (mount->uid == theirs.owner_uid && mount->gid == theirs.owner_gid))
			continue;
		theirs.owner_uid = mount->uid;
		theirs.owner_gid = mount->gid;
		r = map_by(&theirs, write_owner_map, &mount->map_fd, err);
	}
	return r;
}

int ids_map_owner(struct cell *cell, struct atoll_error *err)
{
	const struct ns_ids *ids = &cell->ids;
	bool needs_owner = false;
	int r = map_moved(cell, err);

	if (r < 0 || !ids->has_many)
		return r;
	for (size_t i = 0; i < cell->n_mounts; i++)
		needs_owner = needs_owner || is_owners(cell, &cell->mounts[i]);
	if (needs_owner)
		r = map_by(ids, write_owner_map, &cell->map_ns_fd, err);
	if (r == 0 && ids->has_users && layer_spot(cell))
		r = map_by(ids, write_layer_map, &cell->layer_ns_fd, err);
	if (r == 0 && kept_is_there(cell))
		r = map_by(ids, write_kept_map, &cell->kept_ns_fd, err);
	return r;
}

int ids_map_for(const struct cell *cell, const struct ns_mount *mount, int own)
{
	if (cell->ids.is_unmapped)
		return -1;
	if (mount->map_fd >= 0)
		return mount->map_fd;
	if (!cell->ids.has_many || mount->is_ephemeral || mount->is_base)
		return own;
	if (mount->kept)
		return cell->kept_ns_fd;
	if (cell->ids.has_users && (mount->is_layer || mount->kind == NS_STAGE))
		return cell->layer_ns_fd;
	return is_owners(cell, mount) ? cell->map_ns_fd : -1;
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
