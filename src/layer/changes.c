/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "layer/applied-files.h"
#include "layer/draft.h"
#include "layer/freeze.h"
#include "layer/store.h"
#include "layer/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The list of changes as others see it: who is in it, in which order, with what beside it. */

static int compare_drafts(const void *a, const void *b)
{
	const struct draft *x = a, *y = b;

	if (!x->change.mark != !y->change.mark)
		return x->change.mark ? -1 : 1;
	return strcmp(x->change.path, y->change.path);
}

static void drafts_done(struct drafts *drafts)
{
	for (size_t i = 0; i < drafts->n; i++) {
		free(drafts->items[i].change.path);
		free(drafts->items[i].change.from);
		free(drafts->items[i].origin);
	}
	for (size_t i = 0; i < drafts->n_same; i++)
		free(drafts->same[i]);
	free(drafts->items);
	known_free(drafts->known);
	free(drafts->same);
}

/* Names of one file, which is one only where both are in the same layer. */
static int compare_inodes(const void *a, const void *b)
{
	const struct draft *x = *(struct draft *const *)a, *y = *(struct draft *const *)b;
	const struct stat *s = &x->change.after, *t = &y->change.after;

	if (s->st_dev != t->st_dev)
		return s->st_dev < t->st_dev ? -1 : 1;
	if (s->st_ino != t->st_ino)
		return s->st_ino < t->st_ino ? -1 : 1;
	return strcmp(x->change.path, y->change.path);
}

static bool has_other_names(const struct draft *draft)
{
	return S_ISREG(draft->change.after.st_mode) && draft->change.after.st_nlink > 1;
}

static int group_links(struct drafts *drafts)
{
	cleanup_free struct draft **linked = calloc(drafts->n ? drafts->n : 1, sizeof *linked);
	uint32_t group = 0;
	size_t n = 0;

	if (!linked)
		return error_oom(drafts->err);
	for (size_t i = 0; i < drafts->n; i++)
		if (has_other_names(&drafts->items[i]))
			linked[n++] = &drafts->items[i];
	qsort(linked, n, sizeof *linked, compare_inodes);
	for (size_t i = 1; i < n; i++) {
		struct atoll_change *a = &linked[i - 1]->change, *b = &linked[i]->change;

		if (a->after.st_ino != b->after.st_ino || a->after.st_dev != b->after.st_dev)
			continue;
		if (!a->link_group)
			a->link_group = ++group;
		b->link_group = a->link_group;
	}
	return 0;
}

/* The list as it is handed out; what the drafts own becomes its. */
static int hand_out(struct drafts *drafts, struct atoll_changes *ret)
{
	struct atoll_change *items = calloc(drafts->n ? drafts->n : 1, sizeof *items);

	if (!items)
		return error_oom(drafts->err);
	if (drafts->n > 0)
		qsort(drafts->items, drafts->n, sizeof *drafts->items, compare_drafts);
	for (size_t i = 0; i < drafts->n; i++) {
		struct atoll_change *change = &drafts->items[i].change;

		items[ret->n++] = *change;
		ret->n_marked += change->mark != NULL;
		ret->n_conflicts += change->conflict != NULL;
		change->path = change->from = NULL;
	}
	ret->items = items;
	return 0;
}

static int read_into(struct layer_changes *changes, bool freezes, struct atoll_error *err)
{
	cleanup_with(drafts_done) struct drafts drafts = {.record = changes->record, .err = err};
	int r = layer_stack_open(changes->record, &changes->stack, err);

	if (r < 0)
		return r;
	drafts.stack = &changes->stack;
	r = known_load(changes->record, &drafts.known, err);
	if (r == 0)
		r = drafts_walk(&drafts);
	if (r == 0)
		r = drafts_find_renames(&drafts);
	if (r == 0)
		drafts_find_lost(&drafts);
	if (r == 0 && freezes)
		r = freeze_drafts(changes, &drafts, err);
	if (r == 0)
		r = group_links(&drafts);
	if (r == 0)
		r = drafts_mark(&drafts);
	return r < 0 ? r : hand_out(&drafts, &changes->list);
}

static int read_changes(struct layer_record *record, bool owns, bool freezes,
			struct layer_changes **ret, struct atoll_error *err)
{
	struct layer_changes *changes = calloc(1, sizeof *changes);
	int r;

	if (!changes)
		return error_oom(err);
	changes->record = record;
	changes->list.record = &record->info;
	changes->list.text_max = TEXT_SIZE_MAX;
	changes->stack.base_fd = -1;
	r = read_into(changes, freezes, err);
	if (r < 0) {
		atoll_changes_close(&changes->list);
		return error_context(err, r, "changes of %s", record->info.id);
	}
	changes->owns_record = owns;
	*ret = changes;
	return 0;
}

int layer_changes_read(struct layer_record *record, bool owns, struct layer_changes **ret,
		       struct atoll_error *err)
{
	return read_changes(record, owns, false, ret, err);
}

/* Commands that still run may write faster than their files are copied. */
#define TRIES_MAX 16

static int open_changes(const char *id, bool freezes, struct layer_changes **ret,
			struct atoll_error *err)
{
	struct layer_record *record;
	int r = layer_record_open(id, &record, err);

	if (r < 0)
		return r;
	/* Its top is still empty, which is not to be told as "no changes". */
	if (record->info.is_memory && record_state(record) == ATOLL_RECORD_LIVE)
		r = store_refuse(err, ATOLL_FAULT_POLICY, EBUSY,
				 "what run '%s' writes is in memory, and can be seen when it has "
				 "ended",
				 record->info.id);
	if (r == 0)
		r = read_changes(record, true, freezes, ret, err);
	for (int tries = 1; r == -EAGAIN && tries < TRIES_MAX; tries++)
		r = read_changes(record, true, freezes, ret, err);
	if (r < 0)
		layer_record_close(record);
	return r;
}

int layer_changes_open_frozen(const char *id, struct layer_changes **ret, struct atoll_error *err)
{
	return open_changes(id, true, ret, err);
}

int atoll_changes_open(const char *id, struct atoll_changes **ret, struct atoll_error *err)
{
	struct layer_changes *changes;
	int r = open_changes(id, false, &changes, err);

	if (r == 0)
		*ret = &changes->list;
	return r;
}

void atoll_changes_close(struct atoll_changes *list)
{
	struct layer_changes *changes = (struct layer_changes *)list;

	if (!changes)
		return;
	for (size_t i = 0; i < list->n; i++) {
		free(list->items[i].path);
		free(list->items[i].from);
	}
	free(list->items);
	freeze_end(changes);
	layer_stack_close(&changes->stack);
	if (changes->owns_record)
		layer_record_close(changes->record);
	free(changes);
}
