/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uapi.h"
#include "isolate/ns/cell.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/*
 * Who there is inside
 *
 * Where a contract names users, /etc/passwd and /etc/group are made anew: those users, and of the
 * host's accounts root and those that belong to the system, without passwords and without members
 * of groups. Nobody who works on the host is named. With `root: layer` the two are part of the
 * writable layer, because packages add accounts; otherwise they are mounted over the host's,
 * read-only.
 *
 * As root every user is an id of its own (ids.c), and a command becomes its user last of all,
 * before it executes: with that the kernel takes away what root inside has. For an ordinary user
 * all names are the one id that he has.
 */

#define SYSTEM_MOST 999
#define NOBODY	    65534
#define FILE_MAX    (1 << 20)

/* ---- the two files ---- */

struct account {
	char *name, *rest; /* behind the second number, or the first of a group */
	unsigned long uid, gid;
};

/* "name:x:uid:gid:rest", or "name:x:gid:members" of a group. */
static bool read_account(char *line, bool is_group, struct account *ret)
{
	char *field = line, *end;

	ret->name = strsep(&field, ":");
	if (!field || !ret->name[0] || !strsep(&field, ":") || !field)
		return false;
	ret->uid = ret->gid = strtoul(field, &end, 10);
	if (end == field || *end != ':')
		return false;
	field = end + 1;
	if (!is_group) {
		ret->gid = strtoul(field, &end, 10);
		if (end == field || *end != ':')
			return false;
		field = end + 1;
	}
	ret->rest = field;
	return str_is_printable(line) && str_is_printable(field);
}

/* A name or number that is one of the contract's is that one's. */
static bool is_kept(const struct spec *spec, const struct account *account, bool is_group)
{
	if (account->uid > SYSTEM_MOST && account->uid != NOBODY)
		return false;
	for (size_t i = 0; i < spec->n_users; i++) {
		const struct spec_user *user = &spec->users[i];

		if (streq(user->name, account->name) ||
		    (is_group ? user->gid : user->uid) == account->uid)
			return false;
	}
	return true;
}

static void add_users(const struct spec *spec, bool is_group, struct buf *out)
{
	const char *shell = access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";

	for (size_t i = 0; i < spec->n_users; i++) {
		const struct spec_user *user = &spec->users[i];
		bool is_first = true;

		for (size_t j = 0; j < i; j++)
			is_first = is_first && spec->users[j].gid != user->gid;
		if (!is_group)
			buf_addf(out, "%s:x:%u:%u::%s:%s\n", user->name, user->uid, user->gid,
				 user->home, shell);
		else if (is_first)
			buf_addf(out, "%s:x:%u:\n", user->name, user->gid);
	}
}

static char *make_file(const struct cell *cell, const char *path, bool is_group)
{
	cleanup_buf struct buf text = BUF_INIT(FILE_MAX), out = BUF_INIT(2 * FILE_MAX);
	cleanup_fd int fd = image_open_file(cell, path);
	const struct spec *spec = cell->spec;

	add_users(spec, is_group, &out);
	if (fd >= 0 && fd_read_all(fd, &text) < 0)
		buf_done(&text); /* larger than any that is of use: only ours, then */
	for (char *line = text.data, *next; line && *line; line = next) {
		struct account account;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (!read_account(line, is_group, &account) || !is_kept(spec, &account, is_group))
			continue;
		if (is_group)
			buf_addf(&out, "%s:x:%lu:\n", account.name, account.gid);
		else
			buf_addf(&out, "%s:x:%lu:%lu:%s\n", account.name, account.uid, account.gid,
				 account.rest);
	}
	return buf_take(&out);
}

int users_prepare(struct cell *cell, struct atoll_error *err)
{
	const struct spec *spec = cell->spec;
	int r = 0;

	if (!spec->n_users)
		return 0;
	for (size_t i = 0; r == 0 && i < spec->n_users; i++)
		r = ns_add_private(cell, spec->users[i].home, err);
	if (r < 0)
		return r;
	cell->passwd = make_file(cell, "/etc/passwd", false);
	cell->group_file = make_file(cell, "/etc/group", true);
	return cell->passwd && cell->group_file ? 0 : error_oom(err);
}

