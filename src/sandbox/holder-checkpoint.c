/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-checkpoint.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "layer/layer.h"
#include "sandbox/checkpoints.h"
#include "sandbox/holder-cell.h"
#include "sandbox/holder-eventlog.h"
#include "sandbox/holder-life.h"
#include "sandbox/holder-root.h"
#include "sandbox/holder-steps.h"
#include "sandbox/holder.h"
#include "sandbox/record-lock.h"
#include "spec/spec.h"

#include <errno.h>
#include <poll.h>

/*
 * Checkpoint and rollback of a live sandbox
 *
 *   checkpoint, no process inside   the top layer is sealed by a rename, and the workspace is
 *                                   mounted again on top of it; nothing is copied
 *   checkpoint, with processes      they are stopped, the top layer is copied, they go on
 *   rollback                        all processes are ended, and the workspace is mounted on the
 *                                   checkpoint's layers. The cell ends as well if the private root
 *                                   has changed since then (holder-root.c)
 *
 * If the back end cannot mount the workspace again in place, the cell ends, and the next step
 * builds another one.
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

/* Mount the workspace of a cell without processes again, from the record's present layers. */
static void remount_workspace(struct holder *holder)
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
	const bool is_stopped = holder->is_frozen || holder->is_stuck;
	int r = is_stopped ? 0 : holder_stop_inside(holder, err);

	if (r < 0)
		return r;
	r = holder_copy_root(holder, false, err);
	if (r == 0)
		r = checkpoints_copy(holder->record, name, note, ret_name, err);
	if (!is_stopped)
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
	/* Check the name before the copy. */
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
	/* Also after a failure: the top layer may be sealed already. */
	remount_workspace(holder);
	return r;
}

/* A checkpoint only moves files: changes that were logged stay logged, and changes that background
 * processes made since the end of their step are logged with the next one. If layers are joined,
 * their files get other inodes: compare all changes before and after. That happens once in some
 * dozens of checkpoints. */
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
	/* The end of a step can be handled while a rollback has the record locked. */
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

/* Check the name before any process is ended. */
static int check_name(const struct holder *holder, const char *name, struct atoll_error *err)
{
	cleanup_with(checkpoints_done) struct checkpoints checkpoints = {0};
	const struct checkpoint *point;
	int r = checkpoints_read(holder->record, &checkpoints, err);

	return r < 0 ? r : checkpoints_find(&checkpoints, name, &point, err);
}

static int rollback_locked(struct holder *holder, const char *name, uint64_t *ret_ended,
			   struct atoll_error *err)
{
	int r = check_name(holder, name, err);

	if (r < 0)
		return r;
	if (!holder->is_live) {
		*ret_ended = 0;
		holder->has_stale_changes = true;
		return checkpoints_return(holder->record, name, err);
	}
	for (size_t i = 0; i < holder->n_places; i++) {
		struct holder_client *client = &holder->clients[i];

		client->is_cut = client_has_step(client);
	}
	r = holder_ask_init(holder, INIT_CLEAR, err);
	if (r < 0)
		return r;
	*ret_ended = (uint64_t)r;
	holder->has_stale_changes = true;
	r = checkpoints_return(holder->record, name, err);
	/* A private root cannot be mounted again in place: end the cell. */
	if (r == 0 && !holder_root_is_current(holder)) {
		holder->drops_root = true;
		holder_close_cell(holder, NULL);
	} else {
		remount_workspace(holder);
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
