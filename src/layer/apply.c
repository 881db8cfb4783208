/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/apply.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/applied-files.h"
#include "layer/layer.h"
#include "layer/vet.h"

#include <errno.h>
#include <stdio.h>

/*
 * An apply
 *
 *   recover   what an earlier one has left
 *   plan      which steps; conflicts end it here, and nothing has been touched
 *   begin     the journal's header: from here on an interrupted apply is seen
 *   stage     new content into the stage, old content into apply-N/, all onto the disk
 *   vet       the marks of what is staged: what is marked now and was not before is held back, and
 *             the apply begins again
 *   commit    the journal's steps: from here on it goes forward
 *   run       the steps, and the end
 */

static int go_on(struct site *site, struct journal *journal, struct atoll_error *err)
{
	switch (journal->state) {
	case JOURNAL_BEGUN:
		return steps_forget(site, journal, err);
	case JOURNAL_COMMITTED:
		if (!journal->is_unvetted)
			return steps_run(site, journal, err);
		__attribute__((fallthrough));
	case JOURNAL_ABORTED:
		return steps_go_back(site, journal, err);
	case JOURNAL_DONE:
		break;
	}
	return steps_finish(site, journal, err);
}

int layer_recover(struct layer_record *record, struct atoll_error *err)
{
	cleanup_with(journal_done) struct journal journal;
	cleanup_with(site_close) struct site site = {.workspace_fd = -1, .stage_fd = -1};
	enum journal_state before;
	int r = journal_read(record, "journal", &journal, err);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	before = journal.state;
	/* An older build has not vetted what it staged. */
	if (before == JOURNAL_COMMITTED && journal.is_unvetted)
		before = JOURNAL_ABORTED;
	r = site_open(record, true, &site, err);
	if (r == 0)
		r = site_open_stage(&site, err);
	if (r < 0)
		return error_context(err, r, "an interrupted apply or undo of record %s",
				     record->info.id);
	r = go_on(&site, &journal, err);
	if (r == 0)
		record->recovery = (struct layer_recovery){.is_there = true,
							   .is_undo = journal.kind == JOURNAL_UNDO,
							   .is_done = before == JOURNAL_COMMITTED ||
								      before == JOURNAL_DONE,
							   .n = journal_count(&journal)};
	return r;
}

/* ---- what is told ---- */

static void count(const struct plan *plan, struct atoll_apply_report *ret)
{
	ret->n_applied = ret->n_merged = ret->n_held = ret->n_conflicts = 0;
	for (size_t i = 0; i < plan->changes->list.n; i++) {
		ret->n_applied += plan->fates[i] == FATE_APPLIED || plan->fates[i] == FATE_MERGED;
		ret->n_merged += plan->fates[i] == FATE_MERGED;
		ret->n_held += plan->fates[i] == FATE_HELD;
		ret->n_conflicts += plan->fates[i] == FATE_CONFLICT;
	}
	if (ret->n_conflicts)
		ret->n_applied = ret->n_merged = 0;
	ret->n_dropped = plan->site->loss.n;
	memcpy(ret->dropped, plan->site->loss.text, sizeof ret->dropped);
}

static const char *why_held(const struct plan *plan, const struct atoll_change *change)
{
	const char *mark = holds_find(plan->holds, change->path);

	return mark ? mark : change->mark;
}

static void tell(const struct plan *plan, bool has_conflicts)
{
	static const enum atoll_apply_fate fates[] = {
		[FATE_LEFT] = ATOLL_FATE_LEFT,	       [FATE_APPLIED] = ATOLL_FATE_APPLIED,
		[FATE_MERGED] = ATOLL_FATE_MERGED,     [FATE_HELD] = ATOLL_FATE_HELD,
		[FATE_CONFLICT] = ATOLL_FATE_CONFLICT,
	};
	const struct atoll_apply_options *options = plan->options;

	for (size_t i = 0; options->told && i < plan->changes->list.n; i++) {
		const struct atoll_change *change = &plan->changes->list.items[i];
		enum atoll_apply_fate fate = fates[plan->fates[i]];

		if (has_conflicts && fate != ATOLL_FATE_CONFLICT && fate != ATOLL_FATE_HELD)
			fate = ATOLL_FATE_LEFT;
		options->told(change, fate,
			      fate == ATOLL_FATE_HELD ? why_held(plan, change) : plan->why[i],
			      options->data);
	}
}

