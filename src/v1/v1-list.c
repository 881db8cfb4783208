/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-list.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "v1/v1-error.h"
#include "v1/v1-form.h"
#include "v1/v1-sandbox.h"
#include "v1/v1-state.h"
#include "v1/v1-view.h"
#include "v1/v1-wait.h"

#include <errno.h>
#include <stdio.h>

/*
 * Lists of sandboxes, and requests about many
 *
 * GET /v1/sandboxes filters by label and state and answers in pages. POST /v1/sandboxes/bulk
 * creates many, DELETE /v1/sandboxes ends all that have a label.
 */

#define PAGE_USUAL 100
#define PAGE_MOST  1000
#define BULK_MOST  1000
#define LABELS	   8

/* ---- by label and state ---- */

struct filter {
	char text[1024]; /* "a=b,c=d", split in place */
	const char *names[LABELS], *values[LABELS];
	size_t n;
	const char *state;
	bool with_jobs;
};

/* `label`: "name=value", separated by commas; a box has to have all of them. */
static bool read_labels(struct api_call *call, struct filter *ret)
{
	const char *text = exchange_query(call->exchange, "label");
	char *at = ret->text, *next, *value;

	if (!text)
		return true;
	if (strlen(text) >= sizeof ret->text) {
		v1_refuse(call, 400, "request", "'label' is too long");
		return false;
	}
	strcpy(ret->text, text);
	for (; at; at = next) {
		next = strchr(at, ',');
		if (next)
			*next++ = '\0';
		value = strchr(at, '=');
		if (!value || value == at || ret->n == LABELS || v1_label_is_reserved(at)) {
			v1_refuse(call, 400, "request",
				  "'label' has to be NAME=VALUE, at most %d of them, separated by "
				  "commas",
				  LABELS);
			return false;
		}
		*value++ = '\0';
		ret->names[ret->n] = at;
		ret->values[ret->n++] = value;
	}
	return true;
}

static bool read_filter(struct api_call *call, struct filter *ret)
{
	*ret = (struct filter){.state = exchange_query(call->exchange, "state")};
	if (ret->state && !streq(ret->state, "running") && !streq(ret->state, "paused")) {
		v1_refuse(call, 400, "request", "'state' has to be 'running' or 'paused'");
		return false;
	}
	return read_labels(call, ret);
}

static bool fits(const struct filter *filter, const struct box *box)
{
	const char *value;

	if (box->state == BOX_ENDING || box->state == BOX_STARTING)
		return false;
	if (filter->state && streq(filter->state, "paused") != (box->state == BOX_PAUSED))
		return false;
	for (size_t i = 0; i < filter->n; i++) {
		value = v1_label(box, filter->names[i]);
		if (!value || !streq(value, filter->values[i]))
			return false;
	}
	return true;
}

/* ---- pages ---- */

/* The token of a page: "START_MS-ID" of the last box that was shown, which may have ended. */
static bool read_after(struct api_call *call, int64_t *ret_ms, char ret_id[BOX_ID_SIZE])
{
	const char *text = exchange_query(call->exchange, "after");
	char *end;

	*ret_ms = INT64_MAX;
	ret_id[0] = '\0';
	if (!text)
		return true;
	*ret_ms = strtoll(text, &end, 10);
	if (text[0] >= '0' && text[0] <= '9' && *end == '-' && strlen(end + 1) < BOX_ID_SIZE) {
		strcpy(ret_id, end + 1);
		return true;
	}
	v1_refuse(call, 400, "request", "'after' has to be the 'next' of the page before");
	return false;
}

/* Newest first: does the box follow the token? */
static bool is_behind(const struct box *box, int64_t ms, const char *id)
{
	if (ms == INT64_MAX && !id[0])
		return true;
	return box->start_ms < ms || (box->start_ms == ms && strcmp(box->id, id) < 0);
}

static int by_start(const void *a, const void *b)
{
	const struct box *x = *(struct box *const *)a, *y = *(struct box *const *)b;

	if (x->start_ms != y->start_ms)
		return x->start_ms < y->start_ms ? 1 : -1;
	return strcmp(y->id, x->id);
}

static int collect(struct tenant *tenant, const struct filter *filter, struct box ***ret, size_t *n)
{
	struct box **list = NULL, **more;
	size_t room = 0;

	*n = 0;
	for (struct box *box = box_next(tenant, NULL, true); box;
	     box = box_next(tenant, box, true)) {
		if (!fits(filter, box))
			continue;
		if (*n == room) {
			room = room ? 2 * room : 64;
			more = realloc(list, room * sizeof *list);
			if (!more) {
				free(list);
				return -ENOMEM;
			}
			list = more;
		}
		list[(*n)++] = box;
	}
	if (*n > 1)
		qsort(list, *n, sizeof *list, by_start);
	*ret = list;
	return 0;
}

void v1_sandboxes_list(struct api_call *call)
{
	cleanup_buf struct buf out = BUF_INIT(64 << 20);
	struct json json = {.out = &out};
	cleanup_free struct box **list = NULL;
	char id[BOX_ID_SIZE], next[64] = "";
	struct filter filter;
	bool with_usage;
	uint64_t limit, shown = 0;
	int64_t ms;
	size_t n;

	if (!read_filter(call, &filter) || !read_after(call, &ms, id) ||
	    !v1_query_uint(call, "limit", PAGE_USUAL, PAGE_MOST, &limit) ||
	    !v1_query_bool(call, "usage", &with_usage))
		return;
	if (collect(call->tenant, &filter, &list, &n) < 0) {
		v1_refuse(call, 503, "host", "out of memory");
		return;
	}
	limit = limit ? limit : PAGE_USUAL;
	json_open(&json, NULL, '{');
	json_open(&json, "items", '[');
	for (size_t i = 0; i < n; i++) {
		if (!is_behind(list[i], ms, id))
			continue;
		if (shown == limit) {
			json_close(&json, ']');
			json_str(&json, "next", next);
			break;
		}
		v1_write_box(&json, NULL, list[i], with_usage);
		snprintf(next, sizeof next, "%lld-%s", (long long)list[i]->start_ms, list[i]->id);
		if (++shown == limit && i + 1 == n)
			next[0] = '\0';
	}
	if (shown < limit || !next[0]) {
		json_close(&json, ']');
		json_none(&json, "next");
	}
	json_close(&json, '}');
	api_answer(call, 200, &out);
}

