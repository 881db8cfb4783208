/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/str.h"
#include "layer/applied-files.h"
#include "layer/apply.h"
#include "layer/layer-tree.h"
#include "layer/layer.h"
#include "layer/select.h"

#include <errno.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>

/*
 * From changes to steps
 *
 * What the list says about the host was true a moment ago; here everything that is to be changed is
 * looked at once more, and what is different is a conflict as well. Changes are gone through by
 * path, so what is above has its step before what is beneath.
 */

#define MERGE_MAX ((size_t)1 << 20)

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static bool is_put(const struct plan *plan, const char *path)
{
	return tfind(path, &plan->puts, by_text) != NULL;
}

/* Will something above it be new? Then what the host has there now does not matter. */
static bool is_beneath_put(const struct plan *plan, const char *path)
{
	cleanup_free char *above = strdup(path);
	char *slash;

	while (above && (slash = strrchr(above, '/'))) {
		*slash = '\0';
		if (is_put(plan, above))
			return true;
	}
	return false;
}

static int add_conflict(struct plan *plan, size_t change, bool is_stuck, const char *why)
{
	if (plan->options->is_forced && !is_stuck)
		return 0;
	plan->fates[change] = FATE_CONFLICT;
	plan->is_stuck |= is_stuck;
	if (!plan->why[change])
		plan->why[change] = strdup(why);
	return 1;
}

static struct op *add_op(struct plan *plan, enum op_kind kind, const char *path,
			 const struct stat *before, const struct stat *after,
			 struct atoll_error *err)
{
	struct op *op = journal_add(&plan->journal, kind, path);
	struct plan_item *more = NULL;

	if (op)
		more = reallocarray(plan->items, op->slot, sizeof *more);
	if (!op || !more || (kind == OP_PUT && !tsearch(op->path, &plan->puts, by_text))) {
		error_oom(err);
		return NULL;
	}
	plan->items = more;
	plan->n_items = op->slot;
	more[plan->n_items - 1] = (struct plan_item){0};
	if (before && before->st_mode) {
		op_object_from(&op->before, before);
		op->is_foreign = !S_ISDIR(before->st_mode) &&
				 known_is_foreign(plan->site->record, plan->known, path, before);
	}
	if (after)
		op_object_from(&op->after, after);
	return op;
}

/* What the host has; mode 0: nothing. 1 if there is no way to it, which is a conflict then. */
static int look(struct plan *plan, size_t change, const char *path, struct stat *ret,
		struct atoll_error *err)
{
	int r = is_beneath_put(plan, path) ? -ENOENT : site_stat(plan->site, path, ret);

	switch (r) {
	case 0:
		return 0;
	case -ENOENT:
	case -ENOTDIR:
		*ret = (struct stat){0};
		return 0;
	case -ELOOP:
		return add_conflict(plan, change, true,
				    "a directory above it has become a link on the host");
	case -EXDEV:
		return add_conflict(plan, change, true,
				    "it lies on another file system than the workspace");
	default:
		return error_set(err, ATOLL_FAULT_HOST, -r, "look at '%.300s'", path);
	}
}

/* Is the host's still what the list was made from? */
static bool is_as_listed(const struct stat *listed, const struct stat *now)
{
	if (listed->st_mode == 0 || now->st_mode == 0)
		return listed->st_mode == now->st_mode;
	if (S_ISDIR(listed->st_mode) && S_ISDIR(now->st_mode))
		return true;
	return listed->st_ino == now->st_ino && tree_ctime_ns(listed) == tree_ctime_ns(now);
}

/* ---- taking away ---- */

struct foreign {
	struct plan *plan;
	const char *above;
	char *found;
};

/* In a directory that goes everything is listed; what is not has just come. */
static int see_foreign(const char *path, const struct stat *st, void *data)
{
	struct foreign *search = data;
	cleanup_free char *whole = NULL;

	if (S_ISDIR(st->st_mode))
		return 0;
	if (asprintf(&whole, "%s/%s", search->above, path) < 0)
		return -ENOMEM;
	if (!known_is_foreign(search->plan->site->record, search->plan->known, whole, st))
		return 0;
	search->found = take_ptr(whole);
	return 1;
}

