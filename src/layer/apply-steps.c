/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/uapi.h"
#include "layer/applied-files.h"
#include "layer/apply.h"
#include "layer/layer-tree.h"
#include "layer/layer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/*
 * Steps
 *
 * Where a step stands is seen in the stage:
 *   PUT    "N.new" is what is to be put: not done. It is something else: exchanged, and to be put
 *          aside as "N.old". It is not there: done
 *   TAKE   "N.old" is there: done
 *   META   is done as often as one likes
 * Going back looks at the same, and ends with the stage as it was at the commit.
 */

/* As many directories are written to the disk one by one. */
#define SYNC_EACH_MAX 64

static int in_the_way(struct atoll_error *err, const struct op *op, const char *what)
{
	char shown[256];

	error_set(err, ATOLL_FAULT_POLICY, 0, "'%s' %s", str_show(op->path, shown, sizeof shown),
		  what);
	return -EEXIST;
}

static int failed(struct atoll_error *err, const struct op *op, int code, const char *what)
{
	char shown[256];

	return error_set(err, ATOLL_FAULT_HOST, -code, "%s '%s'", what,
			 str_show(op->path, shown, sizeof shown));
}

static bool is_staged(const struct site *site, const char *name, struct stat *ret)
{
	return fstatat(site->stage_fd, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Rename to a name that must not exist. Network file systems cannot promise that, and are looked at
 * before instead. */
static int rename_new(int from_fd, const char *from, int to_fd, const char *to)
{
	struct stat st;

	if (renameat2(from_fd, from, to_fd, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (fstatat(to_fd, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return renameat(from_fd, from, to_fd, to) < 0 ? -errno : 0;
}

/* ---- forward ---- */

/* Put in place of something: both change places, so that the name is never missing. */
static int put_over(const struct site *site, const struct op *op, int parent, const char *name)
{
	struct stage_name new = stage_new(op), old = stage_old(op);
	int r;

	LAYER_STEP("exchange");
	if (renameat2(site->stage_fd, new.text, parent, name, RENAME_EXCHANGE) == 0) {
		LAYER_STEP("put aside");
		return rename_new(site->stage_fd, new.text, site->stage_fd, old.text);
	}
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* A file system that cannot exchange: one after the other. */
	r = rename_new(parent, name, site->stage_fd, old.text);
	if (r < 0)
		return r;
	LAYER_STEP("put");
	return rename_new(site->stage_fd, new.text, parent, name);
}

static int do_put(const struct site *site, const struct op *op, struct atoll_error *err)
{
	struct stage_name new = stage_new(op), old = stage_old(op);
	cleanup_fd int parent = -1;
	const char *name;
	struct stat st;
	int r;

	if (!is_staged(site, new.text, &st))
		return 0;
	if (st.st_ino != op->after.ino) {
		r = rename_new(site->stage_fd, new.text, site->stage_fd, old.text);
		return r < 0 ? failed(err, op, r, "put aside") : 0;
	}
	if (op->staged_ns && op->staged_ns != tree_ctime_ns(&st))
		return in_the_way(err, op, "was changed in the stage, after it had been vetted");
	parent = tree_open_parent(site->workspace_fd, op->path, false, &name);
	if (parent < 0)
		return failed(err, op, parent, "reach");
	LAYER_STEP("put");
	if (op->before.mode && !is_staged(site, old.text, &st))
		r = put_over(site, op, parent, name);
	else
		r = rename_new(site->stage_fd, new.text, parent, name);
	if (r == -EEXIST || r == -ENOENT)
		return in_the_way(err, op, "was changed meanwhile");
	return r < 0 ? failed(err, op, r, "put") : 0;
}

static int do_take(const struct site *site, const struct op *op, struct atoll_error *err)
{
	struct stage_name old = stage_old(op);
	cleanup_fd int parent = -1;
	const char *name;
	struct stat st;
	int r;

	if (is_staged(site, old.text, &st))
		return 0;
	parent = tree_open_parent(site->workspace_fd, op->path, false, &name);
	if (parent < 0)
		return failed(err, op, parent, "reach");
	LAYER_STEP("take");
	r = rename_new(parent, name, site->stage_fd, old.text);
	if (r == -ENOENT)
		return in_the_way(err, op, "was removed meanwhile");
	return r < 0 ? failed(err, op, r, "take away") : 0;
}

/* Owner, mode, time and attributes become those of `wanted`. */
static int set_meta(struct site *site, const struct op *op, const struct op_object *wanted,
		    const char *template, struct atoll_error *err)
{
	struct stat attributes = op_object_stat(wanted);
	cleanup_fd int parent = -1, fd = -1, like = -1;
	const char *name;
	struct stat st;
	int r;

	parent = tree_open_parent(site->workspace_fd, op->path, false, &name);
	if (parent < 0)
		return failed(err, op, parent, "reach");
	LAYER_STEP("set attributes");
	fd = tree_open_object(parent, name, true);
	if (fd < 0 || fstat(fd, &st) < 0)
		return failed(err, op, fd < 0 ? fd : -errno, "open");
	if ((wanted->ino && wanted->ino != st.st_ino) ||
	    (st.st_mode & S_IFMT) != (wanted->mode & S_IFMT))
		return in_the_way(err, op, "was replaced meanwhile");
	if (op->has_xattrs) {
		like = tree_open_object(site->stage_fd, template, true);
		r = like < 0 ? failed(err, op, like, "open attributes of")
			     : object_copy_xattrs(like, fd, &site->loss, op->path, err);
		if (r < 0)
			return r;
	}
	return object_set_attributes(fd, &attributes, &site->loss, op->path, err);
}

static int do_open(const struct site *site, const struct op *op, uint32_t mode,
		   struct atoll_error *err)
{
	cleanup_fd int parent = -1, fd = -1;
	const char *name;
	struct stat st;

	parent = tree_open_parent(site->workspace_fd, op->path, false, &name);
	fd = parent < 0 ? parent : tree_open_object(parent, name, true);
	/* What a later step has taken away was open. */
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_ino != op->before.ino)
		return 0;
	LAYER_STEP("open a directory");
	return fchmod(fd, mode & 07777) < 0 ? failed(err, op, -errno, "set the mode of") : 0;
}

static int do_op(struct site *site, const struct op *op, struct atoll_error *err)
{
	switch (op->kind) {
	case OP_OPEN:
		return do_open(site, op, op->before.mode | 0700, err);
	case OP_TAKE:
		return do_take(site, op, err);
	case OP_PUT:
		return do_put(site, op, err);
	case OP_META:
		return set_meta(site, op, &op->after, stage_new(op).text, err);
	case OP_DIR:
		break;
	}
	return 0;
}

/* What was moved away must be what was planned with. */
static int check_moved(const struct site *site, const struct op *op, struct atoll_error *err)
{
	struct stage_name old = stage_old(op);
	cleanup_fd int fd = -1;
	struct stat st;

	if ((op->kind != OP_PUT && op->kind != OP_TAKE) || !is_staged(site, old.text, &st))
		return 0;
	if (!op_object_is(&op->before, &st))
		return in_the_way(err, op, "was changed meanwhile");
	if (!S_ISDIR(st.st_mode))
		return 0;
	fd = tree_open_object(site->stage_fd, old.text, true);
	if (fd < 0)
		return failed(err, op, fd, "look through");
	return object_print(fd) == op->tree ? 0 : in_the_way(err, op, "was changed meanwhile");
}

/* ---- back ---- */

static int back_put(const struct site *site, const struct op *op, struct atoll_error *err)
{
	struct stage_name new = stage_new(op), old = stage_old(op);
	const char *name;
	cleanup_fd int parent = tree_open_parent(site->workspace_fd, op->path, false, &name);
	struct stat st;
	bool is_old = is_staged(site, old.text, &st);
	int r;

	if (is_old && st.st_ino == op->after.ino) { /* exchanged back already */
		r = rename_new(site->stage_fd, old.text, site->stage_fd, new.text);
		return r < 0 ? failed(err, op, r, "put aside") : 0;
	}
	if (is_staged(site, new.text, &st) && st.st_ino == op->after.ino && !is_old)
		return 0;
	if (parent < 0)
		return failed(err, op, parent, "reach");
	LAYER_STEP("put back");
	if (is_staged(site, new.text, &st) && st.st_ino != op->after.ino)
		old = new; /* exchanged and not yet put aside */
	if (is_staged(site, new.text, &st) && st.st_ino == op->after.ino) {
		r = rename_new(site->stage_fd, old.text, parent, name);
		return r < 0 ? failed(err, op, r, "put back") : 0;
	}
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_ino != op->after.ino)
		return in_the_way(err, op, "was changed meanwhile");
	if (!is_old && !streq(old.text, new.text)) {
		r = rename_new(parent, name, site->stage_fd, new.text);
		return r < 0 ? failed(err, op, r, "take away") : 0;
	}
	r = renameat2(site->stage_fd, old.text, parent, name, RENAME_EXCHANGE) < 0 ? -errno : 0;
	if (r == -EINVAL || r == -ENOSYS) {
		r = rename_new(parent, name, site->stage_fd, new.text);
		if (r == 0)
			r = rename_new(site->stage_fd, old.text, parent, name);
		return r < 0 ? failed(err, op, r, "put back") : 0;
	}
	if (r == 0 && !streq(old.text, new.text))
		r = rename_new(site->stage_fd, old.text, site->stage_fd, new.text);
	return r < 0 ? failed(err, op, r, "put back") : 0;
}

static int back_take(const struct site *site, const struct op *op, struct atoll_error *err)
{
	struct stage_name old = stage_old(op);
	cleanup_fd int parent = -1;
	const char *name;
	struct stat st;
	int r;

	if (!is_staged(site, old.text, &st))
		return 0;
	parent = tree_open_parent(site->workspace_fd, op->path, false, &name);
	if (parent < 0)
		return failed(err, op, parent, "reach");
	LAYER_STEP("put back");
	r = rename_new(site->stage_fd, old.text, parent, name);
	if (r == -EEXIST)
		return in_the_way(err, op, "has been made anew");
	return r < 0 ? failed(err, op, r, "put back") : 0;
}

static int back_op(struct site *site, const struct op *op, struct atoll_error *err)
{
	int r;

	switch (op->kind) {
	case OP_OPEN:
		return do_open(site, op, op->before.mode, err);
	case OP_TAKE:
		return back_take(site, op, err);
	case OP_PUT:
		return back_put(site, op, err);
	case OP_META:
		r = set_meta(site, op, &op->before, stage_old(op).text, err);
		/* Of a directory that a step puts there, perhaps it is not there yet. */
		return op->before.ino ? r : 0;
	case OP_DIR:
		break;
	}
	return 0;
}

/* ---- the whole ---- */

static int sync_parents(const struct site *site, const struct journal *journal)
{
	if (journal->n > SYNC_EACH_MAX)
		return syncfs(site->workspace_fd) < 0 ? -errno : 0;
	for (size_t i = 0; i < journal->n; i++) {
		const struct op *op = &journal->ops[i];
		const char *slash = strrchr(op->path, '/');
		cleanup_free char *above =
			slash ? strndup(op->path, (size_t)(slash - op->path)) : strdup("");
		cleanup_fd int fd = -1;

		if (!above)
			return -ENOMEM;
		fd = tree_open_dir(site->workspace_fd, above, false);
		/* A directory that may not be read is on the disk with the rest. */
		if (fd < 0 ? syncfs(site->workspace_fd) < 0 : fsync(fd) < 0)
			return -errno;
	}
	if (fsync(site->stage_fd) < 0 || fsync(site->workspace_fd) < 0)
		return -errno;
	return 0;
}

static int go_forward(struct site *site, const struct journal *journal, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; i < journal->n && r == 0; i++)
		r = do_op(site, &journal->ops[i], err);
	for (size_t i = 0; i < journal->n && r == 0; i++)
		r = check_moved(site, &journal->ops[i], err);
	if (r < 0)
		return r;
	LAYER_STEP("write to the disk");
	r = sync_parents(site, journal);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "write to the disk") : 0;
}

int steps_go_back(struct site *site, struct journal *journal, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = journal->n; i > 0 && r == 0; i--)
		r = back_op(site, &journal->ops[i - 1], err);
	if (r == 0) {
		r = sync_parents(site, journal);
		r = r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "write to the disk") : 0;
	}
	if (r == 0)
		r = steps_note(site, journal, err);
	if (r == 0)
		r = steps_forget(site, journal, err);
	return r;
}

