/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-watch.h"

#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "httpd/httpd.h"
#include "v1/v1-error.h"
#include "v1/v1-view.h"

#include <stdio.h>

/*
 * GET /v1/events: events of all sandboxes of a tenant
 *
 * "created", "paused", "resumed", "ended" with the sandbox, "step-started", "step-ended" with the
 * step. Events are not stored: the first event is "ready", and GET /v1/sandboxes shows the state at
 * that time. A client that reads too slowly gets the number of events that it has missed ("lost").
 */

#define DATA_MAX (8U << 20)

struct watcher {
	struct sse sse; /* the first member */
	struct box_listener listener;
	uint64_t number, lost;
};

static void on_over(struct api_call *call, bool is_broken)
{
	struct watcher *watcher = call->own;

	(void)is_broken;
	sse_over(&watcher->sse);
	watcher->listener.tenant->n_watchers--;
	box_unlisten(&watcher->listener);
	free(watcher);
}

static void send(struct watcher *watcher, const char *event, const struct buf *data)
{
	char id[24];

	snprintf(id, sizeof id, "%llu", (unsigned long long)++watcher->number);
	if (buf_error(data) == 0)
		sse_send(&watcher->sse, id, event, data->data, data->used);
}

static void send_count(struct watcher *watcher, const char *event, const char *key, uint64_t count)
{
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct json json = {.out = &out};

	json_open(&json, NULL, '{');
	json_uint(&json, key, count);
	json_close(&json, '}');
	send(watcher, event, &out);
}

static void on_drained(struct sse *sse)
{
	struct watcher *watcher = (struct watcher *)sse;

	if (watcher->lost > 0)
		send_count(watcher, "lost", "count", watcher->lost);
	watcher->lost = 0;
}

static void on_event(struct box_listener *listener, enum box_event event, struct box *box,
		     struct process *process)
{
	struct watcher *watcher =
		(struct watcher *)((char *)listener - offsetof(struct watcher, listener));
	cleanup_buf struct buf out = BUF_INIT(DATA_MAX);
	struct json json = {.out = &out};

	if (watcher->lost > 0 || sse_room(&watcher->sse) == 0) {
		watcher->lost++;
		return;
	}
	json_open(&json, NULL, '{');
	if (process)
		v1_write_step(&json, "step", process, false);
	else
		v1_write_box(&json, "sandbox", box, false);
	if (event == BOX_ENDED)
		json_str(&json, "cause", box_cause_name(box->cause));
	json_close(&json, '}');
	send(watcher, box_event_name(event), &out);
}

void v1_events(struct api_call *call)
{
	struct watcher *watcher;

	if (call->tenant->n_watchers >= TENANT_WATCHERS_MAX) {
		v1_refuse(call, 429, "quota", "this tenant has as many streams as it may have");
		return;
	}
	watcher = calloc(1, sizeof *watcher);
	if (!watcher) {
		v1_refuse(call, 503, "host", "out of memory");
		return;
	}
	if (!sse_begin(&watcher->sse, call, on_drained)) {
		free(watcher);
		return;
	}
	watcher->listener = (struct box_listener){.daemon = call->api->daemon,
						  .tenant = call->tenant,
						  .told = on_event,
						  .wants_processes = true};
	call->tenant->n_watchers++;
	call->own = watcher;
	call->over = on_over;
	box_listen(&watcher->listener);
	send_count(watcher, "ready", "sandboxes", call->tenant->n_boxes);
}
