/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/vet.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/str.h"
#include "layer/apply.h"
#include "layer/draft.h"
#include "layer/layer-tree.h"
#include "layer/result.h"
#include "layer/select.h"
#include "spec/git.h"
#include "spec/names.h"

#include <errno.h>
#include <limits.h>

/*
 * Called by stage.c once all copies are made and on the disk. In this order:
 *   note_ops()     the stage, over the host's files, becomes a layer_result
 *   draft_all()    each change that is applied, as the stage has it, becomes a draft
 *   drafts_mark()  marks.c, which reads through the result and sees no layer
 *   judge_all()    what is marked now and was not approved so is held back
 */

void holds_done(struct holds *holds)
{
	for (size_t i = 0; i < holds->n; i++)
		free(holds->items[i].path);
	free(holds->items);
	*holds = (struct holds){0};
}

const char *holds_find(const struct holds *holds, const char *path)
{
	for (size_t i = 0; i < holds->n; i++)
		if (streq(holds->items[i].path, path))
			return holds->items[i].mark;
	return NULL;
}

int holds_add(struct holds *holds, const char *path, const char *mark)
{
	struct hold *more;

	if (holds_find(holds, path))
		return 0;
	more = reallocarray(holds->items, holds->n + 1, sizeof *more);
	if (!more)
		return -ENOMEM;
	holds->items = more;
	more[holds->n] = (struct hold){strdup(path), mark};
	return more[holds->n].path ? (holds->n++, 0) : -ENOMEM;
}

bool vet_is_guarded(const char *root, const char *path)
{
	cleanup_free char *whole = path_join(root, path);
	const char *inside, *place = NULL, *what;

	if (!whole || names_refuse(root, whole, NAMES_WRITE))
		return true;
	inside = names_git_inside(root, whole);
	if (inside)
		return git_guard(inside, NAMES_WRITE, false, &what) != GIT_ALLOW;
	/* A git directory of another name; here the name alone is asked about. */
	while ((place = git_next_marker(root, whole, place)))
		if (git_guard(place, NAMES_WRITE, false, &what) != GIT_ALLOW)
			return true;
	return false;
}

struct vet {
	struct plan *plan;
	struct layer_result *result;
	struct layer_stack stack;
	struct drafts drafts;
	size_t *changes;       /* of each draft: which change it is; SIZE_MAX: none */
	const struct op **ops; /* PUT and META, by path; a PUT before a META */
	size_t n_ops;
};

/* ---- the host as it will be ---- */

static int note_put(struct vet *vet, const struct op *op)
{
	const struct site *site = vet->plan->site;
	struct stat st = vet->plan->items[op->slot - 1].staged;

	/* A directory is staged open to its owner; a META sets the mode that was planned. */
	if (S_ISDIR(st.st_mode))
		st.st_mode = op->after.mode;
	return result_add_copy(vet->result, op->path, site->stage_fd, stage_new(op).text, &st);
}

static int note_meta(struct vet *vet, const struct op *op)
{
	struct stat st;

	if (op->before.ino == 0) /* of a directory that a PUT makes */
		return 0;
	if (site_stat(vet->plan->site, op->path, &st) < 0)
		return 0;
	st.st_mode = op->after.mode;
	return result_add_kept(vet->result, op->path, -1, NULL, &st);
}

static int note_ops(struct vet *vet)
{
	const struct journal *journal = &vet->plan->journal;
	int r = 0;

	for (size_t i = 0; i < journal->n && r == 0; i++) {
		const struct op *op = &journal->ops[i];

		if (op->kind == OP_TAKE)
			r = result_add_gone(vet->result, op->path);
		else if (op->kind == OP_PUT)
			r = note_put(vet, op);
		else if (op->kind == OP_META)
			r = note_meta(vet, op);
	}
	result_sort(vet->result);
	return r;
}

static int compare_ops(const void *a, const void *b)
{
	const struct op *x = *(const struct op *const *)a, *y = *(const struct op *const *)b;
	int order = strcmp(x->path, y->path);

	return order ? order : (int)x->kind - (int)y->kind;
}

static int sort_ops(struct vet *vet)
{
	const struct journal *journal = &vet->plan->journal;

	vet->ops = calloc(journal->n + 1, sizeof *vet->ops);
	if (!vet->ops)
		return -ENOMEM;
	for (size_t i = 0; i < journal->n; i++)
		if (journal->ops[i].kind == OP_PUT || journal->ops[i].kind == OP_META)
			vet->ops[vet->n_ops++] = &journal->ops[i];
	qsort(vet->ops, vet->n_ops, sizeof *vet->ops, compare_ops);
	return 0;
}

