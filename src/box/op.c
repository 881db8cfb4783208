/* SPDX-License-Identifier: Apache-2.0 */
#include "box/op.h"

#include "base/error.h"
#include "box/box-network-values.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/daemon-state.h"
#include "box/event.h"
#include "box/fork.h"
#include "box/guest-link.h"
#include "box/life.h"
#include "box/meter.h"
#include "box/process.h"
#include "box/quota.h"
#include "box/row.h"
#include "box/snapshot.h"
#include "box/work.h"

#include <atoll/step.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * What is done with a box that takes a while: pause, resume, other rules, snapshots, forks
 *
 * An operation runs on a thread, and a box does one at a time, in order. Whether it still makes
 * sense is looked at when its turn comes.
 */

static void op_free(struct box_op *op)
{
	free(op->network);
	free(op->rules);
	fork_done(op);
	free(op->ids);
	free(op->forks);
	free(op);
}

/* Its own function tells who asked. */
static void op_fail(struct box_op *op, const struct atoll_error *err)
{
	if (op->forked)
		op->forked(NULL, 0, err, op->data);
	else if (op->snapped)
		op->snapped(NULL, err, op->data);
	else if (op->done)
		op->done(op->box ? &op->box->box : NULL, err, op->data);
}

void ops_fail(struct daemon_box *mine)
{
	struct box_op *op = mine->ops ? mine->ops->next : NULL;
	struct atoll_error err = {0};

	error_set(&err, ATOLL_FAULT_REQUEST, ENOENT, "sandbox %s was ended", mine->box.id);
	if (mine->ops) {
		mine->ops->next = NULL;
		mine->ops_last = &mine->ops->next;
	}
	while (op) {
		struct box_op *next = op->next;

		op_fail(op, &err);
		op_free(op);
		op = next;
	}
}

/* ---- one operation after the other ---- */

static void op_run(struct work_item *item);
static void op_done(struct work_item *item);

static void op_begin(struct box_op *op)
{
	struct box *box = &op->box->box;

	op->item = (struct work_item){.run = op_run, .done = op_done, .owner = box->tenant};
	op->code = error_set(&op->error, ATOLL_FAULT_HOST, ECANCELED, "the daemon is stopping");
	memcpy(op->sandbox, box->sandbox, sizeof op->sandbox);
	work_submit(box->daemon->work, &op->item, WORK_NOW);
}

/* Looked at when its turn comes: what was asked before may have changed everything. */
static bool op_is_due(struct box_op *op)
{
	struct daemon_box *mine = op->box;
	struct box *box = &mine->box;

	if (op->error.fault)
		return false;
	if (op->kind == OP_PAUSE) {
		if (box->state == BOX_PAUSED) {
			error_set(&op->error, ATOLL_FAULT_REQUEST, EALREADY, "sandbox %s is paused",
				  box->id);
			return false;
		}
		box->state = BOX_PAUSED;
		box->keeps_memory = op->keeps_memory;
		loop_disarm(box->daemon->loop, &box->end_timer);
		box_call_gone(mine);
		/* Who was told may have ended it. */
		if (box->state != BOX_PAUSED)
			error_set(&op->error, ATOLL_FAULT_REQUEST, ENOENT, "sandbox %s was ended",
				  box->id);
		return box->state == BOX_PAUSED;
	}
	if (op->kind == OP_FREEZE_AGAIN)
		return box->state == BOX_PAUSED && box->keeps_memory;
	if (op->kind == OP_RESUME && box->state == BOX_RUNNING) {
		box_set_timeout(box, op->timeout_s, true);
		return false;
	}
	if (op->kind == OP_RESUME) {
		char why[192];

		/* Or the budget would be a pause of seconds, for whoever asks again. */
		if (tenant_is_spent(box->tenant, why, sizeof why)) {
			quota_refuse(&op->error, ATOLL_FAULT_POLICY, EDQUOT, "%s", why);
			return false;
		}
		op->keeps_memory = box->keeps_memory;
	}
	return true;
}

/* What is not due is answered a round later, and makes room for the next then. */
static void answer_op(struct later *later)
{
	struct box_op *op = (struct box_op *)((char *)later - offsetof(struct box_op, later));
	struct daemon_box *mine = op->box;

	op_fail(op, &op->error);
	box_next_op(mine);
}

static void op_try(struct box_op *op)
{
	if (op_is_due(op))
		op_begin(op);
	else
		daemon_call_later(op->box->box.daemon, &op->later, answer_op);
}

void box_queue(struct daemon_box *mine, struct box_op *op)
{
	op->box = mine;
	op->next = NULL;
	mine->n_ops++;
	*mine->ops_last = op;
	mine->ops_last = &op->next;
	if (mine->ops == op)
		op_try(op);
}

void box_next_op(struct daemon_box *mine)
{
	struct box_op *op = mine->ops;

	mine->ops = op->next;
	if (!mine->ops)
		mine->ops_last = &mine->ops;
	op_free(op);
	if (mine->ops && mine->box.state != BOX_ENDING)
		op_try(mine->ops);
	else if (mine->box.state == BOX_ENDING)
		box_begin_removal(mine);
}

/* ---- on a thread ---- */

static int run_pause(struct box_op *op)
{
	if (!op->keeps_memory)
		look_last(op->sandbox, &op->look);
	return op->keeps_memory ? atoll_sandbox_freeze(op->sandbox, &op->error)
				: atoll_sandbox_stop(op->sandbox, &op->error);
}

/* After a boot there is nothing to thaw: it starts anew on its layers. */
static int run_resume(struct box_op *op)
{
	int r = op->keeps_memory ? atoll_sandbox_thaw(op->sandbox, &op->error) : -ENOENT;

	return r == -ENOENT ? atoll_sandbox_start(op->sandbox, &op->error) : r;
}