static int check_tree(struct plan *plan, size_t change, const char *path, bool *ret_foreign,
		      struct atoll_error *err)
{
	cleanup_fd int fd = tree_open_dir(plan->site->workspace_fd, path, false);
	struct foreign search = {plan, path, NULL};
	char why[320], shown[256];
	int r;

	r = fd < 0 ? fd : object_walk(fd, see_foreign, &search);
	if (r == -EXDEV)
		return add_conflict(plan, change, true,
				    "a file system is mounted in it on the host");
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "read directory '%.300s'", path);
	if (r == 0)
		return 0;
	snprintf(why, sizeof why, "'%s' in it was changed on the host since",
		 str_show(search.found, shown, sizeof shown));
	free(search.found);
	*ret_foreign = true;
	return add_conflict(plan, change, false, why);
}

static int add_take(struct plan *plan, size_t i, const char *path, const struct stat *listed,
		    struct atoll_error *err)
{
	bool is_foreign = false;
	uint64_t tree = 0;
	struct stat now;
	struct op *op;
	int r = look(plan, i, path, &now, err);

	if (r != 0 || now.st_mode == 0)
		return r < 0 ? r : 0;
	if (!is_as_listed(listed, &now) &&
	    add_conflict(plan, i, false, "changed on the host just now"))
		return 0;
	if (S_ISDIR(now.st_mode)) {
		tree = site_tree_print(plan->site, path);
		r = check_tree(plan, i, path, &is_foreign, err);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	op = add_op(plan, OP_TAKE, path, &now, NULL, err);
	if (!op)
		return -ENOMEM;
	op->is_foreign |= is_foreign;
	op->tree = tree;
	return 0;
}

/* ---- putting there ---- */

/* The text as it was when the run began, if it was kept. */
static int read_base(const struct plan *plan, const char *path, struct buf *out)
{
	cleanup_fd int dir = openat(plan->site->record->fd, "base",
				    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_fd int parent = -1, fd = -1;
	const char *name;

	if (dir < 0)
		return -errno;
	parent = tree_open_parent(dir, path, true, &name);
	fd = parent < 0 ? parent : tree_open_object(parent, name, true);
	return fd < 0 ? fd : tree_read_file(fd, MERGE_MAX, out);
}

static int read_host(const struct plan *plan, const char *path, struct buf *out)
{
	cleanup_fd int fd = layer_stack_open_before(&plan->changes->stack, path);

	return fd < 0 ? fd : tree_read_file(fd, MERGE_MAX, out);
}

enum merge {
	MERGE_DONE, /* with a text for the step */
	MERGE_OVERLAPS,
	MERGE_NO_TEXT, /* these two as layer_merge_text() has them */
};

/* One of these, or a negative errno. */
static int try_merge(struct plan *plan, const struct op *op, int after_fd, struct atoll_error *err)
{
	cleanup_buf struct buf base = BUF_INIT(MERGE_MAX), host = BUF_INIT(MERGE_MAX),
			       layer = BUF_INIT(MERGE_MAX), out = BUF_INIT(4 * MERGE_MAX);
	struct plan_item *item = &plan->items[op->slot - 1];
	int r;

	if (!S_ISREG(op->before.mode) || !S_ISREG(op->after.mode) ||
	    read_base(plan, op->path, &base) < 0 || read_host(plan, op->path, &host) < 0 ||
	    tree_read_file(after_fd, MERGE_MAX, &layer) < 0)
		return MERGE_NO_TEXT;
	r = layer_merge_text(base.data ? base.data : "", base.used, host.data ? host.data : "",
			     host.used, layer.data ? layer.data : "", layer.used, &out);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "merge '%.300s'", op->path);
	if (r > 0)
		return r;
	hash_sha256(layer.data ? layer.data : "", layer.used, item->digest);
	item->merged_size = out.used;
	item->merged = buf_take(&out);
	return item->merged ? MERGE_DONE : error_oom(err);
}

/* A file or directory that stays, with other attributes. */
static int add_meta(struct plan *plan, size_t i, const char *path, const struct stat *now,
		    const struct stat *after, struct atoll_error *err)
{
	const struct atoll_change *change = &plan->changes->list.items[i];
	struct op *op = add_op(plan, OP_META, path, now, after, err);

	if (!op)
		return -ENOMEM;
	op->after.ino = now->st_ino;
	op->after.size = op->before.size;
	op->has_xattrs = change->parts & ATOLL_PART_XATTRS;
	/* A directory's time is that of the latest name in it, on the host as in the layer. */
	if (S_ISDIR(now->st_mode))
		op->after.mtime_ns = op->before.mtime_ns;
	return 0;
}

/* Steps for what is `after` in the layer where the host has `now`. */
static int add_new(struct plan *plan, size_t i, const char *path, int after_fd,
		   const struct stat *now, const struct stat *after, struct atoll_error *err)
{
	static const char *const words[] = {
		[MERGE_NO_TEXT] = "changed on the host since, and cannot be merged as a text",
		[MERGE_OVERLAPS] = "the same lines were changed on the host since"};
	const struct atoll_change *change = &plan->changes->list.items[i];
	const char *conflict = change->conflict;
	bool is_foreign = false;
	struct op *op;
	int r;

	op = add_op(plan, OP_PUT, path, now, after, err);
	if (!op)
		return -ENOMEM;
	if (S_ISDIR(now->st_mode)) {
		op->tree = site_tree_print(plan->site, path);
		r = check_tree(plan, i, path, &is_foreign, err);
		if (r < 0)
			return r;
		op->is_foreign |= is_foreign;
	}
	if (conflict && plan->options->merges && streq(path, change->path)) {
		r = try_merge(plan, op, after_fd, err);
		if (r < 0)
			return r;
		conflict = words[r];
		if (r == MERGE_DONE)
			plan->fates[i] = FATE_MERGED;
	}
	if (conflict && plan->fates[i] != FATE_MERGED)
		add_conflict(plan, i, false, conflict);
	if (!S_ISDIR(after->st_mode))
		return 0;
	/* It is staged open to its owner; its own mode and time come when all is in it. */
	op = add_op(plan, OP_META, path, after, after, err);
	if (!op)
		return -ENOMEM;
	op->before.ino = op->after.ino = 0; /* whatever the step before has put there */
	op->before.mode = S_IFDIR | 0700;
	return 0;
}

static bool stays(const struct atoll_change *change, const struct stat *now,
		  const struct stat *after)
{
	if (S_ISDIR(now->st_mode) && S_ISDIR(after->st_mode))
		return true;
	/* With another name on the host it would change there, too. */
	return change->kind == ATOLL_CHANGED && S_ISREG(now->st_mode) && S_ISREG(after->st_mode) &&
	       now->st_nlink == 1 && change->link_group == 0 && !change->conflict &&
	       !(change->parts & (ATOLL_PART_CONTENT | ATOLL_PART_TYPE));
}

static int add_put(struct plan *plan, size_t i, const char *path, const struct stat *listed,
		   struct atoll_error *err)
{
	const struct atoll_change *change = &plan->changes->list.items[i];
	cleanup_fd int fd = layer_stack_open_after(&plan->changes->stack, path);
	struct stat after, now;
	int r;

