/* SPDX-License-Identifier: Apache-2.0 */
#include "box/life.h"

#include "base/clock.h"
#include "base/error.h"
#include "box/box-network-values.h"
#include "box/box-remove.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/daemon-state.h"
#include "box/event.h"
#include "box/guest-link.h"
#include "box/meter.h"
#include "box/op.h"
#include "box/process.h"
#include "box/quota.h"
#include "box/row.h"
#include "box/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * The time at which a box ends, and its end
 *
 * A kill does not wait in line: the box is gone for everybody at once, operations that wait (op.c)
 * fail, and the sandbox is removed when the one that is at work has come to its end.
 */

#define LONGEST_NAP_NS (6 * 3600 * INT64_C(1000000000))

/* ---- a box in memory ---- */

void pairs_done(struct box_pairs *pairs)
{
	for (size_t i = 0; i < pairs->n; i++) {
		free(pairs->items[i].name);
		free(pairs->items[i].value);
	}
	free(pairs->items);
	*pairs = (struct box_pairs){0};
}

int pairs_copy(const struct box_pairs *from, struct box_pairs *to)
{
	*to = (struct box_pairs){.items = calloc(from->n + 1, sizeof *to->items)};
	if (!to->items)
		return -ENOMEM;
	for (size_t i = 0; i < from->n; i++) {
		to->items[i].name = strdup(from->items[i].name);
		to->items[i].value = strdup(from->items[i].value);
		to->n++;
		if (!to->items[i].name || !to->items[i].value)
			return -ENOMEM;
	}
	return 0;
}

struct daemon_box *box_new(struct daemon_tenant *tenant)
{
	struct daemon_box *mine = calloc(1, sizeof *mine);

	if (!mine)
		return NULL;
	mine->box.id[0] = 'i';
	daemon_random_name(mine->box.id + 1, 20);
	daemon_random_hex(mine->box.access_token, BOX_TOKEN_SIZE - 1);
	mine->box.daemon = tenant->tenant.daemon;
	mine->box.tenant = &tenant->tenant;
	mine->box.state = BOX_STARTING;
	mine->ops_last = &mine->ops;
	mine->touched_ns = clock_monotonic_ns();
	return mine;
}

void box_free(struct daemon_box *mine)
{
	if (!mine)
		return;
	if (mine->is_measured) {
		mine->is_freed = true;
		return;
	}
	loop_disarm(mine->box.daemon->loop, &mine->box.end_timer);
	loop_disarm(mine->box.daemon->loop, &mine->meter_timer);
	pairs_done(&mine->box.metadata);
	pairs_done(&mine->box.environment);
	pairs_done(&mine->box.labels);
	free(mine->box.network);
	free(mine->box.mounts);
	free(mine->samples);
	while (mine->gone) {
		struct gone *next = mine->gone->next;

		free(mine->gone);
		mine->gone = next;
	}
	free(mine);
}

/* ---- who wants to know of its end ---- */

uint64_t box_on_gone(struct box *box, void (*call)(struct box *box, void *data), void *data)
{
	struct gone *gone = calloc(1, sizeof *gone);

	if (!gone)
		abort(); /* it would be called, and is not there any more */
	*gone = (struct gone){++box->daemon->next_gone, call, data, inner(box)->gone};
	inner(box)->gone = gone;
	return gone->number;
}

void box_forget_gone(struct box *box, uint64_t number)
{
	for (struct gone **at = &inner(box)->gone; *at; at = &(*at)->next) {
		if ((*at)->number == number) {
			struct gone *gone = *at;

			*at = gone->next;
			free(gone);
			return;
		}
	}
}

/* A call may make others be forgotten. */
void box_call_gone(struct daemon_box *mine)
{
	while (mine->gone) {
		struct gone gone = *mine->gone;

		free(mine->gone);
		mine->gone = gone.next;
		gone.call(&mine->box, gone.data);
	}
}

/* ---- its end ---- */

