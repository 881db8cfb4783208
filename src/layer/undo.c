/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/applied-files.h"
#include "layer/apply.h"
#include "layer/layer-tree.h"
#include "layer/layer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/*
 * An undo: the journal of an apply, turned round
 *
 *   PUT where nothing was        TAKE
 *   PUT in place of something    PUT of the copy that was kept
 *   TAKE                         PUT of the copy
 *   META                         META with what was before
 *   DIR                          META with the time it had, if the host left it alone since
 *
 * What the apply left is known (applied-files.h), or is the same as in the layer: another run's
 * apply and undo may have been there. Whatever looks different has been changed by the host.
 */
struct undo {
	struct site *site;
	const struct known *known;
	const struct layer_stack *stack;
	const struct journal *applied;
	struct journal journal;
	bool is_forced;
	uint64_t n_conflicts;
	char first[400]; /* of them, as many as fit */
};

static bool add_conflict(struct undo *undo, const struct op *op, bool is_stuck, const char *why)
{
	char shown[200], line[300];
	size_t used = strlen(undo->first);

	if (undo->is_forced && !is_stuck)
		return false;
	snprintf(line, sizeof line, "%s'%s': %s", used ? "; " : "",
		 str_show(op->path, shown, sizeof shown), why);
	undo->n_conflicts++;
	if (used + strlen(line) < sizeof undo->first)
		memcpy(undo->first + used, line, strlen(line) + 1);
	return true;
}

static struct op *add_op(struct undo *undo, const struct op *applied, enum op_kind kind,
			 const struct stat *now, struct atoll_error *err)
{
	struct op *op = journal_add(&undo->journal, kind, applied->path);

	if (!op) {
		error_oom(err);
		return NULL;
	}
	if (S_ISDIR(now->st_mode) && kind != OP_META)
		op->tree = site_tree_print(undo->site, applied->path);
	/* The copies have the slots of the apply's steps. */
	if (kind == OP_PUT || applied->has_xattrs)
		op->slot = applied->slot;
	if (kind != OP_TAKE)
		op->after = applied->before;
	if (now->st_mode)
		op_object_from(&op->before, now);
	op->is_foreign = applied->is_foreign;
	return op;
}

struct search {
	const struct undo *undo;
	const char *above;
	char *found; /* what is not ours */
};

static bool is_same_link(int a_fd, int b_fd)
{
	char a[4096], b[4096];
	ssize_t a_size = readlinkat(a_fd, "", a, sizeof a);
	ssize_t b_size = readlinkat(b_fd, "", b, sizeof b);

	return a_size > 0 && a_size == b_size && memcmp(a, b, (size_t)a_size) == 0;
}

/* Has the layer the same there? */
static bool is_as_in_layer(const struct undo *undo, const char *path, const struct stat *now)
{
	cleanup_fd int host = -1, layer = -1;
	struct stat st;
	size_t index;

	if (layer_stack_look(undo->stack, path, &index, &st) != LAYER_PRESENT ||
	    st.st_mode != now->st_mode || st.st_size != now->st_size)
		return false;
	host = layer_stack_open_before(undo->stack, path);
	layer = layer_stack_open_after(undo->stack, path);
	if (host < 0 || layer < 0)
		return false;
	if (S_ISLNK(st.st_mode))
		return is_same_link(host, layer);
	return S_ISREG(st.st_mode) && tree_same_content(host, layer, (uint64_t)st.st_size) &&
	       tree_same_xattrs(host, layer);
}

static bool is_ours(const struct undo *undo, const char *path, const struct stat *now)
{
	return known_has(undo->known, path, now) || is_as_in_layer(undo, path, now);
}

static int see_unknown(const char *path, const struct stat *st, void *data)
{
	struct search *search = data;
	cleanup_free char *whole = NULL;

	if (asprintf(&whole, "%s/%s", search->above, path) < 0)
		return -ENOMEM;
	/* A directory's own time moves with what is in it. */
	if (S_ISDIR(st->st_mode))
		return 0;
	if (is_ours(search->undo, whole, st))
		return 0;
	search->found = take_ptr(whole);
	return 1;
}

