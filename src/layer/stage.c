/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/applied-files.h"
#include "layer/apply.h"
#include "layer/layer-tree.h"
#include "layer/layer.h"
#include "layer/select.h"
#include "layer/vet.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* ---- where it happens ---- */

int site_open(struct layer_record *record, bool is_recovery, struct site *ret,
	      struct atoll_error *err)
{
	const char *workspace = record->info.workspace;
	cleanup_fd int fd = open(workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open the workspace '%s'",
				 workspace);
	if (fstat(fd, &st) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "look at the workspace '%s'",
				 workspace);
	/* A disk may have another number after a restart, and the journal has to be ended then. */
	if (st.st_ino != record->workspace_ino ||
	    (st.st_dev != record->workspace_dev && !is_recovery))
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "'%s' is not the directory any more that record %s is of; "
				 "nothing was changed",
				 workspace, record->info.id);
	*ret = (struct site){.record = record, .workspace_fd = take_fd(&fd), .stage_fd = -1};
	snprintf(ret->stage_name, sizeof ret->stage_name, STAGE_PREFIX "%s", record->info.id);
	return 0;
}

void site_close(struct site *site)
{
	if (site->workspace_fd >= 0)
		close(site->workspace_fd);
	if (site->stage_fd >= 0)
		close(site->stage_fd);
	site->workspace_fd = site->stage_fd = -1;
}

int site_open_stage(struct site *site, struct atoll_error *err)
{
	int fd = openat(site->workspace_fd, site->stage_name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno != ENOENT)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open '%s/%s'",
				 site->record->info.workspace, site->stage_name);
	site->stage_fd = fd;
	return 0;
}

int site_make_stage(struct site *site, struct atoll_error *err)
{
	LAYER_STEP("make the stage");
	if (mkdirat(site->workspace_fd, site->stage_name, 0700) < 0) {
		if (errno == EEXIST)
			return error_set(err, ATOLL_FAULT_POLICY, EEXIST,
					 "'%s/%s' is in the way; remove it",
					 site->record->info.workspace, site->stage_name);
		return error_set(err, ATOLL_FAULT_HOST, errno, "write in the workspace '%s'",
				 site->record->info.workspace);
	}
	return site_open_stage(site, err);
}

int site_remove_stage(struct site *site, struct atoll_error *err)
{
	int r;

	LAYER_STEP("remove the stage");
	r = object_remove(site->workspace_fd, site->stage_name);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "remove '%s/%s'",
				 site->record->info.workspace, site->stage_name);
	if (site->stage_fd >= 0)
		close(site->stage_fd);
	site->stage_fd = -1;
	return 0;
}

int site_stat(const struct site *site, const char *path, struct stat *ret)
{
	const char *name;
	cleanup_fd int parent = tree_open_parent(site->workspace_fd, path, false, &name);
	struct stat root;

	if (parent < 0)
		return parent;
	if (fstatat(parent, name, ret, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fstat(site->workspace_fd, &root) < 0)
		return -errno;
	/* A mount, or a subvolume: nothing can be renamed into or out of it. */
	return S_ISDIR(ret->st_mode) && ret->st_dev != root.st_dev ? -EXDEV : 0;
}

uint64_t site_tree_print(const struct site *site, const char *path)
{
	cleanup_fd int fd = tree_open_dir(site->workspace_fd, path, false);

	return fd < 0 ? 0 : object_print(fd);
}

void site_go_deaf(struct site *site)
{
	sigset_t set;

	object_stop_signals(&set);
	sigprocmask(SIG_BLOCK, &set, &site->heard);
}

void site_hear(struct site *site)
{
	sigprocmask(SIG_SETMASK, &site->heard, NULL);
}

static struct stage_name slot_name(const struct op *op, const char *suffix)
{
	struct stage_name name;

	snprintf(name.text, sizeof name.text, "%" PRIu64 "%s", op->slot, suffix);
	return name;
}

struct stage_name stage_new(const struct op *op)
{
	return slot_name(op, ".new");
}

struct stage_name stage_old(const struct op *op)
{
	return slot_name(op, ".old");
}

/* ---- copies ---- */

static int open_host(const struct site *site, const char *path, struct atoll_error *err)
{
	const char *name;
	cleanup_fd int parent = tree_open_parent(site->workspace_fd, path, false, &name);
	char shown[256];
	int fd = parent < 0 ? parent : tree_open_object(parent, name, false);

	if (fd == -EACCES)
		return error_set(err, ATOLL_FAULT_HOST, EACCES,
				 "'%s' cannot be read, so undo could not bring it back; make it "
				 "readable first",
				 str_show(path, shown, sizeof shown));
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, -fd, "open '%s'",
				 str_show(path, shown, sizeof shown));
	return fd;
}

