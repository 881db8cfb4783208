/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/uapi.h"
#include "init/call.h"
#include "spec/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Is a path one that the contract refuses?
 *
 * Asked for every file that is opened, so by the text of the path first: most lie where the
 * contract lets them, and are not looked at. A link that leads out of there is followed by the
 * kernel, which refuses, and is not told of. What lies elsewhere is looked at as the caller would
 * find it; where there is nothing, whether the host has something is for the supervisor to see.
 */

/* What describes the machine and its processes is no file of anybody's: programs look there and do
 * without. Where a line of the contract hides something there, that is another matter. */
static const char *const of_the_machine[] = {"/proc", "/dev", "/sys", "/run", "/var/run", NULL};

static bool is_of_the_machine(const char *path)
{
	for (size_t i = 0; of_the_machine[i]; i++) {
		if (path_is_within(path, of_the_machine[i]))
			return true;
	}
	return false;
}

/* ---- by the text ---- */

static bool is_read_granted(const struct guard *guard, const char *path,
			    const struct spec_rule **ret)
{
	*ret = spec_rule_inside(guard->config->spec, path);
	return *ret ? (*ret)->access != SPEC_HIDE : is_of_the_machine(path);
}

/* `*ret_zone`: the place it is in, or NULL. */
static bool is_write_granted(const struct guard *guard, const char *path,
			     const struct init_zone **ret_zone)
{
	*ret_zone = NULL;
	if (path_is_within(path, "/proc") || path_is_within(path, "/dev"))
		return true;
	*ret_zone = guard_zone(guard, path);
	return *ret_zone && (*ret_zone)->is_writable;
}

/* A place of the sandbox's own, where the host has other things? */
static bool is_private(const struct init_zone *zone)
{
	return zone && (zone->kind == INIT_ZONE_FREE || zone->kind == INIT_ZONE_PRIVATE);
}

/* ---- by a look ---- */

/* The directory that it is in. */
static const char *above(const char *path, char ret[PATH_MAX])
{
	const char *slash = strrchr(path, '/');
	size_t length = slash && slash > path ? (size_t)(slash - path) : 1;

	memcpy(ret, path, length);
	ret[length] = '\0';
	return ret;
}

static bool is_missing(int errnum)
{
	return errnum == ENOENT || errnum == ENOTDIR;
}

static void refuse_reading(struct call *call, const char *action, const char *path,
			   const struct spec_rule *rule)
{
	struct sense_refusal refusal = {.action = action,
					.rule = rule ? "hide" : "not granted",
					.object = path,
					.flag = "--read",
					.path = rule && !rule->is_pattern ? rule->path : path};

	/* Without namespaces we are on the host. */
	if (faccessat(AT_FDCWD, path, call->guard->config->is_bare ? F_OK : R_OK, 0) == 0) {
		if (!call->guard->config->is_bare)
			return;
	} else if (is_missing(errno)) {
		if (call->guard->config->is_bare)
			return;
		refusal.flags = NOTICE_ASKS_HOST;
	} else if ((errno != EACCES && errno != EPERM) || !rule) {
		/* A name that is too long, a loop: nobody refuses that. Or it is there, and by its
		 * mode nobody's to read: the contract has no part in it. */
		return;
	}
	sense_refused(call, &refusal);
}

/* May a name be made or removed there? 1: yes, or it fails for another reason; 0: no; -1: there is
 * no such directory inside. */
static int may_change_names(struct call *call, const char *dir)
{
	if (call->guard->config->is_bare)
		return faccessat(AT_FDCWD, dir, F_OK, 0) == 0 ? 0 : 1;
	if (faccessat(AT_FDCWD, dir, W_OK, 0) == 0)
		return 1;
	if (is_missing(errno))
		return -1;
	return errno != EROFS && errno != EACCES && errno != EPERM;
}