/* Is it what the apply left, with all that is in it? Of a directory also what in it is not. */
static bool is_as_left(const struct undo *undo, const char *path, const struct stat *now,
		       char **ret_found)
{
	struct search search = {undo, path, NULL};
	cleanup_fd int fd = -1;
	bool is_left;

	if (!S_ISDIR(now->st_mode))
		return is_ours(undo, path, now);
	fd = tree_open_dir(undo->site->workspace_fd, path, false);
	is_left = fd >= 0 && object_walk(fd, see_unknown, &search) == 0;
	*ret_found = search.found;
	return is_left;
}

/* Is something of its own done about this path? */
static bool is_applied(const struct undo *undo, const char *path)
{
	for (size_t i = 0; i < undo->applied->n; i++) {
		const struct op *op = &undo->applied->ops[i];

		if ((op->kind == OP_PUT || op->kind == OP_TAKE) && streq(op->path, path))
			return true;
	}
	return false;
}

/* A directory is put back open to its owner, and gets its mode when all is in it. */
static int add_put(struct undo *undo, const struct op *applied, const struct stat *now,
		   struct atoll_error *err)
{
	struct op *op = add_op(undo, applied, OP_PUT, now, err);

	if (!op)
		return -ENOMEM;
	if (!S_ISDIR(applied->before.mode))
		return 0;
	op = journal_add(&undo->journal, OP_META, applied->path);
	if (!op)
		return error_oom(err);
	op->before = op->after = applied->before;
	op->before.ino = op->after.ino = 0;
	op->before.mode = S_IFDIR | 0700;
	return 0;
}

static int turn_take(struct undo *undo, const struct op *op, const struct stat *now,
		     struct atoll_error *err)
{
	const char *slash = strrchr(op->path, '/');
	cleanup_free char *above = slash ? strndup(op->path, (size_t)(slash - op->path)) : NULL;
	struct stat st;

	if (slash && !above)
		return error_oom(err);
	if (above && (site_stat(undo->site, above, &st) < 0 || !S_ISDIR(st.st_mode))) {
		add_conflict(undo, op, true, "the directory it was in is gone on the host");
		return 0;
	}
	if (now->st_mode &&
	    add_conflict(undo, op, S_ISDIR(now->st_mode), "made anew on the host since"))
		return 0;
	return add_put(undo, op, now, err);
}

static int turn_put(struct undo *undo, const struct op *op, const struct stat *now,
		    struct atoll_error *err)
{
	cleanup_free char *found = NULL;
	bool is_left = now->st_mode && is_as_left(undo, op->path, now, &found);

	if (op->before.mode == 0) {
		if (now->st_mode == 0)
			return 0; /* gone already */
		/* A file that is a conflict by itself; the directory stays for its sake. */
		if (found && is_applied(undo, found))
			return 0;
		if (!is_left && add_conflict(undo, op, false, "changed on the host since"))
			return 0;
		/* What the host has put into a directory keeps it there. */
		if (!is_left && S_ISDIR(now->st_mode))
			return 0;
		return add_op(undo, op, OP_TAKE, now, err) ? 0 : -ENOMEM;
	}
	if (!is_left &&
	    add_conflict(undo, op, S_ISDIR(now->st_mode),
			 now->st_mode ? "changed on the host since" : "deleted on the host since"))
		return 0;
	return add_put(undo, op, now, err);
}

static int turn_meta(struct undo *undo, const struct op *applied, const struct stat *now,
		     struct atoll_error *err)
{
	bool is_left = now->st_mode && (S_ISDIR(now->st_mode) ? now->st_mode == applied->after.mode
							      : is_ours(undo, applied->path, now));
	struct op *op;

	if (applied->before.ino == 0) /* of a directory that a PUT made */
		return 0;
	if (!is_left && add_conflict(undo, applied, false, "changed on the host since"))
		return 0;
	if (now->st_mode == 0 || (now->st_mode & S_IFMT) != (applied->after.mode & S_IFMT))
		return 0;
	op = add_op(undo, applied, OP_META, now, err);
	if (!op)
		return -ENOMEM;
	op->has_xattrs = applied->has_xattrs;
	op->after.ino = now->st_ino;
	if (!is_left)
		op->after.mtime_ns = op->before.mtime_ns;
	return 0;
}

static int turn_dir(struct undo *undo, const struct op *applied, const struct stat *now,
		    struct atoll_error *err)
{
	struct op *op;

	if (now->st_mode == 0 || !known_has(undo->known, applied->path, now))
		return 0;
	op = add_op(undo, applied, OP_META, now, err);
	if (op)
		op->after.ino = now->st_ino;
	return op ? 0 : -ENOMEM;
}

