/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "box/event.h"
#include "box/inner.h"

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
 */

/* ---- on a thread ---- */

int fork_run(struct box_op *op)
{
	int r = atoll_sandbox_fork(op->sandbox, NULL, op->count, op->ids, &op->error);

	for (size_t i = 0; r == 0 && i < op->count; i++) {
		struct atoll_error *err = &op->forks[i].error;

		if (atoll_sandbox_start(op->ids[i], err) == 0 && op->rules)
			atoll_sandbox_set_network(op->ids[i], op->rules, err);
		if (err->fault)
			atoll_sandbox_remove(op->ids[i], true, NULL);
	}
	return r;
}

/* ---- afterwards ---- */

struct branch {
	struct box_op *op;
	struct house_box *box;
	size_t i;
};

static void branch_is_done(struct box_op *op)
{
	struct house_box *mine = op->box;

	if (--op->n_pending)
		return;
	op->forked(op->forks, op->count, &op->error, op->data);
	box_next_op(mine);
}

static void branch_written(int code, void *data)
{
	struct branch *branch = data;
	struct house_box *box = branch->box;
	struct box_fork *fork = &branch->op->forks[branch->i];
	struct house *house = box->box.house;

	if (code == 0)
		code = table_put(house, box);
	if (code < 0) {
		error_set(&fork->error, ATOLL_FAULT_HOST, -code, "write the daemon's database");
		remove_sandbox(house, box->box.sandbox, NULL, NULL);
		tenant_give_back(box);
		box_free(box);
	} else {
		box_arm_end(box);
		meter_start(box);
		house->counts.n_created++;
		fork->box = &box->box;
		box_tell(&box->box, BOX_CREATED, NULL);
	}
	branch_is_done(branch->op);
	free(branch);
}

static int copy_box(const struct box *from, struct box *to)
{
	memcpy(to->template_id, from->template_id, sizeof to->template_id);
	memcpy(to->alias, from->alias, sizeof to->alias);
	if (!from->traffic_token[0])
		to->traffic_token[0] = '\0';
	else
		house_random_hex(to->traffic_token, BOX_TOKEN_SIZE - 1);
	to->pauses_at_end = from->pauses_at_end;
	to->pauses_memory = from->pauses_memory;
	to->wakes = from->wakes;
	to->has_internet = from->has_internet;
	to->cpus = from->cpus;
	to->memory_mib = from->memory_mib;
	to->disk_mib = from->disk_mib;
	to->network = from->network ? strdup(from->network) : NULL;
	to->mounts = from->mounts ? strdup(from->mounts) : NULL;
	if (pairs_copy(&from->metadata, &to->metadata) < 0 ||
	    pairs_copy(&from->environment, &to->environment) < 0 ||
	    pairs_copy(&from->labels, &to->labels) < 0)
		return -ENOMEM;
	return 0;
}

static int settle_branch(struct box_op *op, size_t i, struct atoll_error *err)
{
	const struct box *from = &op->box->box;
	struct house_tenant *tenant = inner_tenant(from->tenant);
	struct branch *branch;
	int r = tenant_check(tenant, from->memory_mib, from->disk_mib, from->cpus, err);

	if (r < 0)
		return r;
	branch = calloc(1, sizeof *branch);
	if (!branch)
		return error_oom(err);
	*branch = (struct branch){op, box_new(tenant), i};
	if (!branch->box || copy_box(from, &branch->box->box) < 0) {
		box_free(branch->box);
		free(branch);
		return error_oom(err);
	}
	memcpy(branch->box->box.sandbox, op->ids[i], ATOLL_ID_SIZE);
	branch->box->box.timeout_s = op->timeout_s;
	branch->box->box.start_ms = house_now_ms();
	branch->box->box.end_ms = box_end_after(op->timeout_s);
	branch->box->box.state = BOX_RUNNING;
	tenant_take(branch->box);
	row_insert(branch->box, branch_written, branch);
	return 0;
}

void fork_after(struct box_op *op)
{
	struct house_box *mine = op->box;

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
			remove_sandbox(mine->box.house, op->ids[i], NULL, NULL);
			branch_is_done(op);
		}
	}
	branch_is_done(op);
}

/* ---- asked for ---- */

void box_fork(struct box *box, size_t count, uint64_t timeout_s, box_forked *done, void *data)
{
	struct box_op *op = op_new(OP_FORK, NULL, data);

	op->forked = done;
	op->count = count;
	op->timeout_s = timeout_s ? timeout_s : box->timeout_s;
	op->ids = calloc(count, sizeof *op->ids);
	op->forks = calloc(count, sizeof *op->forks);
	if (!op->ids || !op->forks)
		error_oom(&op->error);
	else if (box->state != BOX_RUNNING)
		error_set(&op->error, ATOLL_FAULT_REQUEST, EBUSY, "sandbox %s is paused", box->id);
	else
		/* Over the quota as a whole is told before anything is made. */
		tenant_check(inner_tenant(box->tenant), box->memory_mib, box->disk_mib, box->cpus,
			     &op->error);
	box_queue(inner(box), op);
}