const struct spec_user *users_of_home(const struct cell *cell, const char *path)
{
	for (size_t i = 0; i < cell->spec->n_users; i++) {
		if (streq(cell->spec->users[i].home, path))
			return &cell->spec->users[i];
	}
	return NULL;
}

/* ---- in the child ---- */

static bool etc_is_layer(const struct cell *cell)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (cell->mounts[i].is_ephemeral && streq(cell->mounts[i].path, "/etc"))
			return true;
	}
	return false;
}

/* In the layer over /etc, in the place of the host's. */
static int replace(const struct cell *cell, const char *path, const char *data,
		   struct atoll_error *err)
{
	/* An earlier cell has done so, and packages may have added theirs since. */
	if (kept_speaks_of(cell, path))
		return 0;
	path++;
	if (unlink(path) < 0 && errno != ENOENT)
		return error_set(err, ATOLL_FAULT_HOST, errno, "take '/%s' away", path);
	return ns_write_file(path, data, strlen(data), 0644, err);
}

/* Over the host's, if it is shown at all. */
static int cover(const char *name, const char *path, const char *data, struct atoll_error *err)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
					      MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
	cleanup_fd int tree = -1;
	int r = ns_write_file(name, data, strlen(data), 0444, err);

	if (r < 0)
		return r;
	tree = open_tree(AT_FDCWD, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0 ||
	    (move_mount(tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0 && errno != ENOENT &&
	     errno != ENOTDIR))
		return error_set(err, ATOLL_FAULT_HOST, errno, "show accounts at '/%s'", path);
	return 0;
}

int users_place(const struct cell *cell, struct atoll_error *err)
{
	int r;

	if (!cell->passwd)
		return 0;
	if (etc_is_layer(cell)) {
		r = replace(cell, "/etc/passwd", cell->passwd, err);
		return r < 0 ? r : replace(cell, "/etc/group", cell->group_file, err);
	}
	r = cover(NS_STAGE_DIR "/passwd", "etc/passwd", cell->passwd, err);
	return r < 0 ? r : cover(NS_STAGE_DIR "/group", "etc/group", cell->group_file, err);
}

int users_become(const struct cell *cell, struct atoll_error *err)
{
	const gid_t gid = cell->ids.first_id[1];
	const uid_t uid = cell->ids.first_id[0];

	if (!cell->ids.has_many || !cell->ids.has_users || uid == cell->ids.inside_uid)
		return 0;
	if (syscall(SYS_setgroups, 1, &gid) < 0 || syscall(SYS_setresgid, gid, gid, gid) < 0 ||
	    syscall(SYS_setresuid, uid, uid, uid) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "become user %u", uid);
	return 0;
}

/* ---- the plan ---- */

void describe_users(const struct cell *cell, struct plan *plan)
{
	const struct spec *spec = cell->spec;

	for (size_t i = 0; i < spec->n_users; i++) {
		const struct spec_user *user = &spec->users[i];
		char note[192];

		if (cell->ids.has_many)
			snprintf(note, sizeof note, "uid %u, gid %u%s; home %.100s", user->uid,
				 user->gid, i == 0 ? "; commands run as this one" : "", user->home);
		else
			snprintf(note, sizeof note,
				 "a name of uid %u, which is all that there is; "
				 "home %.100s",
				 cell->ids.inside_uid, user->home);
		plan_add(plan, cell->ids.has_many ? PLAN_ENFORCED : PLAN_WEAKER, "users",
			 user->name,
			 cell->ids.has_many ? "an id of the run's own range"
					    : "none: one id has all the names",
			 note, user->origin);
	}
	if (spec->n_users)
		plan_add(plan, PLAN_ENFORCED, "users", "/etc/passwd /etc/group",
			 "files made for the run",
			 "of the host's accounts only the system's, without passwords or members",
			 spec->users[0].origin);
}
