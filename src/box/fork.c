/* SPDX-License-Identifier: Apache-2.0 */
#include "box/fork.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-network-values.h"
#include "box/box-remove.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/create.h"
#include "box/daemon-state.h"
#include "box/event.h"
#include "box/life.h"
#include "box/make.h"
#include "box/meter.h"
#include "box/op.h"
#include "box/quota.h"
#include "box/row.h"
#include "box/table.h"
#include "box/volume-mounts.h"
#include "box/volume.h"

#include <atoll/step.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Forks of a box
 *
 * Branches of its files as they are now, each a box of its own with the same environment, metadata
 * and rules. Processes are not forked: those of the original go on, and a fork begins with none.
 * Volumes are shared, not copied: what one writes to a volume the others see.
 */

/* ---- on a thread ---- */

int fork_run(struct box_op *op)
{
	int r = make_forks(op->sandbox, NULL, op->count, op->ids, &op->error);

	for (size_t i = 0; r == 0 && i < op->count; i++) {
		struct atoll_error *err = &op->forks[i].error;

		if (atoll_sandbox_start(op->ids[i], err) == 0 && op->branch_rules[i])
			atoll_sandbox_set_network(op->ids[i], op->branch_rules[i], err);
		if (err->fault)
			atoll_sandbox_remove(op->ids[i], true, NULL);
	}
	return r;
}

/* ---- afterwards ---- */

struct branch {
	struct box_op *op;
	struct daemon_box *box;
	size_t i;
};

/* Its row is gone, and so is all else. */
static void drop_branch(struct daemon_box *box, struct box_fork *fork, int code)
{
	error_set(&fork->error, ATOLL_FAULT_HOST, -code, "write the daemon's database");
	row_remove(box);
	remove_sandbox(box->box.daemon, box->box.sandbox, NULL, NULL);
	network_forget(box);
	tenant_uncharge(box);
	box_free(box);
}

static void list_branch(struct daemon_box *box, struct box_fork *fork)
{
	int r = table_put(box->box.daemon, box);

	if (r < 0) {
		drop_branch(box, fork, r);
		return;
	}
	box_arm_end(box);
	meter_start(box);
	box->box.daemon->counts.n_created++;
	fork->box = &box->box;
	box_report(&box->box, BOX_CREATED, NULL);
}

/* None can be found, and so ended, before all are there and who asked is told of them. */
static void branch_is_done(struct box_op *op)
{
	struct daemon_box *mine = op->box;

	if (--op->n_pending)
		return;
	for (size_t i = 0; i < op->count; i++) {
		if (op->branches[i] && !op->forks[i].error.fault)
			list_branch(take_ptr(op->branches[i]), &op->forks[i]);
	}
	op->forked(op->forks, op->count, &op->error, op->data);
	box_next_op(mine);
}

static void branch_written(int code, void *data)
{
	struct branch *branch = data;
	struct box_op *op = branch->op;

	if (code < 0)
		drop_branch(branch->box, &op->forks[branch->i], code);
	else
		op->branches[branch->i] = branch->box;
	branch_is_done(op);
	free(branch);
}

/* Labels of ours say what a box was asked for by (v1/v1.h): a fork was not. What its contract says
 * is the fork's, too. */
static void drop_own_labels(struct box_pairs *labels)
{
	size_t n = 0;

	for (size_t i = 0; i < labels->n; i++) {
		struct box_pair pair = labels->items[i];

		if (starts_with(pair.name, "atoll.") && !streq(pair.name, "atoll.asks")) {
			free(pair.name);
			free(pair.value);
		} else {
			labels->items[n++] = pair;
		}
	}
	labels->n = n;
}

/* As if it had been asked for like the first one; its time is the fork's own. */
static int copy_box(const struct box *from, struct box *to)
{
	const struct box_sizes sizes = {
		.cpus = from->cpus, .memory_mib = from->memory_mib, .disk_mib = from->disk_mib};
	const struct box_request request = {.template_ref = from->alias,
					    .metadata = from->metadata,
					    .labels = from->labels,
					    .pauses_at_end = from->pauses_at_end,
					    .pauses_memory = from->pauses_memory,
					    .wakes = from->wakes,
					    .is_public = !from->traffic_token[0],
					    .has_internet = from->has_internet,
					    .network = from->network,
					    .mounts = from->mounts};

	memcpy(to->template_id, from->template_id, sizeof to->template_id);
	if (box_fill(to, &request, &sizes) < 0 ||
	    pairs_copy(&from->environment, &to->environment) < 0)
		return -ENOMEM;
	drop_own_labels(&to->labels);
	return 0;
}