int steps_forget(struct site *site, const struct journal *journal, struct atoll_error *err)
{
	char saved[32];
	int r = site_remove_stage(site, err);

	if (r < 0)
		return r;
	snprintf(saved, sizeof saved, "apply-%" PRIu64, journal->number);
	if (journal->kind == JOURNAL_APPLY && journal->number > 0)
		object_remove(site->record->fd, saved);
	return journal_end(site->record, NULL, err);
}

static int note_broken(struct site *site, int code, struct atoll_error *err)
{
	struct layer_record *record = site->record;

	record->info.state = ATOLL_RECORD_BROKEN;
	layer_record_save(record, NULL);
	return error_context(err, code,
			     "record %s is half way; whatever uses it next goes on from there",
			     record->info.id);
}

int steps_run(struct site *site, struct journal *journal, struct atoll_error *err)
{
	struct atoll_error more = {0};
	int r = go_forward(site, journal, err), back;

	if (r == 0)
		r = journal_mark(site->record, journal, JOURNAL_DONE, err);
	if (r == 0)
		return steps_finish(site, journal, err);
	back = journal_mark(site->record, journal, JOURNAL_ABORTED, &more);
	if (back == 0)
		back = steps_go_back(site, journal, &more);
	if (back < 0) {
		*err = more;
		return note_broken(site, back, err);
	}
	return error_context(err, r, "nothing was changed");
}

