/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/processes.h"

#include "auditcmd/describe.h"
#include "auditcmd/event-values.h"
#include "auditcmd/events.h"
#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define PID_MAX	    4194304 /* the kernel's own bound */
#define NAME_LENGTH 15	    /* the size of a name in the kernel */
#define LOOK_BACK   512	    /* the number of processes that are searched for a name */

struct processes *processes_new(void)
{
	struct processes *processes = calloc(1, sizeof *processes);

	if (!processes)
		return NULL;
	processes->last_step = PROCESS_NONE;
	processes->words = (struct description)DESCRIPTION_INIT;
	return processes;
}

void processes_free(struct processes *processes)
{
	if (!processes)
		return;
	for (uint32_t i = 0; i < processes->n; i++)
		free(processes->items[i].text);
	for (uint32_t i = 0; i < processes->n_acts; i++) {
		free(processes->acts[i].text);
		free(processes->acts[i].allow);
	}
	free(processes->items);
	free(processes->acts);
	free(processes->by_pid);
	description_done(&processes->words);
	free(processes);
}

/* ---- growing ---- */

static int make_room(void **items, uint32_t n, uint32_t *room, size_t size)
{
	uint32_t more = *room ? 2 * *room : 256;
	void *grown;

	if (n < *room)
		return 0;
	grown = realloc(*items, more * size);
	if (!grown)
		return -ENOMEM;
	*items = grown;
	*room = more;
	return 0;
}

static int remember_pid(struct processes *all, uint64_t pid, uint32_t item)
{
	uint64_t n = all->n_pids ? all->n_pids : 1024;
	uint32_t *grown;

	if (pid == 0 || pid > PID_MAX)
		return 0;
	while (n <= pid)
		n *= 2;
	if (n > all->n_pids) {
		grown = realloc(all->by_pid, n * sizeof *grown);
		if (!grown)
			return -ENOMEM;
		for (uint64_t i = all->n_pids; i < n; i++)
			grown[i] = PROCESS_NONE;
		all->by_pid = grown;
		all->n_pids = n;
	}
	all->by_pid[pid] = item;
	return 0;
}

static uint32_t find_pid(const struct processes *all, uint64_t pid)
{
	return pid < all->n_pids ? all->by_pid[pid] : PROCESS_NONE;
}

static char *copy(const struct buf *text)
{
	return text->data ? strndup(text->data, text->used) : strdup("");
}

/* Appends to the children of `up`. */
static int add_item(struct processes *all, const struct process *item)
{
	uint32_t at = all->n, up = item->up;

	if (make_room((void **)&all->items, all->n, &all->room, sizeof *item) < 0)
		return -ENOMEM;
	all->items[at] = *item;
	all->items[at].text = copy(&all->words.what);
	if (!all->items[at].text)
		return -ENOMEM;
	all->n++;
	if (up != PROCESS_NONE) {
		if (all->items[up].first == PROCESS_NONE)
			all->items[up].first = at;
		else
			all->items[all->items[up].last].next = at;
		all->items[up].last = at;
	}
	return remember_pid(all, item->pid, at);
}

static int add_act(struct processes *all, uint32_t item, const struct event *event)
{
	struct process *process = &all->items[item];
	struct process_act act = {.next = PROCESS_NONE,
				  .tone = all->words.tone,
				  .is_denial = event_is_denial(event),
				  .time_ns = event->time_ns,
				  .seq = event->seq};

	if (all->n_acts >= PROCESSES_MAX) {
		all->n_left_out++;
		return 0;
	}
	if (make_room((void **)&all->acts, all->n_acts, &all->acts_room, sizeof act) < 0)
		return -ENOMEM;
	for (size_t i = 0; event_kinds[i]; i++)
		if (streq(event_kinds[i], event->kind))
			act.kind = event_kinds[i];
	act.text = copy(&all->words.what);
	act.allow = all->words.allow.used ? copy(&all->words.allow) : NULL;
	if (!act.text)
		return -ENOMEM;
	all->acts[all->n_acts] = act;
	if (process->first_act == PROCESS_NONE)
		process->first_act = all->n_acts;
	else
		all->acts[process->last_act].next = all->n_acts;
	process->last_act = all->n_acts++;
	process->n_denials += act.is_denial;
	process->n_connections += streq(event->kind, "connection");
	return 0;
}

/* ---- who ---- */

static void set_name(struct process *process, const json_t *object)
{
	const char *path = event_text(object, "path");
	const char *called = json_string_value(json_array_get(json_object_get(object, "argv"), 0));

	snprintf(process->name, sizeof process->name, "%.*s", NAME_LENGTH,
		 path ? path_name(path) : "");
	snprintf(process->other_name, sizeof process->other_name, "%.*s", NAME_LENGTH,
		 called ? path_name(called) : "");
}

