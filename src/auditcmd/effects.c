/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/effects.h"

#include "auditcmd/checked.h"
#include "auditcmd/event-values.h"
#include "auditcmd/events.h"
#include "auditcmd/find-log.h"
#include "base/error.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>

/* A receipt lists this many events of a kind; the event log has all. */
#define LIST_MAX 1000

static void add_to(struct effects *effects, json_t *list, const struct event *event)
{
	if (json_array_size(list) >= LIST_MAX)
		effects->n_left_out++;
	else
		json_array_append(list, event->object);
}

/* In mode `direct` the log has absolute paths. A receipt has paths relative to the workspace;
 * paths outside of it stay absolute. */
static const char *from_workspace(const struct effects *effects, const char *path)
{
	const json_t *start = json_array_get(effects->starts, json_array_size(effects->starts) - 1);
	const char *workspace = event_text(start, "workspace");
	const size_t length = workspace ? strlen(workspace) : 0;

	if (length == 0 || !path || strncmp(path, workspace, length) != 0 || path[length] != '/')
		return path;
	return path + length + 1;
}

static void add_change(struct effects *effects, const struct event *event)
{
	const char *path = from_workspace(effects, event_text(event->object, "path"));
	const char *from = from_workspace(effects, event_text(event->object, "from"));
	const json_t *before;

	if (!path)
		return;
	if (from)
		json_object_del(effects->changes, from);
	/* Created and deleted: no effect is left. */
	before = json_object_get(effects->changes, path);
	if (before && streq(event_text(event->object, "change") ?: "", "deleted") &&
	    streq(event_text(before, "change") ?: "", "added"))
		json_object_del(effects->changes, path);
	else
		json_object_set(effects->changes, path, event->object);
}

static void add_start(struct effects *effects, const struct event *event)
{
	json_array_append(effects->starts, event->object);
}

static void add_end(struct effects *effects, const struct event *event)
{
	json_array_append(effects->ends, event->object);
}

static void add_recipe(struct effects *effects, const struct event *event)
{
	json_decref(effects->recipe);
	effects->recipe = json_incref(event->object);
}

static void add_output(struct effects *effects, const struct event *event)
{
	add_to(effects, effects->outputs, event);
}

static void add_denial(struct effects *effects, const struct event *event)
{
	add_to(effects, effects->denials, event);
}

static void add_connection(struct effects *effects, const struct event *event)
{
	add_to(effects, effects->connections, event);
}

static void add_approval(struct effects *effects, const struct event *event)
{
	add_to(effects, effects->approvals, event);
}

static void add_limit(struct effects *effects, const struct event *event)
{
	add_to(effects, effects->limits, event);
}

static void add_flag(struct effects *effects, const struct event *event)
{
	add_to(effects, effects->flags, event);
}

static void add_lost(struct effects *effects, const struct event *event)
{
	effects->n_lost += event_number(event->object, "count", 1);
}

static const struct {
	const char *kind;
	void (*add)(struct effects *effects, const struct event *event);
} kinds[] = {
	{"start", add_start},
	{"end", add_end},
	{"recipe", add_recipe},
	{"change", add_change},
	{"output", add_output},
	{"denial", add_denial},
	{"connection", add_connection},
	{"approval", add_approval},
	{"limit", add_limit},
	{"flag", add_flag},
	{"lost", add_lost},
};

/* Heads and events without a step belong to every step. */
static void add_event(struct effects *effects, const struct event *event)
{
	if (event->seq == 0 && streq(event->kind, "open"))
		effects->open = json_incref(event->object);
	if (event->seq == effects->log.head_size && streq(event->kind, "head"))
		effects->head = json_incref(event->object);
	if (effects->step && event->step != effects->step)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (streq(kinds[i].kind, event->kind) && event->seq < effects->log.head_size)
			kinds[i].add(effects, event);
}

static int read_events(struct effects *effects, struct events *events, struct atoll_error *err)
{
	cleanup_event struct event event = {0};
	int r;

	while ((r = events_next(events, &event, err)) > 0 && event.seq <= effects->log.head_size)
		add_event(effects, &event);
	return r < 0 ? r : 0;
}

static bool has_event_of(const json_t *list, uint64_t step)
{
	const json_t *event;
	size_t i;

	json_array_foreach(list, i, event)
	{
		if (event_number(event, "step", 0) == step)
			return true;
	}
	return false;
}

/* A step that has not ended cannot be attested. */
static int check_whole(const struct effects *effects, struct atoll_error *err)
{
	const json_t *start;
	size_t i;

	if (!effects->open || !effects->head)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "the log of %s has no signed head yet: has it ended?",
				 effects->log.run);
	if (json_array_size(effects->starts) == 0 && effects->step)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s has no step %" PRIu32,
				 effects->log.run, effects->step);
	if (json_array_size(effects->starts) == 0)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "nothing was run in %s",
				 effects->log.run);
	json_array_foreach(effects->starts, i, start)
	{
		const uint64_t step = event_number(start, "step", 0);

		if (!has_event_of(effects->ends, step))
			return error_set(
				err, ATOLL_FAULT_POLICY, 0,
				"%s: step %" PRIu64
				" has not ended, or its end is not signed; a receipt is for "
				"what is over (--step N picks another)",
				effects->log.run, step);
	}
	return 0;
}

static void make_lists(struct effects *effects)
{
	effects->starts = json_array();
	effects->ends = json_array();
	effects->changes = json_object();
	effects->outputs = json_array();
	effects->denials = json_array();
	effects->connections = json_array();
	effects->approvals = json_array();
	effects->limits = json_array();
	effects->flags = json_array();
}

int effects_read(const char *word, uint32_t step, uint64_t head, const struct checked_keys *keys,
		 struct effects *ret, struct atoll_error *err)
{
	cleanup_events struct events *events = NULL;
	char id[16];
	int r;

	*ret = (struct effects){.step = step};
	make_lists(ret);
	r = events_find(word, id, ret->path, err);
	if (r < 0)
		return r;
	r = checked_log(ret->path, keys, &ret->log, err);
	if (r == -EBADMSG || r == -EKEYREJECTED)
		err->fault = ATOLL_FAULT_POLICY;
	if (r < 0)
		return error_context(err, r, "the log does not verify, so there is no receipt");
	if (id[0] && !streq(id, ret->log.run))
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "the log of %s is that of %s under another's name", id,
				 ret->log.run);
	if (head > ret->log.head_size)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "the log's latest head has %" PRIu64 " lines, and not %" PRIu64
				 ": its end is missing",
				 ret->log.head_size, head);
	if (head)
		ret->log.head_size = head;
	r = events_open_path(id, ret->path, &events, err);
	if (r == 0)
		r = read_events(ret, events, err);
	return r < 0 ? r : check_whole(ret, err);
}

void effects_done(struct effects *effects)
{
	json_decref(effects->open);
	json_decref(effects->head);
	json_decref(effects->starts);
	json_decref(effects->ends);
	json_decref(effects->recipe);
	json_decref(effects->changes);
	json_decref(effects->outputs);
	json_decref(effects->denials);
	json_decref(effects->connections);
	json_decref(effects->approvals);
	json_decref(effects->limits);
	json_decref(effects->flags);
}