static int turn(struct undo *undo, const struct op *op, struct atoll_error *err)
{
	struct stat now = {0};
	int r = site_stat(undo->site, op->path, &now);

	if (r == -ELOOP || r == -EXDEV) {
		add_conflict(undo, op, true,
			     r == -ELOOP ? "a directory above it has become a link on the host"
					 : "it lies on another file system now");
		return 0;
	}
	if (r < 0 && r != -ENOENT && r != -ENOTDIR)
		return error_set(err, ATOLL_FAULT_HOST, -r, "look at '%.300s'", op->path);
	if (r < 0)
		now = (struct stat){0};
	switch (op->kind) {
	case OP_TAKE:
		return turn_take(undo, op, &now, err);
	case OP_PUT:
		return turn_put(undo, op, &now, err);
	case OP_META:
		return turn_meta(undo, op, &now, err);
	case OP_DIR:
		return turn_dir(undo, op, &now, err);
	case OP_OPEN:
		break;
	}
	return 0;
}

static int turn_all(struct undo *undo, const struct journal *applied, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; i < applied->n; i++)
		if (applied->ops[i].slot > undo->journal.last_slot)
			undo->journal.last_slot = applied->ops[i].slot;
	for (size_t i = 0; i < applied->n && r == 0; i++)
		r = turn(undo, &applied->ops[i], err);
	if (r < 0)
		return r;
	if (undo->n_conflicts) {
		error_set(err, ATOLL_FAULT_POLICY, 0,
			  "nothing was undone, because of %" PRIu64 " conflict%s: %s",
			  undo->n_conflicts, undo->n_conflicts == 1 ? "" : "s", undo->first);
		return -EEXIST;
	}
	return journal_drop_covered(&undo->journal, err);
}

static int stage(void *data, struct atoll_error *err)
{
	struct undo *undo = data;

	return stage_saved(undo->site, &undo->journal, err);
}

/* Also if nothing is to be done: the apply ends to be one. */
static int carry_out(struct undo *undo, struct atoll_error *err)
{
	return steps_carry_out(undo->site, &undo->journal, stage, undo, err);
}

static int undo_applied(struct undo *undo, const struct journal *applied,
			struct atoll_apply_report *ret, struct atoll_error *err)
{
	int r;

	undo->applied = applied;
	undo->journal.kind = JOURNAL_UNDO;
	undo->journal.number = undo->site->record->n_applies;
	r = turn_all(undo, applied, err);
	ret->n_conflicts = undo->n_conflicts;
	if (r == 0)
		r = carry_out(undo, err);
	if (r < 0)
		return r;
	ret->n_applied = journal_count(applied);
	ret->n_dropped = undo->site->loss.n;
	memcpy(ret->dropped, undo->site->loss.text, sizeof ret->dropped);
	return 0;
}

int layer_undo(struct layer_record *record, bool is_forced, struct atoll_apply_report *ret,
	       struct atoll_error *err)
{
	cleanup_with(site_close) struct site site = {.workspace_fd = -1, .stage_fd = -1};
	cleanup_with(journal_done) struct journal applied = {0};
	struct undo undo = {.site = &site, .is_forced = is_forced};
	struct layer_stack stack = {.base_fd = -1};
	struct known *known = NULL;
	char path[48];
	int r;

	*ret = (struct atoll_apply_report){0};
	strcpy(ret->record, record->info.id);
	r = layer_recover(record, err);
	if (r < 0)
		return r;
	if (record->n_applies == 0)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "nothing of record %s is applied, so nothing can be undone",
				 record->info.id);
	snprintf(path, sizeof path, "apply-%" PRIu64 "/journal", record->n_applies);
	r = journal_read(record, path, &applied, err);
	if (r == -ENOENT)
		error_set(err, ATOLL_FAULT_HOST, ENOENT, "open '%s' of record %s", path,
			  record->info.id);
	if (r == 0)
		r = site_open(record, false, &site, err);
	if (r == 0)
		r = known_load(record, &known, err);
	if (r == 0)
		r = layer_stack_open(record, &stack, err);
	undo.known = known;
	undo.stack = &stack;
	if (r == 0)
		r = undo_applied(&undo, &applied, ret, err);
	journal_done(&undo.journal);
	layer_stack_close(&stack);
	known_free(known);
	return r;
}