static bool is_called(const struct process *process, const char *name)
{
	return strncmp(process->name, name, NAME_LENGTH) == 0 ||
	       strncmp(process->other_name, name, NAME_LENGTH) == 0;
}

static struct process make_item(const struct event *event)
{
	return (struct process){.step = event->step,
				.up = PROCESS_NONE,
				.first = PROCESS_NONE,
				.last = PROCESS_NONE,
				.next = PROCESS_NONE,
				.first_act = PROCESS_NONE,
				.last_act = PROCESS_NONE,
				.time_ns = event->time_ns,
				.seq = event->seq};
}

static int add_step(struct processes *all, const struct event *event)
{
	struct process item = make_item(event);
	uint32_t before = all->last_step;

	all->last_step = all->n;
	if (before != PROCESS_NONE)
		all->items[before].next = all->n;
	return add_item(all, &item);
}

/* Finds the item of a step, mostly the latest. A truncated log may have none. */
static int find_step(struct processes *all, const struct event *event, uint32_t *ret)
{
	int r = 0;

	if (all->last_step != PROCESS_NONE && all->items[all->last_step].step == event->step) {
		*ret = all->last_step;
		return 0;
	}
	for (uint32_t i = 0; event->step && i < all->n; i = all->items[i].next)
		if (all->items[i].step == event->step) {
			*ret = i;
			return 0;
		}
	if (all->last_step == PROCESS_NONE)
		r = add_step(all, event);
	*ret = all->last_step;
	return r;
}

/* A forked process has the name of its parent until it executes a program. */
static uint32_t find_name(const struct processes *all, const char *name, uint32_t step)
{
	for (uint32_t i = all->n, n = 0; name && i-- > 0 && n < LOOK_BACK; n++)
		if (all->items[i].pid && all->items[i].step == step &&
		    is_called(&all->items[i], name))
			return i;
	return PROCESS_NONE;
}

/* Finds the item for an event of `pid`. */
static int find_place(struct processes *all, const struct event *event, uint64_t pid,
		      bool *ret_is_indirect, uint32_t *ret)
{
	uint32_t item = find_pid(all, pid);

	*ret_is_indirect = false;
	if (item == PROCESS_NONE && pid > 1) {
		item = find_name(all, event_text(event->object, "program"), event->step);
		*ret_is_indirect = item != PROCESS_NONE;
	}
	if (item == PROCESS_NONE)
		return find_step(all, event, ret);
	*ret = item;
	return 0;
}

/* Does this pid execute another program, or is it a new process with a reused pid? Its parent
 * may have ended. */
static bool is_same(const struct process *process, const struct event *event)
{
	const char *program = event_text(event->object, "program");
	uint64_t parent = event_number(event->object, "parent", 0);

	return (parent == process->parent_pid || parent == 1) && program &&
	       is_called(process, program);
}

static int add_exec(struct processes *all, const struct event *event)
{
	struct process item = make_item(event);
	uint32_t known;
	int r;

	item.pid = event_number(event->object, "pid", 0);
	item.parent_pid = event_number(event->object, "parent", 0);
	known = find_pid(all, item.pid);

	if (known != PROCESS_NONE && is_same(&all->items[known], event)) {
		set_name(&all->items[known], event->object);
		return add_act(all, known, event);
	}
	if (all->n >= PROCESSES_MAX) {
		all->n_left_out++;
		return 0;
	}
	r = find_place(all, event, item.parent_pid, &item.is_indirect, &item.up);
	if (r < 0)
		return r;
	set_name(&item, event->object);
	return add_item(all, &item);
}

int processes_add(struct processes *all, const struct event *event)
{
	static const char *const acts[] = {"denial", "connection", "limit"};
	bool is_act = false, is_indirect;
	uint32_t item;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(acts); i++)
		is_act = is_act || streq(event->kind, acts[i]);
	if (!is_act && !streq(event->kind, "start") && !streq(event->kind, "exec"))
		return 0;
	describe(event, &all->words);
	if (streq(event->kind, "start"))
		return add_step(all, event);
	if (streq(event->kind, "exec"))
		return add_exec(all, event);
	r = find_place(all, event, event_number(event->object, "pid", 0), &is_indirect, &item);
	return r < 0 ? r : add_act(all, item, event);
}

void processes_finish(struct processes *all)
{
	/* Items of children come after those of their parents. */
	for (uint32_t i = all->n; i-- > 0;)
		if (all->items[i].up != PROCESS_NONE)
			all->items[all->items[i].up].n_below += all->items[i].n_below + 1;
}
