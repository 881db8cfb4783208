/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "job/job.h"
#include "layer/layer.h"
#include "sandbox/apply-discard.h"
#include "sandbox/checkpoints.h"
#include "sandbox/record-lock.h"
#include "sandbox/sandbox-reach.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Checkpoint, rollback, fork and history of a sandbox, in the client
 *
 * These work with and without a holder. With one, the holder makes the checkpoint or rollback
 * (holder-checkpoint.c) and logs it. Without one, the client locks `held` and the record, and does
 * both itself (checkpoints.c). A fork needs no holder: it makes a record over the same sealed
 * layers.
 */

static int check_mode(const struct spec *spec, struct atoll_error *err)
{
	if (spec->workspace_mode == SPEC_WORKSPACE_LAYER)
		return 0;
	return error_set(err, ATOLL_FAULT_REQUEST, 0,
			 "the sandbox writes its workspace directly, so there is nothing to "
			 "return to");
}

static int check_layer(const struct layer_record *record, struct atoll_error *err)
{
	struct atoll_job *job = NULL;
	int r = sandbox_job(record, true, &job, err);

	if (r == 0)
		r = check_mode(job->spec, err);
	atoll_job_free(job);
	return r;
}

/* Without a holder, `held` locks the sandbox meanwhile. */
static int checkpoint(struct layer_record *record, const char *name, char ret_name[64],
		      struct atoll_error *err)
{
	cleanup_fd int held = -1;
	struct holder_reply reply;
	int r = sandbox_lock_or_ask(record, HOLDER_CHECKPOINT, name, &held, &reply, err);

	if (r < 0)
		return r;
	if (held < 0) {
		memcpy(ret_name, reply.name, sizeof reply.name);
		return 0;
	}
	r = check_layer(record, err);
	if (r == 0)
		r = layer_record_lock(record, false, err);
	if (r == 0)
		r = checkpoints_seal(record, name, NULL, ret_name, err);
	return r < 0 ? r : sandbox_log_change(record, "checkpoint", ret_name, UINT64_MAX, err);
}

int atoll_sandbox_checkpoint(const char *id, const char *name, char ret_name[64],
			     struct atoll_error *err)
{
	cleanup_record struct layer_record *record = NULL;
	char made[64];
	int r = sandbox_open(id, &record, err);

	if (r == 0)
		r = checkpoint(record, name, made, err);
	if (r == 0 && ret_name)
		memcpy(ret_name, made, sizeof made);
	return r;
}

int atoll_sandbox_rollback(const char *id, const char *name, uint64_t *ret_ended,
			   struct atoll_error *err)
{
	cleanup_record struct layer_record *record = NULL;
	cleanup_fd int held = -1;
	struct holder_reply reply;
	int r = sandbox_open(id, &record, err);

	if (r == 0)
		r = sandbox_lock_or_ask(record, HOLDER_ROLLBACK, name, &held, &reply, err);
	if (r < 0)
		return r;
	if (held < 0) {
		*ret_ended = reply.count;
		return 0;
	}
	*ret_ended = 0;
	r = check_layer(record, err);
	if (r == 0)
		r = layer_record_lock(record, false, err);
	if (r == 0)
		r = checkpoints_return(record, name, err);
	if (r == 0)
		r = sandbox_log_change(record, "rollback", name, 0, err);
	if (r == 0)
		layer_store_tidy(&record->store, CHECKPOINTS_TIDY_NS);
	return r;
}

/* In the event logs of both. */
static int note_fork(const struct layer_record *record, const struct spec *spec, const char *name,
		     const char *child, struct atoll_error *err)
{
	char parent[ATOLL_ID_SIZE + 66];
	int r = sandbox_log_decision(record, "fork", child, err);

	snprintf(parent, sizeof parent, "%s/%s", record->info.id, name);
	return r != 0 ? r : sandbox_log_begin(child, spec, parent, err);
}

/* Lock the record so that its layers are not removed. Unlock before the fork is logged: the holder
 * logs it, and may be blocked on this lock. */
static int branch(struct layer_record *record, const char *name, bool is_first,
		  char ret_id[ATOLL_ID_SIZE], struct atoll_error *err)
{
	cleanup_with(checkpoints_done) struct checkpoints checkpoints = {0};
	const struct checkpoint *point;
	int r = sandbox_lock_record(record, SANDBOX_LOCK_MS, err);

	if (r == 0)
		r = checkpoints_read(record, &checkpoints, err);
	if (r == 0)
		r = checkpoints_find(&checkpoints, name, &point, err);
	if (r == 0 && is_first)
		r = layer_store_keep_bounds(&record->store, err);
	if (r == 0)
		r = checkpoints_branch(record, point, ret_id, err);
	sandbox_unlock_record(record);
	return r;
}

int atoll_sandbox_fork(const char *id, const char *name, size_t count,
		       char (*ret_ids)[ATOLL_ID_SIZE], struct atoll_error *err)
{
	cleanup_record struct layer_record *record = NULL;
	struct atoll_job *job = NULL;
	char made[64];
	int r = sandbox_open(id, &record, err);

	if (r == 0 && !name)
		r = checkpoint(record, NULL, made, err);
	if (r == 0)
		r = sandbox_job(record, false, &job, err);
	if (r == 0)
		r = check_mode(job->spec, err);
	name = name ? name : made;
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = branch(record, name, i == 0, ret_ids[i], err);
		if (r == 0)
			r = note_fork(record, job->spec, name, ret_ids[i], err);
		if (r < 0 && i > 0)
			error_context(err, r, "after %zu forks", i);
	}
	atoll_job_free(job);
	return r;
}

int atoll_sandbox_history(const char *id, struct atoll_checkpoint **ret, size_t *ret_n,
			  struct atoll_error *err)
{
	cleanup_record struct layer_record *record = NULL;
	cleanup_with(checkpoints_done) struct checkpoints checkpoints = {0};
	struct atoll_checkpoint *list;
	int r = sandbox_open(id, &record, err);

	if (r == 0)
		r = checkpoints_read(record, &checkpoints, err);
	if (r < 0)
		return r;
	list = calloc(checkpoints.n + 1, sizeof *list);
	if (!list)
		return error_oom(err);
	for (size_t i = 0; i < checkpoints.n; i++) {
		list[i] = checkpoints.points[i].info;
		checkpoints.points[i].info.command = NULL; /* the list owns it now */
	}
	*ret = list;
	*ret_n = checkpoints.n;
	return 0;
}

void atoll_history_free(struct atoll_checkpoint *list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		free(list[i].command);
	free(list);
}
