/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b-snapshots.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "e2b/e2b-list.h"
#include "e2b/e2b-network.h"
#include "e2b/e2b-wait.h"

#include <stdio.h>
#include <stdlib.h>

/* Snapshots of boxes, and the part of templates that concerns them: remove, look up a name. */

#define BODY_MAX   (64U << 10)
#define ANSWER_MAX (1U << 20)
#define NAME_MAX_  100

static void write_snapshot(struct json *json, const struct snapshot *snapshot)
{
	json_open(json, NULL, '{');
	json_str(json, "snapshotID", snapshot->id);
	json_open(json, "names", '[');
	if (snapshot->name[0])
		json_str(json, NULL, snapshot->name);
	json_close(json, ']');
	json_close(json, '}');
}

static void on_made(const struct snapshot *snapshot, const struct atoll_error *err, void *data)
{
	struct api_call *call = e2b_wait_end(data);
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {&out};

	if (!call)
		return;
	if (err->fault != ATOLL_FAULT_NONE || !snapshot) {
		api_fail(call, err);
		return;
	}
	write_snapshot(&json, snapshot);
	api_answer(call, 201, &out);
}

/* "[namespace/]name[:tag]" */
static bool is_name(const char *name)
{
	size_t n = strlen(name);

	for (const char *at = name;; at++) {
		size_t part = strcspn(at, "/:");

		if (!str_is_plain_name(at, part))
			return false;
		at += part;
		if (!*at)
			return n <= NAME_MAX_;
	}
}

static void read_request(struct api_call *call, json_t *body)
{
	struct box *box = api_box(call);
	json_t *name = json_object_get(body, "name");
	struct e2b_wait *wait;

	if (!box)
		return;
	if (name && !json_is_null(name) &&
	    (!json_is_string(name) || !is_name(json_string_value(name)))) {
		api_refuse(call, 400,
			   "name: must be letters, digits and -_. with a tag behind a "
			   "colon, at most 100 characters");
		return;
	}
	if (box->state != BOX_RUNNING) {
		api_refuse(call, 409, "sandbox %s is paused", box->id);
		return;
	}
	if (e2b_sets_headers(call, box))
		return;
	wait = e2b_wait_new(call);
	if (wait)
		box_snapshot(box, json_string_value(name), on_made, wait);
}

void e2b_snapshot(struct api_call *call)
{
	api_read_json(call, BODY_MAX, false, read_request);
}

/* The token of a page is the last snapshot of the page before. Newer snapshots come first, so they
 * do not move the next page. */
void e2b_list_snapshots(struct api_call *call)
{
	const char *box_id = exchange_query(call->exchange, "sandboxID");
	const char *name = exchange_query(call->exchange, "name");
	const char *token = exchange_query(call->exchange, "nextToken");
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	cleanup_free struct snapshot *list = NULL;
	struct json json = {&out};
	size_t limit, n;

	if (!e2b_read_limit(call, &limit))
		return;
	/* One more than the limit: shows whether there is another page. */
	list = calloc(limit + 1, sizeof *list);
	n = list ? snapshot_list(call->tenant, box_id, name, token && *token ? token : NULL, list,
				 limit + 1)
		 : 0;
	if (n > limit)
		exchange_add(call->exchange, "X-Next-Token", list[limit - 1].id);
	json_open(&json, NULL, '[');
	for (size_t i = 0; i < n && i < limit; i++)
		write_snapshot(&json, &list[i]);
	json_close(&json, ']');
	api_answer(call, 200, &out);
}

/* ---- templates ---- */

void e2b_remove_template(struct api_call *call)
{
	const char *ref = api_parameter(call, 0);

	if (template_remove(call->tenant, ref) < 0)
		api_refuse(call, 404, "template '%s' not found", ref);
	else
		api_answer_empty(call, 204);
}

void e2b_alias(struct api_call *call)
{
	const char *alias = api_parameter(call, 0);
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {&out};
	char id[128];

	if (!template_find(call->tenant, alias, id)) {
		api_refuse(call, 404, "template '%s' not found", alias);
		return;
	}
	json_open(&json, NULL, '{');
	json_str(&json, "templateID", id);
	json_bool(&json, "public", false);
	json_close(&json, '}');
	api_answer(call, 200, &out);
}