static int settle_branch(struct box_op *op, size_t i, struct atoll_error *err)
{
	const struct box *from = &op->box->box;
	struct daemon_box *mine = op->branches[i];
	struct branch *branch;
	int r = tenant_check(inner_tenant(from->tenant), from->memory_mib, from->disk_mib,
			     from->cpus, err);

	if (r < 0)
		return r;
	branch = calloc(1, sizeof *branch);
	if (!branch)
		return error_oom(err);
	*branch = (struct branch){op, mine, i};
	op->branches[i] = NULL;
	memcpy(mine->box.sandbox, op->ids[i], ATOLL_ID_SIZE);
	mine->box.timeout_s = op->timeout_s;
	mine->box.start_ms = daemon_now_ms();
	mine->box.end_ms = box_end_after(op->timeout_s);
	mine->box.state = BOX_RUNNING;
	tenant_charge(mine);
	row_insert(mine, branch_written, branch);
	return 0;
}

void fork_after(struct box_op *op)
{
	struct daemon_box *mine = op->box;

	if (op->code < 0) {
		op->forked(NULL, 0, &op->error, op->data);
		box_next_op(mine);
		return;
	}
	op->n_pending = 1;
	for (size_t i = 0; i < op->count; i++) {
		op->n_pending++;
		if (op->forks[i].error.fault)
			branch_is_done(op);
		else if (settle_branch(op, i, &op->forks[i].error) < 0) {
			remove_sandbox(mine->box.daemon, op->ids[i], NULL, NULL);
			branch_is_done(op);
		}
	}
	branch_is_done(op);
}

/* ---- asked for ---- */

/* Each has rules of its own: values of headers lie in files of its own. */
static int make_branches(struct box_op *op, const struct box *from)
{
	const bool has_rules = from->network || !from->has_internet;
	int r = 0;

	op->ids = calloc(op->count, sizeof *op->ids);
	op->forks = calloc(op->count, sizeof *op->forks);
	op->branches = calloc(op->count, sizeof(struct daemon_box *));
	op->branch_rules = calloc(op->count, sizeof(char *));
	if (!op->ids || !op->forks || !op->branches || !op->branch_rules)
		return error_oom(&op->error);
	for (size_t i = 0; r == 0 && i < op->count; i++) {
		struct daemon_box *mine = op->branches[i] = box_new(inner_tenant(from->tenant));

		if (!mine || copy_box(from, &mine->box) < 0)
			r = error_oom(&op->error);
		else if (has_rules)
			r = network_rules(mine, from->network, from->has_internet,
					  &op->branch_rules[i], &op->error);
	}
	return r;
}

void fork_done(struct box_op *op)
{
	if (op->box)
		volume_unclaim(op->box->box.daemon, &op->claim);
	for (size_t i = 0; i < op->count && op->branches; i++) {
		if (op->branches[i])
			network_forget(op->branches[i]);
		box_free(op->branches[i]);
	}
	for (size_t i = 0; i < op->count && op->branch_rules; i++)
		free(op->branch_rules[i]);
	free(op->branches);
	free(op->branch_rules);
}

void box_fork(struct box *box, size_t count, uint64_t timeout_s, box_forked *done, void *data)
{
	struct box_op *op = op_new(OP_FORK, NULL, data);
	int r = 0;

	op->forked = done;
	op->count = count;
	op->timeout_s = timeout_s ? timeout_s : box->timeout_s;
	/* The box may be gone before they are found. */
	op->claim = (struct volume_claim){.tenant = box->tenant, .mounts = box->mounts};
	volume_claim(box->daemon, &op->claim);
	if (box->state != BOX_RUNNING)
		r = error_set(&op->error, ATOLL_FAULT_REQUEST, EBUSY, "sandbox %s is paused",
			      box->id);
	/* Over the quota with the first one is told before anything is made. */
	if (r == 0)
		r = tenant_check(inner_tenant(box->tenant), box->memory_mib, box->disk_mib,
				 box->cpus, &op->error);
	if (r == 0)
		make_branches(op, box);
	box_queue(inner(box), op);
}
