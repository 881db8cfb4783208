/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filesystem.Filesystem: changes in directories
 *
 * As a stream (WatchDir), or kept until the client asks (CreateWatcher, GetWatcherEvents,
 * RemoveWatcher). Both are bounded: a stream that is not read and a watcher that is not asked end
 * with an error that changes were lost.
 */
#include "e2b/e2b-watch.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "e2b/connect-call.h"
#include "e2b/connect-message.h"
#include "e2b/connect-send.h"
#include "e2b/connect.h"
#include "e2b/e2b-objects.h"
#include "e2b/e2b-protocol.h"
#include "httpd/httpd.h"

#include <sodium.h>
#include <stdlib.h>

#define EVENTS_MAX   (1U << 20) /* bytes of changes that a watcher keeps */
#define WATCHERS_MAX 64		/* of a box */
#define EVENT_MAX    (64U << 10)

static void write_event(struct buf *out, enum guest_event event, const char *name,
			const struct guest_entry *entry)
{
	static const char *const types[] = {
		[GUEST_CREATE] = "EVENT_TYPE_CREATE", [GUEST_WRITE] = "EVENT_TYPE_WRITE",
		[GUEST_REMOVE] = "EVENT_TYPE_REMOVE", [GUEST_RENAME] = "EVENT_TYPE_RENAME",
		[GUEST_CHMOD] = "EVENT_TYPE_CHMOD",
	};
	struct json json = {out};

	json_open(&json, NULL, '{');
	json_str(&json, "name", name);
	json_str(&json, "type", types[event]);
	if (entry && event != GUEST_REMOVE && event != GUEST_RENAME)
		e2b_write_entry(&json, "entry", entry);
	json_close(&json, '}');
}

struct request {
	const char *path;
	bool is_recursive, wants_entries, allows_network;
};

static bool read_request(struct rpc *rpc, struct request *ret)
{
	*ret = (struct request){0};
	if (!rpc_text(rpc, rpc->request, "path", &ret->path) ||
	    !rpc_bool(rpc, rpc->request, "recursive", &ret->is_recursive) ||
	    !rpc_bool(rpc, rpc->request, "includeEntry", &ret->wants_entries) ||
	    !rpc_bool(rpc, rpc->request, "allowNetworkMounts", &ret->allows_network))
		return false;
	if (!ret->path)
		ret->path = "";
	return true;
}

/* ---- as a stream ---- */

static void stream_over(struct rpc *rpc)
{
	guest_unwatch(rpc->own);
	rpc->own = NULL;
}

static void on_stream_event(enum guest_event event, const char *name,
			    const struct guest_entry *entry, void *data)
{
	cleanup_buf struct buf out = BUF_INIT(EVENT_MAX);
	struct rpc *rpc = data;

	if (rpc_is_over(rpc))
		return;
	if (event == GUEST_LOST || stream_room(rpc->call) == 0) {
		rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED, "there were too many changes: some are lost");
		return;
	}
	buf_add_str(&out, "{\"filesystem\":");
	write_event(&out, event, name, entry);
	buf_add_char(&out, '}');
	if (buf_error(&out) == 0)
		rpc_send(rpc, out.data, out.used);
}

static void on_stream_armed(const struct guest_entry *entries, size_t n,
			    const struct atoll_error *err, void *data)
{
	static const char start[] = "{\"start\":{}}";
	struct rpc *rpc = data;

	(void)entries;
	(void)n;
	if (rpc_is_over(rpc))
		return;
	if (err->fault != ATOLL_FAULT_NONE)
		rpc_fail_error(rpc, err);
	else
		rpc_send(rpc, start, sizeof start - 1);
}

static void watch_dir(struct rpc *rpc)
{
	struct request request;

	if (!read_request(rpc, &request))
		return;
	if (!stream_open(rpc->call)) {
		rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED,
			 "this tenant has as many streams as it may have");
		return;
	}
	rpc->own = guest_watch(rpc->box, rpc->user, request.path, request.is_recursive,
			       request.wants_entries, on_stream_armed, on_stream_event, rpc);
	if (rpc->own)
		rpc->over = stream_over;
	else
		rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED, "no memory");
}

/* ---- watchers ---- */

struct watcher {
	struct e2b *e2b;
	char id[24];
	struct box *box;
	struct guest_watch *watch;
	struct rpc *creating; /* the call that is answered by the id */
	uint64_t gone;
	struct buf events;
	struct held held; /* counts the bytes of `events` */
	bool is_lost;
	struct watcher *next;
};

static struct watcher *find_watcher(const struct e2b *e2b, const struct box *box, const char *id)
{
	struct watcher *watcher = e2b->watchers;

	while (watcher && (watcher->box != box || !streq(watcher->id, id)))
		watcher = watcher->next;
	return watcher;
}

static size_t count_watchers(const struct e2b *e2b, const struct box *box)
{
	size_t n = 0;

	for (const struct watcher *w = e2b->watchers; w; w = w->next)
		n += w->box == box;
	return n;
}

static void drop_events(struct watcher *watcher)
{
	buf_done(&watcher->events);
	held_drop(&watcher->held);
	watcher->events = (struct buf)BUF_INIT(EVENTS_MAX);
}

