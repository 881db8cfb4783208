/* SPDX-License-Identifier: Apache-2.0 */
#include "box/meter.h"

#include "base/clock.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/daemon-state.h"
#include "box/event.h"
#include "box/life.h"
#include "box/process-start.h"
#include "box/process.h"
#include "box/work.h"

#include <atoll/step.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * What each box has used
 *
 * A box is looked at every five seconds, on a thread. One in which nothing has happened since is
 * looked at half as often each time, down to once a minute: five thousand that sleep cost nothing.
 * What is used is added to the box and to its tenant, and is in the database within half a minute;
 * a kill of the daemon loses no more than that of the count.
 */

#define EVERY_NS	(5 * INT64_C(1000000000))
#define FIRST_NS	(INT64_C(1000000000))
#define IDLE_ROUNDS_MAX 12 /* a minute */
#define SAMPLES_FIRST	8
#define SAMPLES_MAX	720 /* an hour of a busy one */

struct look {
	struct work_item item;
	struct daemon_box *box;
	char sandbox[ATOLL_ID_SIZE];
	uint64_t n_ops;
	int code;
	struct atoll_sandbox_usage usage;
};

/* ---- samples ---- */

static bool grow(struct daemon_box *mine)
{
	size_t room = mine->room_samples ? mine->room_samples * 2 : SAMPLES_FIRST;
	struct box_sample *samples;

	if (room > SAMPLES_MAX)
		room = SAMPLES_MAX;
	if (room == mine->room_samples)
		return false;
	samples = calloc(room, sizeof *samples);
	if (!samples)
		return false;
	for (size_t i = 0; i < mine->n_samples; i++)
		samples[i] = mine->samples[(mine->first_sample + i) % mine->room_samples];
	free(mine->samples);
	mine->samples = samples;
	mine->room_samples = room;
	mine->first_sample = 0;
	return true;
}

static void add_sample(struct daemon_box *mine, const struct box_sample *sample)
{
	if (mine->n_samples == mine->room_samples && !grow(mine)) {
		if (!mine->n_samples)
			return;
		mine->first_sample = (mine->first_sample + 1) % mine->room_samples;
		mine->n_samples--;
	}
	mine->samples[(mine->first_sample + mine->n_samples++) % mine->room_samples] = *sample;
}

size_t box_samples(const struct box *box, int64_t from_ms, int64_t to_ms, struct box_sample *ret,
		   size_t room)
{
	const struct daemon_box *mine = inner(box);
	size_t n = 0;

	for (size_t i = 0; i < mine->n_samples && n < room; i++) {
		const struct box_sample *sample =
			&mine->samples[(mine->first_sample + i) % mine->room_samples];

		if (sample->time_ms >= from_ms && sample->time_ms <= to_ms)
			ret[n++] = *sample;
	}
	return n;
}

/* ---- sums ---- */

static void add(struct daemon_box *mine, const struct box_usage *more)
{
	struct daemon_tenant *tenant = inner_tenant(mine->box.tenant);
	struct box_usage *const sums[] = {&mine->usage, &tenant->usage};

	for (size_t i = 0; i < 2; i++) {
		sums[i]->cpu_s += more->cpu_s;
		sums[i]->gib_s += more->gib_s;
		sums[i]->bytes_in += more->bytes_in;
		sums[i]->bytes_out += more->bytes_out;
		sums[i]->n_steps += more->n_steps;
	}
	tenant->is_dirty = true;
}

void box_count_bytes(struct box *box, uint64_t in, uint64_t out)
{
	add(inner(box), &(struct box_usage){.bytes_in = in, .bytes_out = out});
}

void box_count_step(struct box *box)
{
	add(inner(box), &(struct box_usage){.n_steps = 1});
}

void box_usage(const struct box *box, struct box_usage *ret)
{
	*ret = inner(box)->usage;
}

void tenant_usage(const struct tenant *tenant, struct box_usage *ret)
{
	*ret = inner_tenant(tenant)->usage;
}

/* ---- looking ---- */

static uint64_t more_of(uint64_t now, uint64_t *last)
{
	/* Counters begin anew with the holder. */
	uint64_t more = now >= *last ? now - *last : now;

	*last = now;
	return more;
}

/* After a restart of the daemon: what the row has was counted before, of this holder or of one
 * before it. */
static void begin_again(struct daemon_box *mine, const struct atoll_sandbox_usage *usage)
{
	const uint64_t cpu_ms = (uint64_t)(mine->usage.cpu_s * 1000);

	mine->is_from_row = false;
	mine->last_cpu_ms = usage->cpu_ms < cpu_ms ? usage->cpu_ms : cpu_ms;
	mine->last_bytes_in =
		usage->bytes_in < mine->usage.bytes_in ? usage->bytes_in : mine->usage.bytes_in;
	mine->last_bytes_out =
		usage->bytes_out < mine->usage.bytes_out ? usage->bytes_out : mine->usage.bytes_out;
}