/* An empty file or directory with the attributes of another. */
static int make_template(int dir_fd, const char *name, int like_fd, const char *path,
			 struct object_loss *loss, struct atoll_error *err)
{
	cleanup_fd int fd = -1;
	struct stat st;
	int r;

	if (fstat(like_fd, &st) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "look at '%.300s'", path);
	if (S_ISDIR(st.st_mode) && mkdirat(dir_fd, name, 0700) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "copy attributes of '%.300s'", path);
	fd = S_ISDIR(st.st_mode)
		     ? openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
		     : openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			      0600);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "copy attributes of '%.300s'", path);
	r = object_copy_xattrs(like_fd, fd, loss, path, err);
	if (r == 0 && fsync(fd) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "copy attributes of '%.300s'", path);
	return r;
}

/* Both sides of a META whose attributes differ; `after_fd` has what it becomes. */
static int stage_meta(struct site *site, int saved_fd, const struct op *op, int after_fd,
		      struct atoll_error *err)
{
	cleanup_fd int host = -1;
	int r;

	if (!op->has_xattrs)
		return 0;
	host = open_host(site, op->path, err);
	if (host < 0)
		return host;
	r = make_template(site->stage_fd, stage_new(op).text, after_fd, op->path, &site->loss, err);
	if (r == 0)
		r = make_template(site->stage_fd, stage_old(op).text, host, op->path, NULL, err);
	if (r == 0 && saved_fd >= 0)
		r = make_template(saved_fd, slot_name(op, "").text, host, op->path, NULL, err);
	return r;
}

/* The staged object's number tells later whether a step is done. Its type is the planned one: a
 * command that still runs may have put something else there since. */
