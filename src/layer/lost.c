/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "layer/draft.h"

/*
 * What the run has changed and the host has deleted meanwhile
 *
 * Such a file looks like one that was added. That it was copied up tells that the base had it, if
 * not under another name: it may have been renamed inside. What was kept for merges
 * (records/ID/base) tells for texts; for others it is lost if no other name of the base's is there
 * that it may have had.
 */

/* A file in the place of the base's that is not a copy of that: the base's own may live on under
 * another name. */
static bool is_replaced(const struct drafts *drafts, const char *path)
{
	cleanup_fd int fd = layer_stack_open_after(drafts->stack, path);
	struct draft_origin origin;

	return fd < 0 || !origin_read(fd, &origin);
}

/* Can a file of the base have been renamed, other than those that are known to be? */
static bool has_source(const struct drafts *drafts)
{
	for (size_t i = 0; i < drafts->n; i++) {
		const struct atoll_change *change = &drafts->items[i].change;

		if (!S_ISREG(change->before.st_mode))
			continue;
		if (change->kind == ATOLL_DELETED ||
		    (change->kind == ATOLL_CHANGED && is_replaced(drafts, change->path)))
			return true;
	}
	for (size_t i = 0; i < drafts->n_same; i++)
		if (is_replaced(drafts, drafts->same[i]))
			return true;
	return false;
}

/* Another name may still be the base's; and only the lowest layer is copied from the base for sure.
 */
static bool is_suspect(const struct drafts *drafts, const struct draft *draft)
{
	return draft->change.kind == ATOLL_ADDED && draft->origin && !draft->is_found &&
	       !draft->change.conflict && draft->change.after.st_nlink == 1 &&
	       draft->layer + 1 == drafts->stack->n;
}

void drafts_find_lost(struct drafts *drafts)
{
	bool is_asked = false, has_other = false;

	/* Once something was applied, the base is not what it was. */
	if (drafts->is_applied)
		return;
	for (size_t i = 0; i < drafts->n; i++) {
		struct draft *draft = &drafts->items[i];

		if (!is_suspect(drafts, draft))
			continue;
		if (!is_asked && !draft->origin->size) {
			has_other = has_source(drafts);
			is_asked = true;
		}
		if (draft->origin->size || !has_other || host_had(drafts, draft->change.path))
			draft->change.conflict = "deleted on the host since";
	}
}
