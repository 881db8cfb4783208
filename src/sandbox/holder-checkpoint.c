/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-checkpoint.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "layer/layer.h"
#include "sandbox/checkpoints.h"
#include "sandbox/holder-attached.h"
#include "sandbox/holder-cell.h"
#include "sandbox/holder-eventlog.h"
#include "sandbox/holder-life.h"
#include "sandbox/holder-root.h"
#include "sandbox/holder.h"
#include "sandbox/record-lock.h"
#include "spec/spec.h"

#include <errno.h>
#include <poll.h>

/*
 * Checkpoints and going back, while the sandbox lives
 *
 *   nothing runs     the top becomes a layer by a rename, and the workspace is put together anew on
 *                    top of it; nothing is copied
 *   something runs   it is stopped, the top is copied, it goes on
 *   going back       what runs is ended; and the cell with it, if something was written beside the
 *                    workspace since then (holder-root.c)
 *
 * Where the workspace cannot be put together in place, the cell ends, and the next step builds
 * another one.
 */

static int check_layer(const struct holder *holder, struct atoll_error *err)
{
	if (holder->spec->workspace_mode == SPEC_WORKSPACE_LAYER)
		return 0;
	return error_set(
		err, ATOLL_FAULT_REQUEST, 0,
		"the sandbox writes its workspace directly (--direct), so there is nothing "
		"to return to");
}

/* The workspace of a cell in which nothing runs, from the record's layers as they are now. */
static void exchange(struct holder *holder)
{
	struct atoll_error err = {0};
	int r = holder_find_layers(holder, &err);

	if (r == 0)
		r = holder->backend->relayer
			    ? holder->backend->relayer(holder->cell, &holder->handle,
						       &holder->layer, &err)
			    : -EOPNOTSUPP;
	if (r == 0) {
		holder->is_idle = true;
		holder_wake(holder);
	} else {
		holder_close_cell(holder, NULL);
	}
}

static int checkpoint_running(struct holder *holder, const char *name,
			      const struct checkpoint_step *note, char ret_name[64],
			      struct atoll_error *err)
{
	const bool stands_still = holder->is_frozen || holder->is_stuck;
	int r = stands_still ? 0 : holder_stop_inside(holder, err);

	if (r < 0)
		return r;
	r = holder_copy_root(holder, false, err);
	if (r == 0)
		r = checkpoints_copy(holder->record, name, note, ret_name, err);
	if (!stands_still)
		holder_send_order(holder, INIT_THAW, 0, 0);
	return r;
}

static int checkpoint_locked(struct holder *holder, const char *name,
			     const struct checkpoint_step *note, char ret_name[64],
			     struct atoll_error *err)
{
	bool is_empty = layer_top_is_empty(holder->record);
	int r;

	if (!holder->is_live || (is_empty && !holder_has_root(holder)))
		return checkpoints_seal(holder->record, name, note, ret_name, err);
	/* A name that is wrong is not worth a copy. */
	r = checkpoints_check_new(holder->record, name, err);
	if (r < 0)
		return r;
	r = holder_ask_init(holder, INIT_REST, err);
	if (r < 0)
		return r;
	if (r > 0 || holder_count_running(holder))
		return checkpoint_running(holder, name, note, ret_name, err);
	r = holder_copy_root(holder, true, err);
	if (r < 0 || is_empty)
		return r < 0 ? r : checkpoints_seal(holder->record, name, note, ret_name, err);
	r = checkpoints_seal(holder->record, name, note, ret_name, err);
	/* Also after a failure: the top may have been sealed already. */
	exchange(holder);
	return r;
}

/* A checkpoint only moves what was written: what was told stays so, and what processes wrote since
 * the end of their step is told with the next one. Where layers are joined their files are others,
 * and all of them are looked at, before and after; that is once for some dozens of checkpoints. */
static int checkpoint_recorded(struct holder *holder, const char *name,
			       const struct checkpoint_step *note, char ret_name[64],
			       struct atoll_error *err)
{
	const size_t n_before = holder->record->n_layers;
	struct layer_changes *before =
		n_before >= LAYER_DEPTH_MAX ? holder_eventlog_before_join(holder) : NULL;
	int r = checkpoint_locked(holder, name, note, ret_name, err);

	holder->has_sealed_changes = false;
	if (before && holder->record->n_layers < n_before)
		holder_eventlog_after_join(holder, before);
	if (before)
		atoll_changes_close(&before->list);
	return r;
}

int holder_checkpoint(struct holder *holder, const char *name, const struct checkpoint_step *note,
		      char ret_name[64], struct atoll_error *err)
{
	/* A step's end may be heard of in the midst of something else. */
	const bool was_locked = holder->record->lock_fd >= 0;
	int r = check_layer(holder, err);

	if (r == 0)
		r = sandbox_lock_record(holder->record, SANDBOX_LOCK_MS, err);
	if (r < 0)
		return r;
	r = checkpoint_recorded(holder, name, note, ret_name, err);
	if (!was_locked)
		sandbox_unlock_record(holder->record);
	return r;
}

/* A name that is wrong must not cost anybody his processes. */
static int check_point(const struct holder *holder, const char *name, struct atoll_error *err)
{
	cleanup_with(checkpoints_done) struct checkpoints steps = {0};
	const struct checkpoint *point;
	int r = checkpoints_read(holder->record, &steps, err);

	return r < 0 ? r : checkpoints_find(&steps, name, &point, err);
}

static int rollback_locked(struct holder *holder, const char *name, uint64_t *ret_ended,
			   struct atoll_error *err)
{
	int r = check_point(holder, name, err);

	if (r < 0)
		return r;
	if (!holder->is_live) {
		*ret_ended = 0;
		holder->has_stale_changes = true;
		return checkpoints_return(holder->record, name, err);
	}
	for (size_t i = 0; i < holder->n_places; i++) {
		struct holder_client *client = &holder->clients[i];

		client->is_cut = client->is_used && client->step_id && !client->is_over;
	}
	r = holder_ask_init(holder, INIT_CLEAR, err);
	if (r < 0)
		return r;
	*ret_ended = (uint64_t)r;
	holder->has_stale_changes = true;
	r = checkpoints_return(holder->record, name, err);
	/* A root is only put together with the rest. */
	if (r == 0 && !holder_root_is_current(holder)) {
		holder->drops_root = true;
		holder_close_cell(holder, NULL);
	} else {
		exchange(holder);
	}
	return r;
}

int holder_rollback(struct holder *holder, const char *name, uint64_t *ret_ended,
		    struct atoll_error *err)
{
	int r = check_layer(holder, err);

	if (r == 0)
		r = sandbox_lock_record(holder->record, SANDBOX_LOCK_MS, err);
	if (r < 0)
		return r;
	r = rollback_locked(holder, name, ret_ended, err);
	sandbox_unlock_record(holder->record);
	return r;
}