	/* A command that still runs has removed it since the list was made: begin again. */
	if (layer_has_moved(fd))
		return error_set(err, ATOLL_FAULT_POLICY, EAGAIN, "open '%.300s' in the layer",
				 path);
	if (fd < 0 || fstat(fd, &after) < 0)
		return error_set(err, ATOLL_FAULT_HOST, fd < 0 ? -fd : errno,
				 "open '%.300s' in the layer", path);
	if (S_ISSOCK(after.st_mode) || S_ISCHR(after.st_mode) || S_ISBLK(after.st_mode)) {
		object_lose(&plan->site->loss, path,
			    S_ISSOCK(after.st_mode) ? "the socket" : "the device");
		return 0;
	}
	r = look(plan, i, path, &now, err);
	if (r != 0)
		return r < 0 ? r : 0;
	if (!is_beneath_put(plan, path) && !is_as_listed(listed, &now) && !change->conflict &&
	    add_conflict(plan, i, false, "changed on the host just now"))
		return 0;
	if (S_ISDIR(now.st_mode) && S_ISDIR(after.st_mode) && change->conflict &&
	    add_conflict(plan, i, false, change->conflict))
		return 0;
	if (stays(change, &now, &after))
		return add_meta(plan, i, path, &now, &after, err);
	return add_new(plan, i, path, fd, &now, &after, err);
}

/* Directories above that the host does not have (any more). */
static int add_above(struct plan *plan, size_t i, const char *path, struct atoll_error *err)
{
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		cleanup_free char *above = strndup(path, (size_t)(slash - path));
		struct stat now, none = {0};
		int r;

		if (!above)
			return error_oom(err);
		if (is_put(plan, above))
			continue;
		r = look(plan, i, above, &now, err);
		if (r != 0)
			return r;
		if (S_ISDIR(now.st_mode))
			continue;
		if (S_ISLNK(now.st_mode))
			return add_conflict(plan, i, true,
					    "a directory above it has become a link on the host");
		if (add_conflict(plan, i, false,
				 now.st_mode ? "a directory above it is a file on the host now"
					     : "a directory above it is gone on the host"))
			return 1;
		r = add_put(plan, i, above, now.st_mode ? &now : &none, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_change(struct plan *plan, size_t i, struct atoll_error *err)
{
	const struct atoll_change *change = &plan->changes->list.items[i];
	static const struct stat none;
	int r;

	if (starts_with(change->path, STAGE_PREFIX)) {
		add_conflict(plan, i, true, "the name is needed for applying");
		return 0;
	}
	if (change->conflict && change->kind == ATOLL_DELETED &&
	    add_conflict(plan, i, false, change->conflict))
		return 0;
	if (change->kind == ATOLL_DELETED)
		return add_take(plan, i, change->path, &change->before, err);
	r = add_above(plan, i, change->path, err);
	if (r != 0)
		return r < 0 ? r : 0;
	if (change->kind == ATOLL_RENAMED) {
		r = add_take(plan, i, change->from, &change->before, err);
		if (r < 0)
			return r;
		return add_put(plan, i, change->path, &none, err);
	}
	return add_put(plan, i, change->path, &change->before, err);
}

/* ---- the whole ---- */

static void keep_path(void *path)
{
	(void)path; /* it is its step's */
}

int plan_make(struct site *site, struct layer_changes *changes, struct known *known,
	      const struct atoll_apply_options *options, struct holds *holds, struct plan *ret,
	      struct atoll_error *err)
{
	size_t n = changes->list.n ? changes->list.n : 1;
	int r;

	*ret = (struct plan){.site = site,
			     .changes = changes,
			     .options = options,
			     .known = known,
			     .holds = holds};
	ret->fates = calloc(n, sizeof *ret->fates);
	ret->named = calloc(n, sizeof *ret->named);
	ret->why = calloc(n, sizeof *ret->why);
	ret->order = select_order(&changes->list);
	if (!ret->fates || !ret->named || !ret->why || !ret->order)
		return error_oom(err);
	r = select_changes(ret, err);
	for (size_t i = 0; i < changes->list.n && r == 0; i++)
		if (ret->fates[ret->order[i]] == FATE_APPLIED)
			r = add_change(ret, ret->order[i], err);
	return r < 0 ? r : journal_drop_covered(&ret->journal, err);
}

void apply_plan_done(struct plan *plan)
{
	tdestroy(plan->puts, keep_path);
	for (size_t i = 0; i < plan->n_items; i++)
		free(plan->items[i].merged);
	for (size_t i = 0; plan->why && i < plan->changes->list.n; i++)
		free(plan->why[i]);
	free(plan->items);
	free(plan->fates);
	free(plan->named);
	free(plan->why);
	free(plan->order);
	journal_done(&plan->journal);
}