static void refuse_change(struct call *call, enum sense_use use, const char *action,
			  const char *path)
{
	const struct spec *spec = call->guard->config->spec;
	char dir[PATH_MAX];
	struct sense_refusal refusal = {
		.action = action, .rule = "read-only", .object = path, .flag = "--write"};
	const bool exists = faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	struct stat st;
	int may;

	if (!exists && !is_missing(errno) && errno != EACCES)
		return;
	/* A name is its directory's. */
	above(path, dir);
	refusal.path = exists && use == SENSE_CHANGE ? path : dir;
	if (use == SENSE_MAKE && exists)
		return; /* that is why */
	if (use == SENSE_CHANGE && exists) {
		/* Whatever the contract says, no directory is opened to be written. */
		if (streq(action, "write") && lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
			return;
		if (!call->guard->config->is_bare && faccessat(AT_FDCWD, path, W_OK, 0) == 0)
			return;
	} else if (use == SENSE_MAKE || exists) {
		may = may_change_names(call, dir);
		if (may > 0)
			return;
		refusal.flags = may < 0 ? NOTICE_ASKS_ABOVE : 0;
	} else {
		if (call->guard->config->is_bare)
			return;
		refusal.flags = NOTICE_ASKS_HOST;
		refusal.path = path;
	}
	if (refusal.flags)
		refusal.rule = "not granted";
	if (spec->workspace_mode == SPEC_WORKSPACE_READ_ONLY &&
	    path_is_within(path, spec->workspace)) {
		refusal.flag = "--mode layer";
		refusal.path = "";
	}
	sense_refused(call, &refusal);
}

/* ---- in a layer ---- */

/* How the kernel shows an owner or a group that there is none for inside. */
#define NOBODY 65534

static bool is_nobodys(const struct stat *st)
{
	return st->st_uid == NOBODY || st->st_gid == NOBODY;
}

/* What is there is in the way of what is to be made, unless it is opened to be written, or
 * replaced. */
static bool is_changed(enum sense_use use, const char *action, const struct stat *st)
{
	return use != SENSE_MAKE || streq(action, "rename") ||
	       (streq(action, "create") && S_ISREG(st->st_mode));
}

/* To be changed or moved it has to be copied, with its owner. To take it away or replace it, it has
 * not; but root's kernel refuses even that, because it finds no id for it at all. */
static bool is_copied(enum sense_use use, bool is_rename)
{
	return is_rename ? use == SENSE_REMOVE : use != SENSE_REMOVE;
}

/* The kernel takes over only what belongs to those of inside, with the directories above it; to
 * anything else it answers that a value is too large, from which nobody learns anything. Where
 * there are many ids inside that one may be one of them. */
static bool is_taken_over(struct call *call, enum sense_use use, const char *action,
			  const char *path)
{
	const struct init_config *config = call->guard->config;
	const bool is_rename = streq(action, "rename");
	char dir[PATH_MAX];
	/* Root's run has no id for it in any mode. */
	struct sense_refusal refusal = {.action = action,
					.rule = "owner",
					.object = path,
					.flag = config->maps_ids ? NULL : "--direct",
					.path = config->maps_ids ? NULL : ""};
	bool exists, is_kept = false;
	struct stat st;

	if (config->has_many_ids)
		return true;
	exists = fstatat(AT_FDCWD, path, &st,
			 is_rename || use == SENSE_REMOVE ? AT_SYMLINK_NOFOLLOW : 0) == 0;
	if (exists ? !is_changed(use, action, &st) : use != SENSE_MAKE)
		return true;
	if (exists && is_nobodys(&st))
		is_kept = config->maps_ids || is_copied(use, is_rename);
	if (!is_kept)
		is_kept = stat(above(path, dir), &st) == 0 && is_nobodys(&st);
	if (is_kept)
		sense_refused(call, &refusal);
	return !is_kept;
}

/* ---- one path ---- */

/* Where all can be written that is there, and the host's directories are not. */
static bool is_at_home(enum sense_use use, const char *path)
{
	char dir[PATH_MAX];

	return faccessat(AT_FDCWD, use == SENSE_MAKE ? above(path, dir) : path, F_OK,
			 AT_SYMLINK_NOFOLLOW) == 0;
}

void sense_use(struct call *call, enum sense_use use, const char *action, const char *path)
{
	bool is_granted;
	struct guard *guard = call->guard;
	const struct init_zone *zone = NULL;
	const struct spec_rule *rule = NULL;
	uint64_t hash = sense_hash(use == SENSE_READ ? 1 : 2, path);
	uint64_t *place = &guard->sense.places[hash % SENSE_PLACES];

	if (*place == hash || strlen(path) >= PATH_MAX)
		return;
	is_granted = use == SENSE_READ ? is_read_granted(guard, path, &rule)
				       : is_write_granted(guard, path, &zone);
	if (is_granted && is_private(zone) && !guard->config->is_bare && !is_at_home(use, path))
		is_granted = false;
	else if (is_granted && !is_private(zone) &&
		 (!zone || zone->kind != INIT_ZONE_OWN || is_taken_over(call, use, action, path)))
		*place = hash;
	if (is_granted)
		return;
	if (use == SENSE_READ)
		refuse_reading(call, action, path, rule);
	else
		refuse_change(call, use, action, path);
}

/* Absolute and plain, as far as text goes; false if that cannot be had. Not by snprintf(), which
 * takes longer than all the rest. */
static bool make_absolute(struct call *call, int dir_fd, const char *path, char ret[PATH_MAX])
{
	const size_t length = strlen(path);
	size_t used = 0;
	char link[64];
	ssize_t got;

	if (path[0] != '/') {
		if (dir_fd == AT_FDCWD)
			snprintf(link, sizeof link, "/proc/%d/cwd", call->tid);
		else
			snprintf(link, sizeof link, "/proc/%d/fd/%d", call->tid, dir_fd);
		got = readlink(link, ret, PATH_MAX - 1);
		/* A pipe, a directory that is gone, one that was handed in. */
		if (got <= 0 || ret[0] != '/')
			return false;
		used = (size_t)got;
		ret[used++] = '/';
	}
	if (length >= PATH_MAX - used)
		return false;
	memcpy(ret + used, path, length + 1);
	path_normalize(ret);
	return true;
}

static void see(struct call *call, enum sense_use use, const char *action, int dir_fd, int arg)
{
	char path[PATH_MAX], whole[PATH_MAX];

	if (call_read_path(call, arg, path) == 0 && path[0] != '\0' &&
	    make_absolute(call, dir_fd, path, whole))
		sense_use(call, use, action, whole);
}

void sense_open_to_read(struct call *call, int dir_fd, const char *path)
{
	char whole[PATH_MAX];

	if (tell_is_on(&call->guard->tell) && path[0] && make_absolute(call, dir_fd, path, whole))
		sense_use(call, SENSE_READ, "read", whole);
}

/* ---- calls ---- */

static void see_open(struct call *call, int dir_fd, int arg)
{
	const int flags = (int)call->args[arg + 1];

	if (!(flags & (O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY))))
		see(call, SENSE_READ, "read", dir_fd, arg);
	else if (!(flags & O_CREAT))
		see(call, SENSE_CHANGE, "write", dir_fd, arg);
	else
		see(call, SENSE_MAKE, "create", dir_fd, arg);
}

