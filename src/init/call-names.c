/* SPDX-License-Identifier: Apache-2.0 */
#include "init/call.h"

#include "base/fd.h"
#include "base/str.h"
#include "base/uapi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

/* Names that come and go. */

static const char what_link[] = "symbolic link in the git directory";

int call_mkdir(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	int r, at = call->nr == SYS_mkdirat;

	call->action = "create";
	r = call_resolve(call, 0, at, 0, &target);
	if (r < 0 || call_leave(call, &target))
		return r;
	if (target.object >= 0 ||
	    faccessat(target.parent, target.name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	r = call_permit_new(call, &target, NAMES_MKDIR);
	if (r == 0)
		r = call_take_umask(call);
	if (r < 0)
		return r;
	if (mkdirat(target.parent, target.name, (mode_t)call->args[at + 1]) < 0)
		return -errno;
	return call_keep_or_undo(call, &target, NAMES_MKDIR);
}

int call_mknod(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	int r, at = call->nr == SYS_mknodat;
	mode_t mode = (mode_t)call->args[at + 1];

	call->action = "create";
	r = call_resolve(call, 0, at, 0, &target);
	if (r < 0 || call_leave(call, &target))
		return r;
	if (target.object >= 0)
		return -EEXIST;
	r = call_permit_new(call, &target, NAMES_CREATE);
	if (r == 0)
		r = guard_permit_special(call, &target, mode);
	if (r == 0)
		r = call_take_umask(call);
	if (r < 0)
		return r;
	if (mknodat(target.parent, target.name, mode, 0) < 0)
		return -errno;
	return call_keep_or_undo(call, &target, NAMES_CREATE);
}

int call_symlink(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	int r, at = call->nr == SYS_symlinkat;
	enum git_verdict verdict;
	char text[PATH_MAX];

	call->action = "create";
	r = call_read_path(call, 0, text);
	if (r == 0)
		r = call_resolve(call, 1, at, 0, &target);
	if (r < 0 || call_leave(call, &target))
		return r;
	if (target.object >= 0)
		return -EEXIST;
	r = guard_permit(call, &target, NAMES_SYMLINK, false, &verdict);
	if (r == 0 && verdict != GIT_ALLOW &&
	    (verdict != GIT_VET_LINK || !streq(text, GIT_PROBE_TEXT)))
		r = guard_refuse(call, EPERM, what_link);
	if (r == 0)
		r = guard_permit_link(call, &target, text);
	if (r == 0)
		r = call_count_one(call, &target);
	if (r < 0)
		return r;
	if (symlinkat(text, target.parent, target.name) < 0)
		return -errno;
	r = guard_confirm_place(call, &target);
	if (r < 0) {
		unlinkat(target.parent, target.name, 0);
		return r;
	}
	return call_keep_or_undo(call, &target, NAMES_SYMLINK);
}

int call_unlink(struct call *call)
{
	cleanup_target struct target target = TARGET_INIT;
	struct sense_before before;
	int r, at = call->nr == SYS_unlinkat;
	int flags = at ? (int)call->args[2] : 0;

#ifdef SYS_rmdir
	if (call->nr == SYS_rmdir)
		flags = AT_REMOVEDIR;
#endif
	call->action = "remove";
	r = call_resolve(call, 0, at, 0, &target);
	if (r < 0 || call_leave(call, &target))
		return r;
	if (target.object >= 0)
		return flags & AT_REMOVEDIR ? -EINVAL : -EISDIR;
	if (target.wants_dir && !(flags & AT_REMOVEDIR))
		return -ENOTDIR;
	if (faccessat(target.parent, target.name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	/* An empty directory takes nothing away with it. */
	r = call_permit_plain(call, &target, NAMES_REMOVE, false);
	if (r < 0)
		return r;
	guard_forget(call->guard, target.parent, target.name);
	sense_look_before(call, &target, &before);
	if (unlinkat(target.parent, target.name, flags) < 0)
		return -errno;
	sense_changed(call, &target, NULL, &before);
	return 0;
}

/* Where something comes from and where it goes; both are ours, or all is answered. */
static int resolve_both(struct call *call, bool at, int flags, struct target *from,
			struct target *to)
{
	int r = call_resolve(call, 0, at, flags, from);

	if (r == 0)
		r = call_resolve(call, at ? 2 : 1, at, 0, to);
	if (r < 0)
		return r;
	if (call_is_ours(call, from) != call_is_ours(call, to))
		return -EXDEV;
	if (call_is_ours(call, from))
		return 0;
	if (tell_is_on(&call->guard->tell) && !to->is_foreign)
		sense_use(call, SENSE_MAKE, call->action, to->path);
	if (!streq(call->action, "link"))
		call_see(call, from);
	answer_continue(call);
	return 0;
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
	int r = call_permit_plain(call, from, NAMES_REMOVE, S_ISDIR(st->st_mode));

	call->moves_from = from->path;
	if (r == 0)
		r = guard_permit(call, to, arrival(st), S_ISDIR(st->st_mode), ret_verdict);
	if (r == 0 && *ret_verdict == GIT_VET_LINK)
		r = guard_refuse(call, EPERM, what_link);
	if (r == 0)
		r = guard_permit_special(call, to, st->st_mode);
	if (r == 0 && S_ISLNK(st->st_mode))
		return guard_permit_same_link(call, from, to);
	return r == 0 && S_ISDIR(st->st_mode) ? guard_permit_tree(call, from, to) : r;
}

/* After the rename. */
static int confirm_move(struct call *call, const struct target *from, const struct target *to,
			const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return guard_confirm_tree(call, from, to);
	return S_ISLNK(st->st_mode) ? guard_confirm_place(call, to) : 0;
}

/* Somebody may have taken the old name meanwhile. Then it gets one that every guard refuses to its
 * callers, in its old directory, where links in it lead to where they led. */
static void take_back(const struct target *from, const struct target *to, unsigned flags,
		      const struct stat *st)
{
	char name[64];

	if (renameat2(to->parent, to->name, from->parent, from->name,
		      flags & RENAME_EXCHANGE ? RENAME_EXCHANGE : RENAME_NOREPLACE) == 0)
		return;
	snprintf(name, sizeof name, ".atoll-moved-%llx-%llx", (unsigned long long)st->st_dev,
		 (unsigned long long)st->st_ino);
	if (S_ISLNK(st->st_mode))
		unlinkat(to->parent, to->name, 0);
	else
		renameat2(to->parent, to->name, from->parent, name, RENAME_NOREPLACE);
}

static int rename_now(struct call *call, const struct target *from, const struct target *to,
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
		if (flags || verdict == GIT_COMMONDIR || verdict == GIT_VET_POINTER)
			return -EINVAL;
		if (verdict == GIT_VET_INDEX)
			return guard_install_index(call, from, to);
		if (verdict == GIT_VET_REFS)
			return guard_install_refs(call, from, to);
		return guard_install_config(call, from, to, verdict == GIT_VET_SUBMODULE_CONFIG);
	}
	if (replaces && !(flags & RENAME_EXCHANGE))
		guard_forget(call->guard, to->parent, to->name);
	if (renameat2(from->parent, from->name, to->parent, to->name, flags) < 0)
		return -errno;
	r = guard_confirm(call);
	if (r == 0)
		r = confirm_move(call, from, to, &st);
	if (r == 0 && (flags & RENAME_EXCHANGE) && replaces)
		r = confirm_move(call, to, from, &over);
	if (r == 0)
		guard_made(call, to, arrival(&st));
	else
		take_back(from, to, flags, &st);
	return r;
}

static int do_rename(struct call *call, const struct target *from, const struct target *to,
		     unsigned flags)
{
	struct sense_before before;
	int r;

	sense_look_before(call, to, &before);
	r = rename_now(call, from, to, flags);
	if (r == 0)
		sense_changed(call, to, from->path, &before);
	return r;
}

int call_rename(struct call *call)
{
	cleanup_target struct target from = TARGET_INIT, to = TARGET_INIT;
	const __u64 *a = call->args;
	bool at = true;
	int r;

#ifdef SYS_rename
	at = call->nr != SYS_rename;
#endif
	call->action = "rename";
	r = resolve_both(call, at, 0, &from, &to);
	if (r < 0 || call->is_answered)
		return r;
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
	r = call_permit_content(call, from, false);
	if (r == 0)
		r = call_permit_plain(call, to, arrival(&st), false);
	if (r == 0)
		r = guard_permit_special(call, to, st.st_mode);
	if (r == 0 && S_ISLNK(st.st_mode) && from->object < 0)
		r = guard_permit_same_link(call, from, to);
	if (r == 0)
		r = call_count_one(call, to);
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
	r = S_ISLNK(st.st_mode) ? guard_confirm_place(call, to) : 0;
	if (r < 0) {
		unlinkat(to->parent, to->name, 0);
		return r;
	}
	return call_keep_or_undo(call, to, arrival(&st));
}

int call_link(struct call *call)
{
	cleanup_target struct target from = TARGET_INIT, to = TARGET_INIT;
	bool at = call->nr == SYS_linkat;
	int r, flags = at ? (int)call->args[4] : 0;

	call->action = "link";
	r = resolve_both(call, at, flags, &from, &to);
	if (r < 0 || call->is_answered)
		return r;
	return do_link(call, &from, &to);
}
