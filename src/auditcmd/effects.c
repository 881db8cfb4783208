/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/effects.h"

#include "auditcmd/events.h"
#include "base/error.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>

/* So many events of a kind are told in a receipt; the log has all of them. */
#define LIST_MAX 1000

static void add_to(struct account *account, json_t *list, const struct event *event)
{
	if (json_array_size(list) >= LIST_MAX)
		account->n_left_out++;
	else
		json_array_append(list, event->object);
}

/* Where a run writes directly its log has whole paths; in a receipt they count from the workspace.
 * What lies outside stays whole. */
static const char *from_workspace(const struct account *account, const char *path)
{
	const json_t *start = json_array_get(account->starts, json_array_size(account->starts) - 1);
	const char *workspace = event_text(start, "workspace");
	const size_t length = workspace ? strlen(workspace) : 0;

	if (length == 0 || !path || strncmp(path, workspace, length) != 0 || path[length] != '/')
		return path;
	return path + length + 1;
}

static void add_change(struct account *account, const struct event *event)
{
	const char *path = from_workspace(account, event_text(event->object, "path"));
	const char *from = from_workspace(account, event_text(event->object, "from"));
	const json_t *before;

	if (!path)
		return;
	if (from)
		json_object_del(account->changes, from);
	/* Made and gone again: nothing is left to tell. */
	before = json_object_get(account->changes, path);
	if (before && streq(event_text(event->object, "change") ?: "", "deleted") &&
	    streq(event_text(before, "change") ?: "", "added"))
		json_object_del(account->changes, path);
	else
		json_object_set(account->changes, path, event->object);
}

static void add_start(struct account *account, const struct event *event)
{
	json_array_append(account->starts, event->object);
}

static void add_end(struct account *account, const struct event *event)
{
	json_array_append(account->ends, event->object);
}

static void add_recipe(struct account *account, const struct event *event)
{
	json_decref(account->recipe);
	account->recipe = json_incref(event->object);
}

static void add_output(struct account *account, const struct event *event)
{
	add_to(account, account->outputs, event);
}

static void add_denial(struct account *account, const struct event *event)
{
	add_to(account, account->denials, event);
}

static void add_connection(struct account *account, const struct event *event)
{
	add_to(account, account->connections, event);
}

static void add_approval(struct account *account, const struct event *event)
{
	add_to(account, account->approvals, event);
}

static void add_limit(struct account *account, const struct event *event)
{
	add_to(account, account->limits, event);
}

static void add_flag(struct account *account, const struct event *event)
{
	add_to(account, account->flags, event);
}

static void add_lost(struct account *account, const struct event *event)
{
	account->n_lost += event_number(event->object, "count", 1);
}

static const struct {
	const char *kind;
	void (*add)(struct account *account, const struct event *event);
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

/* Heads and what belongs to no step are everybody's. */
static void add_event(struct account *account, const struct event *event)
{
	if (event->seq == 0 && streq(event->kind, "open"))
		account->open = json_incref(event->object);
	if (event->seq == account->log.head_size && streq(event->kind, "head"))
		account->head = json_incref(event->object);
	if (account->step && event->step != account->step)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (streq(kinds[i].kind, event->kind) && event->seq < account->log.head_size)
			kinds[i].add(account, event);
}

static int read_events(struct account *account, struct events *events, struct atoll_error *err)
{
	cleanup_event struct event event = {0};
	int r;

	while ((r = events_next(events, &event, err)) > 0 && event.seq <= account->log.head_size)
		add_event(account, &event);
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

/* Of what has not ended nothing can be attested. */
static int check_whole(const struct account *account, struct atoll_error *err)
{
	const json_t *start;
	size_t i;

	if (!account->open || !account->head)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "the log of %s has no signed head yet: has it ended?",
				 account->log.run);
	if (json_array_size(account->starts) == 0 && account->step)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s has no step %" PRIu32,
				 account->log.run, account->step);
	if (json_array_size(account->starts) == 0)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "nothing was run in %s",
				 account->log.run);
	json_array_foreach(account->starts, i, start)
	{
		const uint64_t step = event_number(start, "step", 0);

		if (!has_event_of(account->ends, step))
			return error_set(
				err, ATOLL_FAULT_POLICY, 0,
				"%s: step %" PRIu64
				" has not ended, or its end is not signed; a receipt is for "
				"what is over (--step N picks another)",
				account->log.run, step);
	}
	return 0;
}

static void make_lists(struct account *account)
{
	account->starts = json_array();
	account->ends = json_array();
	account->changes = json_object();
	account->outputs = json_array();
	account->denials = json_array();
	account->connections = json_array();
	account->approvals = json_array();
	account->limits = json_array();
	account->flags = json_array();
}

int account_read(const char *word, uint32_t step, uint64_t head, const struct checked_keys *keys,
		 struct account *ret, struct atoll_error *err)
{
	cleanup_events struct events *events = NULL;
	char id[16];
	int r;

	*ret = (struct account){.step = step};
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

void account_done(struct account *account)
{
	json_decref(account->open);
	json_decref(account->head);
	json_decref(account->starts);
	json_decref(account->ends);
	json_decref(account->recipe);
	json_decref(account->changes);
	json_decref(account->outputs);
	json_decref(account->denials);
	json_decref(account->connections);
	json_decref(account->approvals);
	json_decref(account->limits);
	json_decref(account->flags);
}
