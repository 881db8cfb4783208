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

/* The end of an apply or undo, once all steps are done. Each part can be repeated. */

struct note {
	struct known *known;
	const char *above;
};

static int note_inner(const char *path, const struct stat *st, void *data)
{
	struct note *note = data;
	cleanup_free char *whole = NULL;

	if (asprintf(&whole, "%s/%s", note->above, path) < 0)
		return -ENOMEM;
	return known_set(note->known, whole, st);
}

/*
 * What a step has left, or taking it back. If the host has been there meanwhile, it is the host's;
 * and what the host had changed before stays so.
 */
static int note_op(const struct site *site, struct known *known, const struct journal *journal,
		   const struct op *op)
{
	bool is_back = journal->state == JOURNAL_ABORTED;
	const struct op_object *left = is_back ? &op->before : &op->after;
	struct note note = {known, op->path};
	cleanup_fd int fd = -1;
	struct stat st;
	int r = site_stat(site, op->path, &st);

	/* An undo brings back what force overcame. */
	if (op->kind == OP_OPEN || (op->is_foreign && (is_back || journal->kind == JOURNAL_UNDO)))
		return 0;
	if (left->mode == 0)
		return known_set(known, op->path, NULL);
	if (r < 0 || (left->ino && left->ino != st.st_ino))
		return 0;
	r = known_set(known, op->path, &st);
	/* An undo puts whole directories back at once. */
	if (r < 0 || journal->kind != JOURNAL_UNDO || op->kind != OP_PUT || !S_ISDIR(st.st_mode))
		return r;
	fd = tree_open_dir(site->workspace_fd, op->path, false);
	return fd < 0 ? 0 : object_walk(fd, note_inner, &note);
}

int steps_note(const struct site *site, const struct journal *journal, struct atoll_error *err)
{
	struct known *known;
	int r = known_load(site->record, &known, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < journal->n && r >= 0; i++)
		r = note_op(site, known, journal, &journal->ops[i]);
	if (r < 0)
		error_set(err, ATOLL_FAULT_HOST, -r, "note what was changed");
	else
		r = known_save(site->record, known, err);
	known_free(known);
	return r;
}

static int save_record(struct site *site, const struct journal *journal, struct atoll_error *err)
{
	struct layer_record *record = site->record;
	bool is_apply = journal->kind == JOURNAL_APPLY;

	record->n_applies = is_apply ? journal->number : journal->number - 1;
	record->info.state = is_apply && journal->is_all ? ATOLL_RECORD_APPLIED : ATOLL_RECORD_KEPT;
	LAYER_STEP("save the record");
	return layer_record_save(record, err);
}

int steps_finish(struct site *site, struct journal *journal, struct atoll_error *err)
{
	char saved[32], kept[48];
	int r = steps_note(site, journal, err);

	if (r == 0)
		r = site_remove_stage(site, err);
	if (r == 0)
		r = save_record(site, journal, err);
	if (r < 0)
		return r;
	snprintf(saved, sizeof saved, "apply-%" PRIu64, journal->number);
	snprintf(kept, sizeof kept, "%s/journal", saved);
	if (journal->kind == JOURNAL_APPLY)
		return journal_end(site->record, kept, err);
	r = journal_end(site->record, NULL, err);
	LAYER_STEP("remove copies");
	object_remove(site->record->fd, saved);
	return r;
}