/* One that nobody holds stands still as it is. */
static int run_again(struct box_op *op)
{
	struct atoll_sandbox_usage usage;
	int r = atoll_sandbox_usage(op->sandbox, &usage, &op->error);

	return r < 0 || usage.is_frozen ? r : atoll_sandbox_freeze(op->sandbox, &op->error);
}

static void op_run(struct work_item *item)
{
	struct box_op *op = (struct box_op *)item;

	op->error = (struct atoll_error){0};
	switch (op->kind) {
	case OP_PAUSE:
		op->code = run_pause(op);
		break;
	case OP_RESUME:
		op->code = run_resume(op);
		break;
	case OP_NETWORK:
		op->code = atoll_sandbox_set_network(op->sandbox, op->rules, &op->error);
		break;
	case OP_SNAPSHOT:
		op->code = snapshot_run(op);
		break;
	case OP_FORK:
		op->code = fork_run(op);
		break;
	case OP_FREEZE_AGAIN:
		op->code = run_again(op);
		break;
	}
	/* What was tried first, and told a story. */
	if (op->code == 0)
		op->error = (struct atoll_error){0};
}

/* ---- and back ---- */

static void after_pause(struct box_op *op)
{
	struct box *box = &op->box->box;

	if (op->code < 0) {
		box->state = BOX_RUNNING;
		box_arm_end(op->box);
		return;
	}
	box->end_ms = daemon_now_ms();
	meter_stop(op->box);
	/* Who has its processes in lists of his own lets go of them before they are freed. */
	box_report(box, BOX_WAS_PAUSED, NULL);
	if (op->keeps_memory) {
		guest_freeze(box);
	} else {
		guest_end(box);
		process_forget_all(box);
		meter_end(op->box, &op->look);
	}
}

static void after_resume(struct box_op *op)
{
	struct box *box = &op->box->box;

	if (op->code < 0)
		return;
	box->state = BOX_RUNNING;
	box->keeps_memory = false;
	box->end_ms = box_end_after(op->timeout_s);
	box_touch(box);
	box_arm_end(op->box);
	meter_start(op->box);
	box_report(box, BOX_RESUMED, NULL);
}

static void after_network(struct box_op *op)
{
	struct box *box = &op->box->box;

	/* Values that no rules need any more, whichever hold now. */
	network_sweep(op->box, op->rules, op->code == 0);
	if (op->code < 0)
		return;
	free(box->network);
	box->network = op->network;
	op->network = NULL;
	box->has_internet = op->has_internet;
}

/* Who asked is told once the next daemon would know it, too. */
static void op_written(int code, void *data)
{
	struct box_op *op = data;
	struct daemon_box *mine = op->box;

	/* While the row was written: nobody may begin anything in it. */
	if (mine->box.state == BOX_ENDING && !op->error.fault)
		error_set(&op->error, ATOLL_FAULT_REQUEST, ENOENT, "sandbox %s was ended",
			  mine->box.id);
	else if (code < 0)
		error_set(&op->error, ATOLL_FAULT_HOST, -code, "write the daemon's database");
	op_fail(op, &op->error);
	box_next_op(mine);
}

static void op_done(struct work_item *item)
{
	struct box_op *op = (struct box_op *)item;
	struct daemon_box *mine = op->box;

	/* Those two call back when all is in the database. */
	if (op->kind == OP_SNAPSHOT || op->kind == OP_FORK) {
		if (op->kind == OP_SNAPSHOT)
			snapshot_after(op);
		else
			fork_after(op);
		return;
	}
	if (op->kind == OP_FREEZE_AGAIN) {
		box_next_op(mine);
		return;
	}
	if (mine->box.state == BOX_ENDING) {
		op->code = error_set(&op->error, ATOLL_FAULT_REQUEST, ENOENT,
				     "sandbox %s was ended", mine->box.id);
	} else if (op->kind == OP_PAUSE) {
		after_pause(op);
	} else if (op->kind == OP_RESUME) {
		after_resume(op);
	} else {
		after_network(op);
	}
	if (op->code == 0 && mine->is_listed)
		row_insert(mine, op_written, op);
	else
		op_written(0, op);
}

/* ---- asked for ---- */

struct box_op *op_new(enum op_kind kind, box_done *done, void *data)
{
	struct box_op *op = calloc(1, sizeof *op);

	if (!op)
		abort();
	op->kind = kind;
	op->done = done;
	op->data = data;
	return op;
}

void box_pause(struct box *box, bool keeps_memory, box_done *done, void *data)
{
	struct box_op *op = op_new(OP_PAUSE, done, data);

	op->keeps_memory = keeps_memory;
	box_queue(inner(box), op);
}

void box_resume(struct box *box, uint64_t timeout_s, box_done *done, void *data)
{
	struct box_op *op = op_new(OP_RESUME, done, data);

	op->timeout_s = timeout_s ? timeout_s : box->timeout_s;
	box_queue(inner(box), op);
}

void box_freeze_again(struct daemon_box *mine)
{
	box_queue(mine, op_new(OP_FREEZE_AGAIN, NULL, NULL));
}

void box_set_network(struct box *box, const char *network, bool has_internet, box_done *done,
		     void *data)
{
	struct box_op *op = op_new(OP_NETWORK, done, data);
	struct daemon_box *mine = inner(box);

	op->has_internet = has_internet;
	op->network = network ? strdup(network) : NULL;
	/* A failure is told when its turn comes. */
	network_rules(mine, network, has_internet, &op->rules, &op->error);
	box_queue(mine, op);
}