/* ---- all of it ---- */

static int stage_and_commit(struct site *site, struct journal *journal,
			    int (*stage)(void *data, struct atoll_error *err), void *data,
			    struct atoll_error *err)
{
	int r = site_make_stage(site, err);

	if (r == 0)
		r = stage(data, err);
	if (r < 0)
		return r;
	journal_sort(journal);
	return journal_commit(site->record, journal, err);
}

static int carry_out_deaf(struct site *site, struct journal *journal,
			  int (*stage)(void *data, struct atoll_error *err), void *data,
			  struct atoll_error *err)
{
	int r = plan_add_directories(site, journal, err);

	if (r == 0)
		r = journal_begin(site->record, journal, err);
	if (r < 0)
		return r;
	r = stage_and_commit(site, journal, stage, data, err);
	if (r == 0)
		return steps_run(site, journal, err);
	/* Another's directory of that name is not ours to remove. */
	if (site->stage_fd < 0)
		journal_end(site->record, NULL, NULL);
	else
		steps_forget(site, journal, NULL);
	return error_context(err, r, "nothing was changed");
}

int steps_carry_out(struct site *site, struct journal *journal,
		    int (*stage)(void *data, struct atoll_error *err), void *data,
		    struct atoll_error *err)
{
	int r;

	site_go_deaf(site);
	r = carry_out_deaf(site, journal, stage, data, err);
	site_hear(site);
	return r;
}