/* What the host has at a path, as the plan found it; 0: nothing. */
static mode_t mode_before(const struct vet *vet, const char *path)
{
	size_t low = 0, high = vet->n_ops;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(vet->ops[middle]->path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < vet->n_ops && streq(vet->ops[low]->path, path) ? vet->ops[low]->before.mode
								    : 0;
}

/* ---- drafts ---- */

/* The path stays the list's or the step's, unless `is_gone` is set: see draft_going(). */
static struct draft *add_draft(struct vet *vet, char *path, size_t change)
{
	struct drafts *drafts = &vet->drafts;
	struct draft *draft;

	if (drafts->n == drafts->room) {
		size_t room = drafts->room ? 2 * drafts->room : 64;
		struct draft *more = reallocarray(drafts->items, room, sizeof *more);
		size_t *changes = more ? reallocarray(vet->changes, room, sizeof *changes) : NULL;

		drafts->items = more ? more : drafts->items;
		if (!changes)
			return NULL;
		vet->changes = changes;
		drafts->room = room;
	}
	vet->changes[drafts->n] = change;
	draft = &drafts->items[drafts->n++];
	*draft = (struct draft){.change = {.path = path}};
	return draft;
}

unsigned vet_compare(const struct layer_result *result, int base_fd,
		     const struct atoll_change *change)
{
	unsigned parts = change->parts;
	struct side before = {.is_ours = false, .st = change->before};
	struct side after = {.is_ours = true, .st = change->after};
	cleanup_fd int host = -1;

	if ((before.st.st_mode ^ after.st.st_mode) & S_IFMT)
		parts |= ATOLL_PART_TYPE;
	if ((before.st.st_mode ^ after.st.st_mode) & 07777)
		parts |= ATOLL_PART_MODE;
	if (parts & (ATOLL_PART_CONTENT | ATOLL_PART_TYPE) || S_ISDIR(after.st.st_mode))
		return parts;
	/* The list found the same content; what was copied may be other content. */
	host = tree_open_parent(base_fd, change->path, false, &before.name);
	before.dir_fd = host;
	if (host < 0 || !result_place(result, change->path, &after.dir_fd, &after.name))
		return parts;
	return parts | draft_compare(&before, &after);
}

static int draft_change(struct vet *vet, size_t i)
{
	const struct atoll_change *listed = &vet->plan->changes->list.items[i];
	struct draft *draft;
	struct stat st = {0};

	if (listed->kind != ATOLL_DELETED &&
	    result_look(vet->result, listed->path, &st) != LAYER_PRESENT)
		return 0; /* left out by the plan: a socket, a device */
	draft = add_draft(vet, listed->path, i);
	if (!draft)
		return -ENOMEM;
	draft->change.from = listed->from;
	draft->change.kind = listed->kind;
	draft->change.parts = listed->parts;
	draft->change.before = listed->before;
	draft->change.after = st;
	if (listed->kind == ATOLL_DELETED || listed->kind == ATOLL_RENAMED)
		return 0;
	/* The host may have changed it since, and force overcomes that. */
	draft->change.before.st_mode = mode_before(vet, listed->path);
	draft->change.kind = draft->change.before.st_mode ? ATOLL_CHANGED : ATOLL_ADDED;
	if (listed->kind == ATOLL_ADDED && draft->change.kind == ATOLL_CHANGED)
		draft->change.parts |= ATOLL_PART_CONTENT;
	if (draft->change.kind == ATOLL_CHANGED)
		draft->change.parts =
			vet_compare(vet->result, vet->plan->site->workspace_fd, &draft->change);
	return 0;
}

/* A directory that the host does not have any more, and that comes with what lies in it. */
static int draft_above(struct vet *vet, const struct op *op)
{
	const struct plan *plan = vet->plan;
	struct draft *draft;

	if (op->kind != OP_PUT ||
	    select_find(&plan->changes->list, plan->order, op->path) < plan->changes->list.n)
		return 0;
	draft = add_draft(vet, op->path, SIZE_MAX);
	if (!draft)
		return -ENOMEM;
	draft->change.kind = ATOLL_ADDED;
	return result_look(vet->result, op->path, &draft->change.after) == LAYER_PRESENT ? 0
											 : -ESTALE;
}

struct going {
	struct vet *vet;
	const char *above;
};

static int draft_going(const char *path, const struct stat *st, void *data)
{
	const struct going *going = data;
	struct draft *draft;
	char *whole = path_join(going->above, path);

	draft = whole ? add_draft(going->vet, whole, SIZE_MAX) : NULL;
	if (!draft) {
		free(whole);
		return -ENOMEM;
	}
	draft->change.kind = ATOLL_DELETED;
	draft->change.before = *st;
	draft->is_gone = true; /* its path is ours to free */
	return 0;
}

/* What the host has made in a directory that goes is in no list, and goes as well, by force. */
static int draft_foreign(struct vet *vet, const struct op *op)
{
	struct going going = {vet, op->path};
	cleanup_fd int fd = -1;

	if (!op->is_foreign || !S_ISDIR(op->before.mode) ||
	    (op->kind != OP_TAKE && op->kind != OP_PUT))
		return 0;
	fd = tree_open_dir(vet->plan->site->workspace_fd, op->path, false);
	return fd < 0 ? fd : object_walk(fd, draft_going, &going);
}

static int draft_all(struct vet *vet)
{
	const struct plan *plan = vet->plan;
	int r = 0;

	for (size_t i = 0; i < plan->changes->list.n && r == 0; i++)
		if (plan->fates[i] == FATE_APPLIED || plan->fates[i] == FATE_MERGED)
			r = draft_change(vet, i);
	for (size_t i = 0; i < plan->journal.n && r == 0; i++) {
		r = draft_above(vet, &plan->journal.ops[i]);
		if (r == 0)
			r = draft_foreign(vet, &plan->journal.ops[i]);
	}
	return r;
}

/* ---- what is approved ---- */

static bool is_approved(const struct plan *plan, size_t i, const char *mark)
{
	const char *listed = plan->changes->list.items[i].mark;

	return !mark || plan->named[i] || (listed && streq(listed, mark));
}

/* Of a merged text the layer's part was shown. */
static bool digest_merged(const struct plan *plan, const char *path,
			  unsigned char ret[ATOLL_DIGEST_SIZE])
{
	for (size_t i = 0; i < plan->journal.n; i++) {
		const struct op *op = &plan->journal.ops[i];

		if (op->kind == OP_PUT && streq(op->path, path) &&
		    plan->items[op->slot - 1].merged) {
			memcpy(ret, plan->items[op->slot - 1].digest, ATOLL_DIGEST_SIZE);
			return true;
		}
	}
	return false;
}

/* Of the content: a file's bytes, a link's target. */
static int digest_staged(const struct vet *vet, const struct atoll_change *change,
			 unsigned char ret[ATOLL_DIGEST_SIZE])
{
	cleanup_fd int fd = layer_stack_open_after(&vet->stack, change->path);
	char target[PATH_MAX];
	ssize_t length;

	if (fd < 0)
		return fd;
	if (S_ISREG(change->after.st_mode))
		return hash_fd(fd, NULL, ret);
	length = S_ISLNK(change->after.st_mode) ? readlinkat(fd, "", target, sizeof target) : 0;
	if (length < 0)
		return -errno;
	hash_sha256(target, (size_t)length, ret);
	return 0;
}

/* Whoever approved may have seen other bytes. */
static int ask_caller(const struct vet *vet, size_t i, const struct atoll_change *change,
		      bool *ret_is_approved)
{
	const struct atoll_apply_options *options = vet->plan->options;
	unsigned char digest[ATOLL_DIGEST_SIZE];
	int r;

	*ret_is_approved = true;
	if (!options->approves || change->kind == ATOLL_DELETED)
		return 0;
	r = vet->plan->fates[i] == FATE_MERGED && digest_merged(vet->plan, change->path, digest)
		    ? 0
		    : digest_staged(vet, change, digest);
	if (r == 0)
		*ret_is_approved = options->approves(change, digest, options->data);
	return r;
}

static const char words_changed[] = "changed since it was shown";

static int judge_all(struct vet *vet)
{
	struct plan *plan = vet->plan;
	size_t n = plan->holds->n;
	int r = 0;

	for (size_t i = 0; i < vet->drafts.n && r == 0; i++) {
		const struct atoll_change *change = &vet->drafts.items[i].change;
		bool is_seen;

		if (vet->changes[i] == SIZE_MAX)
			continue;
		if (!is_approved(plan, vet->changes[i], change->mark)) {
			r = holds_add(plan->holds, change->path, change->mark);
			continue;
		}
		r = ask_caller(vet, vet->changes[i], change, &is_seen);
		if (r == 0 && !is_seen)
			r = holds_add(plan->holds, change->path, words_changed);
	}
	return r < 0 ? r : plan->holds->n > n ? -EAGAIN : 0;
}

/* ---- the whole ---- */

static void vet_done(struct vet *vet)
{
	for (size_t i = 0; i < vet->drafts.n; i++)
		if (vet->drafts.items[i].is_gone)
			free(vet->drafts.items[i].change.path);
	free(vet->drafts.items);
	free(vet->changes);
	free(vet->ops);
	result_free(vet->result);
}

int vet_plan(struct plan *plan, struct atoll_error *err)
{
	cleanup_with(vet_done) struct vet vet = {
		.plan = plan,
		.result = result_new(),
		.drafts = {.record = plan->site->record, .err = err},
	};
	int r = vet.result ? note_ops(&vet) : -ENOMEM;

	if (r == 0)
		r = sort_ops(&vet);
	vet.stack = (struct layer_stack){.base_fd = plan->site->workspace_fd, .result = vet.result};
	vet.drafts.stack = &vet.stack;
	if (r == 0)
		r = draft_all(&vet);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "look at what is staged");
	r = drafts_mark(&vet.drafts);
	if (r < 0)
		return r;
	r = judge_all(&vet);
	if (r == -EAGAIN)
		return error_set(err, ATOLL_FAULT_POLICY, EAGAIN, "'%.200s': %s",
				 plan->holds->items[plan->holds->n - 1].path,
				 plan->holds->items[plan->holds->n - 1].mark);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "look at what is staged") : 0;
}