/* ---- many at once ---- */

/* Creates or ends several sandboxes and answers after the last one. Each creation is a piece of the
 * tenant's lane, because checking a contract takes milliseconds. */
struct bulk {
	struct v1_wait wait;
	struct tenant *tenant;
	struct buf out;
	struct json json;
	size_t left;	 /* callbacks that have not come yet */
	size_t n_unmade; /* creations that were not begun yet */
	struct v1_create wanted;
	struct loop_turn piece;
	bool is_delete;
};

static void bulk_finish(struct bulk *bulk)
{
	struct api_call *call = v1_wait_end(&bulk->wait);

	json_close(&bulk->json, ']');
	json_close(&bulk->json, '}');
	if (call)
		api_answer(call, 200, &bulk->out);
	buf_done(&bulk->out);
	if (!bulk->is_delete)
		v1_create_done(&bulk->wanted);
	free(bulk);
}

static struct bulk *bulk_new(struct api_call *call, size_t n, bool is_delete)
{
	struct bulk *bulk = v1_wait_new(call, sizeof *bulk, NULL);

	if (!bulk)
		return NULL;
	bulk->out = (struct buf)BUF_INIT(64 << 20);
	bulk->json.out = &bulk->out;
	bulk->left = n;
	bulk->tenant = call->tenant;
	bulk->is_delete = is_delete;
	json_open(&bulk->json, NULL, '{');
	json_open(&bulk->json, "items", '[');
	return bulk;
}

static void bulk_created(struct box *box, const struct atoll_error *err, void *data)
{
	struct bulk *bulk = data;

	json_open(&bulk->json, NULL, '{');
	if (box) {
		v1_write_box(&bulk->json, "sandbox", box, false);
		json_none(&bulk->json, "error");
	} else {
		json_none(&bulk->json, "sandbox");
		v1_write_error(&bulk->json, "error", v1_error_cause(err), "", err->text);
	}
	json_close(&bulk->json, '}');
	if (--bulk->left == 0)
		bulk_finish(bulk);
}

static void make_next(struct loop_turn *piece)
{
	struct bulk *bulk = container_of(piece, struct bulk, piece);

	/* The callback of the last one comes later, from the event loop. */
	if (--bulk->n_unmade > 0)
		loop_queue(daemon_loop(bulk->tenant->daemon), &bulk->tenant->own.lane, piece);
	box_create(bulk->tenant, &bulk->wanted.request, bulk_created, bulk);
}

static void read_bulk(struct api_call *call, json_t *body)
{
	static const char *const keys[] = {"count",    "template", "contract",	  "timeout",
					   "labels",   "metadata", "environment", "onTimeout",
					   "internet", NULL};
	struct form form = {.call = call, .body = body};
	struct v1_create wanted;
	struct bulk *bulk;
	uint64_t count;

	form_known(&form, keys);
	v1_read_create(&form, &wanted);
	if (!json_object_get(body, "count"))
		form_bad(&form, "'count' is missing");
	count = form_uint(&form, "count", 1, 1, BULK_MOST);
	if (wanted.request.labels.n == 0)
		form_bad(&form, "'labels' are missing: what is made together is found and deleted "
				"by them");
	bulk = form_fails(&form) ? NULL : bulk_new(call, count, false);
	if (!bulk) {
		v1_create_done(&wanted);
		return;
	}
	bulk->wanted = wanted;
	bulk->n_unmade = count;
	bulk->piece.run = make_next;
	loop_queue(daemon_loop(bulk->tenant->daemon), &bulk->tenant->own.lane, &bulk->piece);
}

void v1_sandboxes_create(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, true, read_bulk);
}

static void bulk_ended(struct box *box, const struct atoll_error *err, void *data)
{
	struct bulk *bulk = data;

	(void)box;
	(void)err;
	if (--bulk->left == 0)
		bulk_finish(bulk);
}

void v1_sandboxes_delete(struct api_call *call)
{
	cleanup_free struct box **list = NULL;
	struct filter filter;
	struct bulk *bulk;
	size_t n;

	if (!read_filter(call, &filter))
		return;
	/* Without a filter nothing is ended: an empty variable in a script must not end
	 * everything. */
	if (filter.n == 0) {
		v1_refuse(call, 400, "request",
			  "'label' is missing: which sandboxes are to be deleted?");
		return;
	}
	if (collect(call->tenant, &filter, &list, &n) < 0) {
		v1_refuse(call, 503, "host", "out of memory");
		return;
	}
	/* One more: a callback that comes at once must not answer before all were begun. */
	bulk = bulk_new(call, n + 1, true);
	for (size_t i = 0; bulk && i < n; i++) {
		json_str(&bulk->json, NULL, list[i]->id);
		box_kill(list[i], BOX_CAUSE_KILLED, bulk_ended, bulk);
	}
	if (bulk)
		bulk_ended(NULL, NULL, bulk);
}