static void end_came(struct loop_timer *timer)
{
	struct daemon_box *mine =
		(struct daemon_box *)((char *)timer - offsetof(struct box, end_timer));
	struct box *box = &mine->box;

	if (box->state != BOX_RUNNING)
		return;
	/* The clock may have been set, or the nap was long. */
	if (daemon_now_ms() < box->end_ms)
		box_arm_end(mine);
	else if (box->pauses_at_end)
		box_pause(box, box->pauses_memory, NULL, NULL);
	else
		box_kill(box, BOX_CAUSE_TIME_OUT, NULL, NULL);
}

void box_arm_end(struct daemon_box *mine)
{
	struct box *box = &mine->box;
	int64_t left_ms = box->end_ms == INT64_MAX ? INT64_MAX : box->end_ms - daemon_now_ms();
	int64_t now_ns = clock_monotonic_ns();

	loop_disarm(box->daemon->loop, &box->end_timer);
	if (box->state != BOX_RUNNING || left_ms == INT64_MAX)
		return;
	box->end_timer.fire = end_came;
	left_ms = left_ms < 0 ? 0 : left_ms;
	loop_arm(box->daemon->loop, &box->end_timer,
		 left_ms > LONGEST_NAP_NS / 1000000 ? now_ns + LONGEST_NAP_NS
						    : now_ns + left_ms * 1000000);
}

int64_t box_end_after(uint64_t timeout_s)
{
	int64_t now_ms = daemon_now_ms();

	return timeout_s > (uint64_t)(INT64_MAX - now_ms) / 1000
		       ? INT64_MAX
		       : now_ms + (int64_t)timeout_s * 1000;
}

void box_set_timeout(struct box *box, uint64_t timeout_s, bool only_later)
{
	int64_t end_ms = box_end_after(timeout_s);

	if (box->state != BOX_RUNNING || (only_later && end_ms <= box->end_ms))
		return;
	box->end_ms = end_ms;
	box_arm_end(inner(box));
	row_update(inner(box));
}

void box_touch(struct box *box)
{
	inner(box)->touched_ns = clock_monotonic_ns();
}

static void sandbox_removed(void *data)
{
	struct daemon_box *mine = data;

	if (mine->last_look)
		meter_end(mine, mine->last_look);
	free(mine->last_look);
	if (mine->killed)
		mine->killed(&mine->box, &(struct atoll_error){0}, mine->killed_data);
	box_free(mine);
}

void box_begin_removal(struct daemon_box *mine)
{
	network_forget(mine);
	/* Or whoever ends each sandbox before it is looked at would use nothing. */
	mine->last_look = mine->usage.n_steps > 0 ? calloc(1, sizeof *mine->last_look) : NULL;
	remove_measured(mine->box.daemon, mine->box.sandbox, mine->last_look, sandbox_removed,
			mine);
}

struct second_kill {
	struct later later;
	box_done *done;
	void *data;
};

static void end_was_told(struct later *later)
{
	struct second_kill *kill = (struct second_kill *)later;
	struct atoll_error err = {0};

	error_set(&err, ATOLL_FAULT_REQUEST, ENOENT, "the sandbox was ended already");
	kill->done(NULL, &err, kill->data);
	free(kill);
}

/* Who kills what is being ended waits for nothing. */
static void report_end(struct daemon_box *mine, box_done *done, void *data)
{
	struct second_kill *kill = done ? calloc(1, sizeof *kill) : NULL;

	if (!kill)
		return;
	kill->done = done;
	kill->data = data;
	daemon_call_later(mine->box.daemon, &kill->later, end_was_told);
}

void box_kill(struct box *box, enum box_cause cause, box_done *done, void *data)
{
	struct daemon_box *mine = inner(box);
	struct daemon *daemon = box->daemon;

	if (box->state == BOX_ENDING) {
		report_end(mine, done, data);
		return;
	}
	box->state = BOX_ENDING;
	box->cause = cause;
	mine->killed = done;
	mine->killed_data = data;
	table_remove(daemon, mine);
	tenant_uncharge(mine);
	loop_disarm(daemon->loop, &box->end_timer);
	meter_stop(mine);
	daemon->counts.ends[cause]++;
	row_remove(mine);
	box_call_gone(mine);
	guest_end(box);
	box_report(box, BOX_ENDED, NULL);
	process_forget_all(box);
	ops_fail(mine);
	if (!mine->ops)
		box_begin_removal(mine);
}