static void free_watcher(struct watcher *watcher)
{
	struct watcher **link = &watcher->e2b->watchers;

	while (*link && *link != watcher)
		link = &(*link)->next;
	if (*link)
		*link = watcher->next;
	if (watcher->gone)
		box_forget_gone(watcher->box, watcher->gone);
	if (watcher->watch)
		guest_unwatch(watcher->watch);
	if (watcher->creating)
		rpc_unref(watcher->creating);
	drop_events(watcher);
	free(watcher);
}

static void box_gone(struct box *box, void *data)
{
	struct watcher *watcher = data;

	(void)box;
	watcher->gone = 0;
	free_watcher(watcher);
}

static void on_watcher_event(enum guest_event event, const char *name,
			     const struct guest_entry *entry, void *data)
{
	struct watcher *watcher = data;
	size_t before = watcher->events.used;

	if (watcher->is_lost)
		return;
	if (before > 0)
		buf_add_char(&watcher->events, ',');
	if (event != GUEST_LOST)
		write_event(&watcher->events, event, name, entry);
	watcher->is_lost = event == GUEST_LOST || buf_error(&watcher->events) < 0 ||
			   !held_set(&watcher->held, watcher->box->tenant, watcher->events.used);
	if (watcher->is_lost)
		drop_events(watcher);
}

static void answer_id(struct rpc *rpc, const struct watcher *watcher)
{
	cleanup_buf struct buf out = BUF_INIT(128);
	struct json json = {&out};

	json_open(&json, NULL, '{');
	json_str(&json, "watcherId", watcher->id);
	json_close(&json, '}');
	rpc_answer(rpc, &out);
}

static void on_watcher_armed(const struct guest_entry *entries, size_t n,
			     const struct atoll_error *err, void *data)
{
	struct watcher *watcher = data;
	struct rpc *rpc = take_ptr(watcher->creating);

	(void)entries;
	(void)n;
	if (err->fault == ATOLL_FAULT_NONE && !rpc_is_over(rpc)) {
		answer_id(rpc, watcher);
	} else {
		/* The client does not know the id. */
		if (!rpc_is_over(rpc))
			rpc_fail_error(rpc, err);
		free_watcher(watcher);
	}
	rpc_unref(rpc);
}

static struct watcher *new_watcher(struct rpc *rpc)
{
	struct watcher *watcher = calloc(1, sizeof *watcher);
	unsigned char random[11];

	if (!watcher)
		return NULL;
	randombytes_buf(random, sizeof random);
	sodium_bin2hex(watcher->id, sizeof watcher->id, random, sizeof random);
	watcher->box = rpc->box;
	watcher->creating = rpc_ref(rpc);
	watcher->events = (struct buf)BUF_INIT(EVENTS_MAX);
	watcher->gone = box_on_gone(rpc->box, box_gone, watcher);
	watcher->e2b = e2b_of(rpc->call);
	watcher->next = watcher->e2b->watchers;
	watcher->e2b->watchers = watcher;
	return watcher;
}

static void create_watcher(struct rpc *rpc)
{
	struct watcher *watcher;
	struct request request;

	if (!read_request(rpc, &request))
		return;
	if (count_watchers(e2b_of(rpc->call), rpc->box) >= WATCHERS_MAX) {
		rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED, "there are %d watchers; remove some",
			 WATCHERS_MAX);
		return;
	}
	watcher = new_watcher(rpc);
	if (watcher)
		watcher->watch = guest_watch(rpc->box, rpc->user, request.path,
					     request.is_recursive, request.wants_entries,
					     on_watcher_armed, on_watcher_event, watcher);
	if (watcher && watcher->watch)
		return;
	if (watcher)
		free_watcher(watcher);
	rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED, "no memory");
}

static struct watcher *read_watcher(struct rpc *rpc)
{
	const char *id = NULL;
	struct watcher *watcher;

	if (!rpc_text(rpc, rpc->request, "watcherId", &id))
		return NULL;
	watcher = find_watcher(e2b_of(rpc->call), rpc->box, id ? id : "");
	if (!watcher)
		rpc_fail(rpc, RPC_NOT_FOUND, "watcher with id %s not found", id ? id : "''");
	return watcher;
}

static void get_events(struct rpc *rpc)
{
	struct watcher *watcher = read_watcher(rpc);
	cleanup_buf struct buf out = BUF_INIT(EVENTS_MAX + 64);

	if (!watcher)
		return;
	if (watcher->is_lost) {
		rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED, "there were too many changes: some are lost");
		free_watcher(watcher);
		return;
	}
	buf_add_str(&out, "{\"events\":[");
	if (watcher->events.used > 0)
		buf_add(&out, watcher->events.data, watcher->events.used);
	buf_add_str(&out, "]}");
	drop_events(watcher);
	rpc_answer(rpc, &out);
}

static void remove_watcher(struct rpc *rpc)
{
	struct watcher *watcher = read_watcher(rpc);

	if (!watcher)
		return;
	free_watcher(watcher);
	rpc_answer_empty(rpc);
}

const struct rpc_method e2b_watch_methods[] = {
	{"filesystem.Filesystem/WatchDir", RPC_SERVER_STREAM, watch_dir, NULL,
	 "{\"keepalive\":{}}"},
	{"filesystem.Filesystem/CreateWatcher", RPC_UNARY, create_watcher},
	{"filesystem.Filesystem/GetWatcherEvents", RPC_UNARY, get_events},
	{"filesystem.Filesystem/RemoveWatcher", RPC_UNARY, remove_watcher},
	{0},
};