static int note_staged(const struct site *site, struct op *op, struct atoll_error *err)
{
	char shown[256];
	struct stat st;

	if (fstatat(site->stage_fd, stage_new(op).text, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "look at the stage");
	if ((st.st_mode ^ op->after.mode) & S_IFMT)
		return error_set(err, ATOLL_FAULT_POLICY, EAGAIN,
				 "'%s' changed while it was copied; wait until nobody writes it",
				 str_show(op->path, shown, sizeof shown));
	op->after.ino = st.st_ino;
	op->after.size = S_ISDIR(st.st_mode) ? 0 : (uint64_t)st.st_size;
	if (!S_ISDIR(st.st_mode))
		op->after.mode = st.st_mode;
	return 0;
}

/* Once all of it is on the disk, and before it is vetted: a copy that has another time of change
 * when it is put is not the one that was vetted. Names of one file move each other's. */
static int note_times(const struct site *site, struct journal *journal, struct plan_item *items,
		      struct atoll_error *err)
{
	for (size_t i = 0; i < journal->n; i++) {
		struct op *op = &journal->ops[i];
		struct stat st;

		if (op->kind != OP_PUT)
			continue;
		if (fstatat(site->stage_fd, stage_new(op).text, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    st.st_ino != op->after.ino)
			return error_set(err, ATOLL_FAULT_HOST, ESTALE, "look at the stage");
		op->staged_ns = S_ISREG(st.st_mode) && st.st_nlink > 1 ? 0 : tree_ctime_ns(&st);
		if (items)
			items[op->slot - 1].staged = st;
	}
	return 0;
}

/* A file that the host obeys gets no second name: what a direct run writes there is not looked at.
 */
static bool is_alone(const struct plan *plan, const char *path)
{
	const struct atoll_changes *list = &plan->changes->list;
	size_t i = select_find(list, plan->order, path);

	return (i < list->n && list->items[i].mark) ||
	       vet_is_guarded(plan->site->record->info.workspace, path);
}

static int stage_put(struct plan *plan, struct object_copier *copier, struct op *op, int fd,
		     struct atoll_error *err)
{
	const struct plan_item *item = &plan->items[op->slot - 1];
	struct stage_name name = stage_new(op);
	int r;

	LAYER_STEP("stage");
	copier->is_alone = is_alone(plan, op->path);
	if (item->merged)
		r = object_copy_with(copier, fd, item->merged, item->merged_size, name.text,
				     op->path, err);
	else
		r = object_copy(copier, fd, name.text, false, false, op->path, err);
	return r < 0 ? r : note_staged(plan->site, op, err);
}

static int save(struct plan *plan, struct object_copier *saver, const struct op *op,
		struct atoll_error *err)
{
	cleanup_fd int fd = -1;

	if (op->before.mode == 0 || op->kind == OP_META || op->kind == OP_DIR ||
	    op->kind == OP_OPEN)
		return 0;
	fd = open_host(plan->site, op->path, err);
	if (fd < 0)
		return fd;
	LAYER_STEP("save");
	return object_copy(saver, fd, slot_name(op, "").text, true, true, op->path, err);
}

static int stage_op(struct plan *plan, struct object_copier *copier, struct object_copier *saver,
		    struct op *op, struct atoll_error *err)
{
	cleanup_fd int fd = -1;
	int r = save(plan, saver, op, err);

	if (r < 0 || (op->kind != OP_PUT && op->kind != OP_META))
		return r;
	if (op->kind == OP_META && !op->has_xattrs)
		return 0;
	fd = layer_stack_open_after(&plan->changes->stack, op->path);
	if (layer_has_moved(fd))
		fd = -EAGAIN; /* it was there when the plan was made */
	if (fd < 0)
		return error_set(err, fd == -EAGAIN ? ATOLL_FAULT_POLICY : ATOLL_FAULT_HOST, -fd,
				 "open '%.300s' in the layer", op->path);
	if (op->kind == OP_META)
		return stage_meta(plan->site, saver->to_fd, op, fd, err);
	return stage_put(plan, copier, op, fd, err);
}

static int make_saved(const struct site *site, const struct journal *journal,
		      struct atoll_error *err)
{
	char name[32];
	int fd = -1;

	snprintf(name, sizeof name, "apply-%" PRIu64, journal->number);
	LAYER_STEP("make room for copies");
	/* One of an apply that was undone may be left, should the machine have stopped just then.
	 */
	object_remove(site->record->fd, name);
	if (mkdirat(site->record->fd, name, 0700) == 0)
		fd = openat(site->record->fd, name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make '%s' in record %s", name,
				 site->record->info.id);
	return fd;
}

/* The two directories' own names. */
static int sync_names(const struct site *site, struct atoll_error *err)
{
	if (fsync(site->workspace_fd) < 0 || fsync(site->record->fd) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "write to the disk");
	return 0;
}

int stage_plan(struct plan *plan, struct atoll_error *err)
{
	struct site *site = plan->site;
	cleanup_fd int saved_fd = make_saved(site, &plan->journal, err);
	cleanup_with(object_copier_done) struct object_copier copier = {.to_fd = site->stage_fd,
									.loss = &site->loss,
									.is_ours = true},
							      saver = {.to_fd = saved_fd,
								       .loss = &site->loss};
	int r = saved_fd < 0 ? saved_fd : 0;
	struct stat st;

	if (r == 0 && fstat(site->workspace_fd, &st) < 0)
		r = error_set(err, ATOLL_FAULT_HOST, errno, "look at the workspace");
	copier.owner_uid = r < 0 ? (uid_t)-1 : st.st_uid;
	copier.owner_gid = r < 0 ? (gid_t)-1 : st.st_gid;
	for (size_t i = 0; i < plan->journal.n && r == 0; i++)
		r = stage_op(plan, &copier, &saver, &plan->journal.ops[i], err);
	if (r == 0)
		r = object_copier_sync(&copier, err);
	if (r == 0)
		r = object_copier_sync(&saver, err);
	if (r == 0)
		r = note_times(site, &plan->journal, plan->items, err);
	if (r == 0)
		r = vet_plan(plan, err);
	return r < 0 ? r : sync_names(site, err);
}

/* ---- for an undo ---- */

static int stage_saved_op(struct site *site, struct object_copier *copier, int saved_fd,
			  struct op *op, struct atoll_error *err)
{
	struct stage_name saved = slot_name(op, "");
	cleanup_fd int fd = -1;
	int r;

	if (op->kind != OP_PUT && !(op->kind == OP_META && op->has_xattrs))
		return 0;
	fd = tree_open_object(saved_fd, saved.text, true);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, -fd,
				 "open the copy of '%.300s' that was kept for undo", op->path);
	if (op->kind == OP_META)
		return stage_meta(site, -1, op, fd, err);
	LAYER_STEP("stage");
	r = object_copy(copier, fd, stage_new(op).text, true, false, op->path, err);
	return r < 0 ? r : note_staged(site, op, err);
}

int stage_saved(struct site *site, struct journal *journal, struct atoll_error *err)
{
	cleanup_with(object_copier_done) struct object_copier copier = {
		.to_fd = site->stage_fd, .loss = &site->loss, .is_ours = true};
	cleanup_fd int saved_fd = -1;
	char name[32];
	int r = 0;

	snprintf(name, sizeof name, "apply-%" PRIu64, journal->number);
	saved_fd = openat(site->record->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (saved_fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open '%s' of record %s", name,
				 site->record->info.id);
	for (size_t i = 0; i < journal->n && r == 0; i++)
		r = stage_saved_op(site, &copier, saved_fd, &journal->ops[i], err);
	if (r == 0)
		r = object_copier_sync(&copier, err);
	if (r == 0)
		r = note_times(site, journal, NULL, err);
	return r < 0 ? r : sync_names(site, err);
}