static int report_conflicts(const struct plan *plan, uint64_t n, struct atoll_error *err)
{
	char shown[200];
	size_t i = 0;

	while (plan->fates[plan->order[i]] != FATE_CONFLICT)
		i++;
	i = plan->order[i];
	error_set(err, ATOLL_FAULT_POLICY, 0,
		  "nothing was applied, because of %llu conflict%s: '%s': %s",
		  (unsigned long long)n, n == 1 ? "" : "s",
		  str_show(plan->changes->list.items[i].path, shown, sizeof shown),
		  plan->why[i] ? plan->why[i] : "changed on the host");
	return -EEXIST;
}

/* ---- the whole ---- */

static bool leaves_nothing(const struct plan *plan)
{
	for (size_t i = 0; i < plan->changes->list.n; i++)
		if (plan->fates[i] == FATE_LEFT)
			return false;
	return true;
}

static int stage(void *data, struct atoll_error *err)
{
	return stage_plan(data, err);
}

static int carry_out(struct plan *plan, struct atoll_error *err)
{
	struct journal *journal = &plan->journal;

	journal->kind = JOURNAL_APPLY;
	journal->number = plan->site->record->n_applies + 1;
	journal->is_all = leaves_nothing(plan);
	return steps_carry_out(plan->site, journal, stage, plan, err);
}

static int apply_plan(struct plan *plan, struct atoll_apply_report *ret, struct atoll_error *err)
{
	int r = 0;

	count(plan, ret);
	if (ret->n_conflicts) {
		tell(plan, true);
		return report_conflicts(plan, ret->n_conflicts, err);
	}
	if (!plan->options->is_dry && plan->journal.n > 0)
		r = carry_out(plan, err);
	if (r < 0) {
		ret->n_applied = ret->n_merged = 0;
		return r;
	}
	count(plan, ret);
	tell(plan, false);
	return 0;
}

static int apply_changes(struct layer_record *record, struct layer_changes *changes,
			 const struct atoll_apply_options *options, struct holds *holds,
			 struct atoll_apply_report *ret, struct atoll_error *err)
{
	cleanup_with(site_close) struct site site = {.workspace_fd = -1, .stage_fd = -1};
	struct known *known = NULL;
	struct plan plan = {0};
	int r = site_open(record, false, &site, err);

	if (r == 0)
		r = known_load(record, &known, err);
	if (r < 0)
		return r;
	r = plan_make(&site, changes, known, options, holds, &plan, err);
	if (r == 0)
		r = apply_plan(&plan, ret, err);
	apply_plan_done(&plan);
	known_free(known);
	return r;
}

static int apply_once(struct layer_record *record, const struct atoll_apply_options *options,
		      struct holds *holds, struct atoll_apply_report *ret, struct atoll_error *err)
{
	struct layer_changes *changes;
	int r = layer_changes_read(record, false, &changes, err);

	if (r < 0)
		return r;
	r = apply_changes(record, changes, options, holds, ret, err);
	atoll_changes_close(&changes->list);
	return r;
}

/* Commands that still run may write faster than their files are copied. */
#define TRIES_MAX 16

int layer_apply(struct layer_record *record, const struct atoll_apply_options *options,
		struct atoll_apply_report *ret, struct atoll_error *err)
{
	cleanup_with(holds_done) struct holds holds = {0};
	int r;

	*ret = (struct atoll_apply_report){0};
	strcpy(ret->record, record->info.id);
	r = layer_recover(record, err);
	if (r < 0)
		return r;
	for (int tries = 0; tries < TRIES_MAX; tries++) {
		r = apply_once(record, options, &holds, ret, err);
		if (r != -EAGAIN)
			return r;
	}
	return error_context(err, r, "the sandbox writes faster than its files can be copied");
}
