/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /v2/sandboxes: filters and pages
 *
 * The token of the next page is the start time and the id of the last box of this page. So no box
 * is shown twice or left out when boxes come and go between two pages.
 */
#include "e2b/e2b-list.h"

#include "base/scope.h"
#include "base/str.h"
#include "e2b/connect.h"
#include "e2b/e2b-objects.h"
#include "e2b/e2b-pairs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define LIST_MAX  (64U << 20)
#define LIMIT_MAX 100

/* ---- the filter ---- */

struct filter {
	struct box_pairs metadata;
	bool running, paused, is_newest_first;
	int64_t started_after_ms;
	const char *template_ref;
	bool has_template;
	char template_id[128];
	size_t limit;
	int64_t after_ms; /* start time of the last box of the page before */
	char after_id[BOX_ID_SIZE];
};

static bool read_states(struct filter *filter, const char *states)
{
	filter->running = filter->paused = false;
	while (*states) {
		size_t n = strcspn(states, ",");

		if (n == 7 && strncmp(states, "running", n) == 0)
			filter->running = true;
		else if (n == 6 && strncmp(states, "paused", n) == 0)
			filter->paused = true;
		else
			return false;
		states += n;
		states += *states == ',';
	}
	return true;
}

static bool read_token(struct filter *filter, const char *token)
{
	char *end;

	filter->after_ms = strtoll(token, &end, 10);
	if (end == token || *end != '.' || strlen(end + 1) >= sizeof filter->after_id || !end[1])
		return false;
	strcpy(filter->after_id, end + 1);
	return true;
}

bool e2b_read_limit(struct api_call *call, size_t *ret)
{
	const char *text = exchange_query(call->exchange, "limit");
	uint64_t value = LIMIT_MAX;

	if (text && (!connect_number(text, &value) || value < 1 || value > LIMIT_MAX)) {
		api_refuse(call, 400, "limit: must be from 1 to %d", LIMIT_MAX);
		return false;
	}
	*ret = value;
	return true;
}

static const char *read_filter(struct api_call *call, struct filter *filter)
{
	struct exchange *exchange = call->exchange;
	const char *metadata = exchange_query(exchange, "metadata");
	const char *state = exchange_query(exchange, "state");
	const char *after = exchange_query(exchange, "startedAfter");
	const char *order = exchange_query(exchange, "order");
	const char *token = exchange_query(exchange, "nextToken");

	filter->template_ref = exchange_query(exchange, "template");
	filter->is_newest_first = !order || streq(order, "desc");
	if (metadata && !e2b_read_filter(metadata, &filter->metadata))
		return "metadata: too many pairs";
	if (state && !read_states(filter, state))
		return "state: only running and paused are known";
	if (after && !api_parse_time(after, &filter->started_after_ms))
		return "startedAfter: is no time";
	if (order && !streq(order, "asc") && !streq(order, "desc"))
		return "order: only asc and desc are known";
	if (token && *token && !read_token(filter, token))
		return "nextToken: is none of ours";
	if (filter->template_ref)
		filter->has_template =
			template_find(call->tenant, filter->template_ref, filter->template_id);
	return NULL;
}

/* ---- matching boxes ---- */

static bool has_pair(const struct box_pairs *pairs, const struct box_pair *wanted)
{
	for (size_t i = 0; i < pairs->n; i++) {
		if (streq(pairs->items[i].name, wanted->name))
			return streq(pairs->items[i].value, wanted->value);
	}
	return false;
}

static bool is_of_template(const struct filter *filter, const struct box *box)
{
	return streq(box->template_id, filter->template_ref) ||
	       streq(box->alias, filter->template_ref) ||
	       (filter->has_template && streq(box->template_id, filter->template_id));
}

static bool fits(const struct filter *filter, const struct box *box)
{
	if (box->state == BOX_PAUSED ? !filter->paused : !filter->running)
		return false;
	if (box->state == BOX_STARTING || box->state == BOX_ENDING)
		return false;
	if (box->start_ms < filter->started_after_ms)
		return false;
	if (filter->template_ref && !is_of_template(filter, box))
		return false;
	for (size_t i = 0; i < filter->metadata.n; i++) {
		if (!has_pair(&box->metadata, &filter->metadata.items[i]))
			return false;
	}
	return true;
}

/* Does the box follow the last box of the page before? */
static bool is_behind(const struct filter *filter, const struct box *box)
{
	int order = 0;

	if (!filter->after_id[0])
		return true;
	if (box->start_ms != filter->after_ms)
		order = box->start_ms > filter->after_ms ? 1 : -1;
	else
		order = strcmp(box->id, filter->after_id);
	return filter->is_newest_first ? order < 0 : order > 0;
}

/* ---- the answer ---- */

static void answer_page(struct api_call *call, const struct filter *filter)
{
	cleanup_buf struct buf out = BUF_INIT(LIST_MAX);
	struct json json = {&out};
	const struct box *last = NULL;
	size_t n = 0;
	char token[64];

	json_open(&json, NULL, '[');
	for (struct box *box = box_next(call->tenant, NULL, filter->is_newest_first); box;
	     box = box_next(call->tenant, box, filter->is_newest_first)) {
		if (!is_behind(filter, box) || !fits(filter, box))
			continue;
		if (last && n == filter->limit) {
			snprintf(token, sizeof token, "%" PRId64 ".%s", last->start_ms, last->id);
			exchange_add(call->exchange, "X-Next-Token", token);
			break;
		}
		e2b_write_listed(&json, box, false);
		last = box;
		n++;
	}
	json_close(&json, ']');
	api_answer(call, 200, &out);
}

static void list(struct api_call *call, struct filter *filter)
{
	const char *why = read_filter(call, filter);

	if (why)
		api_refuse(call, 400, "%s", why);
	else
		answer_page(call, filter);
	e2b_free_pairs(&filter->metadata);
}

void e2b_list(struct api_call *call)
{
	struct filter filter = {.running = true, .paused = true, .started_after_ms = INT64_MIN};

	if (e2b_read_limit(call, &filter.limit))
		list(call, &filter);
}

/* Older clients get all boxes without pages. */
void e2b_list_v1(struct api_call *call)
{
	struct filter filter = {.running = true, .started_after_ms = INT64_MIN, .limit = SIZE_MAX};

	list(call, &filter);
}