/* By numbers: which argument is a directory's descriptor (-1: none), and which the path. */
struct shape {
	int nr;
	signed char dir, path;
	enum sense_use use;
	const char *action;
};

static const struct shape shapes[] = {
	{SYS_mkdirat, 0, 1, SENSE_MAKE, "create"},
	{SYS_mknodat, 0, 1, SENSE_MAKE, "create"},
	{SYS_symlinkat, 1, 2, SENSE_MAKE, "create"},
	{SYS_unlinkat, 0, 1, SENSE_REMOVE, "remove"},
	{SYS_renameat2, 0, 1, SENSE_REMOVE, "rename"},
	{SYS_renameat2, 2, 3, SENSE_MAKE, "rename"},
#ifdef SYS_renameat
	{SYS_renameat, 0, 1, SENSE_REMOVE, "rename"},
	{SYS_renameat, 2, 3, SENSE_MAKE, "rename"},
#endif
	{SYS_linkat, 2, 3, SENSE_MAKE, "link"},
	{SYS_truncate, -1, 0, SENSE_CHANGE, "write"},
	{SYS_fchmodat, 0, 1, SENSE_CHANGE, "chmod"},
	{SYS_fchmodat2, 0, 1, SENSE_CHANGE, "chmod"},
	{SYS_setxattr, -1, 0, SENSE_CHANGE, "set attribute"},
	{SYS_lsetxattr, -1, 0, SENSE_CHANGE, "set attribute"},
	{SYS_removexattr, -1, 0, SENSE_CHANGE, "set attribute"},
	{SYS_lremovexattr, -1, 0, SENSE_CHANGE, "set attribute"},
#ifdef __x86_64__
	{SYS_creat, -1, 0, SENSE_MAKE, "create"},
	{SYS_mkdir, -1, 0, SENSE_MAKE, "create"},
	{SYS_mknod, -1, 0, SENSE_MAKE, "create"},
	{SYS_symlink, -1, 1, SENSE_MAKE, "create"},
	{SYS_unlink, -1, 0, SENSE_REMOVE, "remove"},
	{SYS_rmdir, -1, 0, SENSE_REMOVE, "remove"},
	{SYS_rename, -1, 0, SENSE_REMOVE, "rename"},
	{SYS_rename, -1, 1, SENSE_MAKE, "rename"},
	{SYS_link, -1, 1, SENSE_MAKE, "link"},
	{SYS_chmod, -1, 0, SENSE_CHANGE, "chmod"},
#endif
};

bool sense_paths(struct call *call)
{
	bool is_one = true;

	switch (call->nr) {
#ifdef SYS_open
	case SYS_open:
		see_open(call, AT_FDCWD, 0);
		break;
#endif
	case SYS_openat:
		see_open(call, (int)call->args[0], 1);
		break;
	default:
		is_one = false;
		for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
			const struct shape *shape = &shapes[i];

			if (shape->nr != call->nr)
				continue;
			is_one = true;
			see(call, shape->use, shape->action,
			    shape->dir < 0 ? AT_FDCWD : (int)call->args[shape->dir], shape->path);
		}
	}
	return is_one;
}

bool sense_file_call(struct call *call)
{
	if (!sense_paths(call))
		return false;
	answer_continue(call);
	return true;
}