static void read_usage(struct daemon_box *mine, const struct atoll_sandbox_usage *usage)
{
	const int64_t now_ns = clock_monotonic_ns();
	const double seconds = mine->last_ns ? (double)(now_ns - mine->last_ns) / 1e9 : 0;
	struct box_sample sample = {
		.time_ms = daemon_now_ms(),
		.memory_used = usage->memory,
		.memory_total = (uint64_t)mine->box.memory_mib << 20,
		.disk_used = usage->disk,
		.disk_total = (uint64_t)mine->box.disk_mib << 20,
	};
	struct box_usage more = {.gib_s = (double)usage->memory / (double)(1U << 30) * seconds};
	uint64_t cpu_ms;

	if (mine->is_from_row)
		begin_again(mine, usage);
	cpu_ms = more_of(usage->cpu_ms, &mine->last_cpu_ms);
	more.cpu_s = (double)cpu_ms / 1000;
	more.bytes_in = more_of(usage->bytes_in, &mine->last_bytes_in);
	more.bytes_out = more_of(usage->bytes_out, &mine->last_bytes_out);
	sample.cpu_percent = seconds > 0 ? (double)cpu_ms / 10 / seconds : 0;
	add_sample(mine, &sample);
	add(mine, &more);
	mine->last_ns = now_ns;
	mine->idle_rounds = cpu_ms || now_ns - mine->touched_ns < EVERY_NS ? 0
			    : mine->idle_rounds < IDLE_ROUNDS_MAX	   ? mine->idle_rounds + 1
									   : IDLE_ROUNDS_MAX;
}

void look_last(const char *sandbox, struct box_last_look *ret)
{
	ret->is_good = atoll_sandbox_usage(sandbox, &ret->usage, NULL) == 0;
}

void meter_end(struct daemon_box *mine, const struct box_last_look *look)
{
	if (look->is_good)
		read_usage(mine, &look->usage);
	mine->last_cpu_ms = mine->last_bytes_in = mine->last_bytes_out = 0;
}

/* Nobody has asked for anything, and nothing runs in it. */
static bool is_idle(const struct daemon_box *mine)
{
	const uint64_t idle_s = mine->box.daemon->config->idle_s;

	if (idle_s == UINT64_MAX ||
	    clock_monotonic_ns() - mine->touched_ns < (int64_t)idle_s * 1000000000)
		return false;
	for (const struct process *process = mine->box.processes; process;
	     process = process->next) {
		if (!process->has_ended)
			return false;
	}
	return true;
}

/* Not by us: an earlier daemon was killed before it had noted down a pause. */
static bool is_left_frozen(const struct daemon_box *mine, const struct look *look)
{
	return look->code == 0 && look->usage.is_frozen && !mine->ops && mine->n_ops == look->n_ops;
}

static void arm(struct daemon_box *mine, int64_t wait_ns)
{
	loop_arm(mine->box.daemon->loop, &mine->meter_timer, clock_monotonic_ns() + wait_ns);
}

static void run_look(struct work_item *item)
{
	struct look *look = (struct look *)item;

	look->code = atoll_sandbox_usage(look->sandbox, &look->usage, NULL);
}

static void looked(struct work_item *item)
{
	struct look *look = (struct look *)item;
	struct daemon_box *mine = look->box;
	struct box *box = &mine->box;

	mine->is_measured = false;
	if (mine->is_freed) {
		mine->is_freed = false;
		box_free(mine);
	} else if (box->state == BOX_RUNNING && !box->daemon->is_closing) {
		if (look->code == 0)
			read_usage(mine, &look->usage);
		arm(mine, EVERY_NS * (1 + (int64_t)mine->idle_rounds));
		if (is_left_frozen(mine, look)) {
			box_pause(box, true, NULL, NULL);
		} else if (is_idle(mine)) {
			if (box->pauses_at_end)
				box_pause(box, box->pauses_memory, NULL, NULL);
			else
				box_kill(box, BOX_CAUSE_TIME_OUT, NULL, NULL);
		}
	}
	free(look);
}

static void look_now(struct loop_timer *timer)
{
	struct daemon_box *mine =
		(struct daemon_box *)((char *)timer - offsetof(struct daemon_box, meter_timer));
	struct look *look = calloc(1, sizeof *look);

	if (!look || mine->is_measured) {
		free(look);
		arm(mine, EVERY_NS);
		return;
	}
	look->box = mine;
	look->n_ops = mine->n_ops;
	look->code = -1;
	memcpy(look->sandbox, mine->box.sandbox, sizeof look->sandbox);
	look->item = (struct work_item){.run = run_look, .done = looked};
	mine->is_measured = true;
	work_submit(mine->box.daemon->work, &look->item, WORK_LATER);
}

/* Not all at the same moment after a restart. */
void meter_start(struct daemon_box *mine)
{
	unsigned char spread;

	if (mine->box.state != BOX_RUNNING)
		return;
	daemon_random_bytes(&spread, 1);
	mine->meter_timer.fire = look_now;
	mine->last_ns = 0;
	mine->idle_rounds = 0;
	arm(mine, FIRST_NS + spread * FIRST_NS / 256);
}

void meter_stop(struct daemon_box *mine)
{
	loop_disarm(mine->box.daemon->loop, &mine->meter_timer);
}

/* ---- steps ---- */

/* What an earlier daemon has started was counted by it. */
static void told(struct box_listener *listener, enum box_event event, struct box *box,
		 struct process *process)
{
	(void)listener;
	(void)process;
	if (event == PROCESS_STARTED && !process_is_adopting(box))
		box_count_step(box);
	if (event == PROCESS_STARTED || event == PROCESS_ENDED)
		box_touch(box);
}

void meter_listen(struct daemon *daemon)
{
	daemon->listener =
		(struct box_listener){.daemon = daemon, .told = told, .wants_processes = true};
	box_listen(&daemon->listener);
}
