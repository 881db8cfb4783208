/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for the inside of a box: files and processes (port 49983), the code interpreter (49999),
 * and programs at other ports
 *
 * A client sends a token of the box, or for files a signature made with it; for other ports a token
 * only if the box was created so. The token is checked before a paused box is woken, so that only
 * clients with access wake it. Order: serve_box() or find_signer(), serve_or_wake(),
 * check_access(), wake(), serve().
 */
#include "e2b/e2b-dataplane.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "e2b/connect-call.h"
#include "e2b/e2b-files.h"
#include "e2b/e2b-objects.h"
#include "e2b/e2b-protocol.h"
#include "e2b/e2b-sign.h"
#include "e2b/e2b-upload.h"
#include "e2b/e2b-wait.h"
#include "e2b/interpreter-context.h"
#include "e2b/interpreter.h"
#include "httpd/httpd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define ANSWER_MAX (2U << 20)
#define WAKE_S	   300 /* the least time-out of a box that was woken */

static bool is_method(struct api_call *call, const char *method)
{
	return http_slice_is(exchange_head(call->exchange)->method, method);
}

static bool is_path(struct api_call *call, const char *first, const char *second)
{
	const char *a = exchange_segment(call->exchange, 0), *b = NULL;

	if (!a || !streq(a, first))
		return false;
	b = exchange_segment(call->exchange, 1);
	return second ? b && streq(b, second) && !exchange_segment(call->exchange, 2) : !b;
}

/* ---- access ---- */

static void refuse_box(struct api_call *call, unsigned status, const char *id, const char *message)
{
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct json json = {&out};

	json_open(&json, NULL, '{');
	json_str(&json, "sandboxId", id);
	json_str(&json, "message", message);
	json_uint(&json, "code", status);
	json_close(&json, '}');
	api_answer(call, status, &out);
}

void e2b_refuse_unknown_box(struct api_call *call, const char *id)
{
	refuse_box(call, 502, id, "The sandbox was not found");
}

static bool check_token(struct api_call *call, const struct box *box)
{
	const char *token = exchange_field(call->exchange, "x-access-token");

	if (token && e2b_is_same_token(token, box->access_token))
		return true;
	api_refuse(call, 401,
		   "unauthorized access, please provide a valid access token or method signing if "
		   "supported");
	return false;
}

static bool is_files(struct api_call *call)
{
	return is_path(call, "files", NULL) &&
	       (is_method(call, "GET") || is_method(call, "HEAD") || is_method(call, "POST"));
}

static bool is_health(struct api_call *call)
{
	return is_path(call, "health", NULL) && (is_method(call, "GET") || is_method(call, "HEAD"));
}

static bool check_envd(struct api_call *call, const struct box *box)
{
	const char *why;

	if (is_health(call))
		return true;
	if (!is_files(call))
		return check_token(call, box);
	why = e2b_check_signature(call->exchange, box);
	if (why)
		api_refuse(call, 401, "%s", why);
	return !why;
}

/* For the interpreter and the ports of programs inside. */
static bool check_traffic(struct api_call *call, const struct box *box)
{
	const char *token = exchange_field(call->exchange, "e2b-traffic-access-token");

	if (!box->traffic_token[0] || (token && e2b_is_same_token(token, box->traffic_token)))
		return true;
	refuse_box(call, 403, box->id,
		   token ? "The traffic access token is invalid"
			 : "The traffic access token is missing");
	return false;
}

/* Clients of the interpreter send the token with executions, and not with requests about
 * contexts. */
static bool needs_no_token(struct api_call *call)
{
	const char *first = exchange_segment(call->exchange, 0);

	return first && (streq(first, "contexts") || streq(first, "health"));
}

static bool check_access(struct api_call *call, const struct box *box, uint16_t port)
{
	if (port == E2B_PORT_ENVD)
		return check_envd(call, box);
	if (!check_traffic(call, box))
		return false;
	return port != E2B_PORT_INTERPRETER || needs_no_token(call) || check_token(call, box);
}

/* Visitors have sent no token that only the tenant's own clients have. */
static struct load *load_of(struct api_call *call, struct box *box, uint16_t port)
{
	const char *token = exchange_field(call->exchange, "x-access-token");
	const char *traffic = exchange_field(call->exchange, "e2b-traffic-access-token");
	bool is_own = token && token[0] && e2b_is_same_token(token, box->access_token);

	if (port != E2B_PORT_ENVD && box->traffic_token[0] && traffic)
		is_own = is_own || e2b_is_same_token(traffic, box->traffic_token);
	return is_own ? &box->tenant->own : &box->tenant->visitors;
}

/* ---- small answers ---- */

static void health(struct api_call *call)
{
	exchange_add(call->exchange, "Cache-Control", "no-store");
	api_answer_empty(call, 204);
}

static void envs(struct api_call *call, const struct box *box)
{
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {&out};

	json_open(&json, NULL, '{');
	for (size_t i = 0; i < box->environment.n; i++)
		json_str(&json, box->environment.items[i].name, box->environment.items[i].value);
	json_close(&json, '}');
	api_answer(call, 200, &out);
}

static void metrics(struct api_call *call, const struct box *box)
{
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	cleanup_free struct box_sample *samples = calloc(8192, sizeof *samples);
	size_t n = samples ? box_samples(box, 0, INT64_MAX, samples, 8192) : 0;
	struct box_sample latest = n > 0 ? samples[n - 1] : (struct box_sample){0};
	struct json json = {&out};
	char percent[32];

	snprintf(percent, sizeof percent, "%.2f", latest.cpu_percent);
	json_open(&json, NULL, '{');
	json_int(&json, "ts", latest.time_ms / 1000);
	json_uint(&json, "cpu_count", box->cpus);
	e2b_write_raw(&json, "cpu_used_pct", percent);
	json_uint(&json, "mem_total", latest.memory_total);
	json_uint(&json, "mem_used", latest.memory_used);
	json_uint(&json, "mem_cache", latest.memory_cache);
	json_uint(&json, "mem_total_mib", latest.memory_total >> 20);
	json_uint(&json, "mem_used_mib", latest.memory_used >> 20);
	json_uint(&json, "disk_used", latest.disk_used);
	json_uint(&json, "disk_total", latest.disk_total);
	json_close(&json, '}');
	api_answer(call, 200, &out);
}

/* ---- services ---- */

static void serve_envd(struct api_call *call, struct box *box)
{
	bool gets = is_method(call, "GET") || is_method(call, "HEAD");

	if (is_health(call))
		health(call);
	else if (is_path(call, "files", NULL) && gets)
		e2b_files(call, box);
	else if (is_path(call, "files", NULL) && is_method(call, "POST"))
		e2b_upload(call, box);
	else if (is_path(call, "files", "compose") && is_method(call, "POST"))
		e2b_compose(call, box);
	else if (is_path(call, "envs", NULL) && gets)
		envs(call, box);
	else if (is_path(call, "metrics", NULL) && gets)
		metrics(call, box);
	else
		rpc_exchange(call, box);
}

static void serve(struct api_call *call, struct box *box, uint16_t port)
{
	struct exchange *exchange = call->exchange;

	/* /health needs no token, and does not count as use of the box. */
	if (port != E2B_PORT_ENVD || !is_health(call))
		box_touch(box);
	if (port == E2B_PORT_ENVD) {
		serve_envd(call, box);
	} else if (port == E2B_PORT_INTERPRETER) {
		interpreter_exchange(exchange, box);
	} else {
		struct load *load = call->load;

		api_detach_exchange(call);
		proxy_exchange(exchange, box, port, load);
	}
}

/* ---- paused boxes ---- */

static void on_woken(struct box *box, const struct atoll_error *err, void *data)
{
	struct e2b_wait *wait = data;
	uint16_t port = (uint16_t)wait->step;
	char id[BOX_ID_SIZE];
	struct api_call *call;

	memcpy(id, wait->id, sizeof id);
	call = e2b_wait_end(wait);
	if (!call)
		return;
	call->box = box;
	if (err->errnum == EDQUOT)
		api_fail(call, err);
	else if (err->fault != ATOLL_FAULT_NONE || !box)
		e2b_refuse_unknown_box(call, id);
	else
		serve(call, box, port);
}

/* The body waits in the socket meanwhile. */
static void wake(struct api_call *call, struct box *box, uint16_t port)
{
	uint64_t seconds = box->timeout_s > WAKE_S ? box->timeout_s : WAKE_S;
	struct e2b_wait *wait = e2b_wait_new(call);

	if (!wait)
		return;
	wait->step = port;
	memcpy(wait->id, box->id, sizeof wait->id);
	call->box = NULL; /* the box may be killed while it wakes */
	box_resume(box, seconds, on_woken, wait);
}

static void serve_or_wake(struct api_call *call, struct box *box, uint16_t port)
{
	bool sleeps = box->state == BOX_PAUSED && box->wakes && box->keeps_memory;

	/*
	 * /health does not wake the box. E2B's clients ask it by themselves when a stream breaks,
	 * and a pause breaks all streams: the box would wake at once.
	 */
	if (port == E2B_PORT_ENVD && is_health(call))
		sleeps = false;
	if (box->state != BOX_RUNNING && !sleeps)
		e2b_refuse_unknown_box(call, box->id);
	else if (!check_access(call, box, port))
		;
	else if (sleeps)
		wake(call, box, port);
	else
		serve(call, box, port);
}

/* ---- signed URLs that name no box ---- */

/* The signature is compared with the token of each box, ten in some microseconds. Anybody can send
 * such requests: with many boxes they wait in one lane. */
#define TRIED_AT_ONCE 64

struct search {
	struct loop_turn piece;
	struct api_call *call;
};

static void search_over(struct api_call *call, bool is_broken)
{
	struct search *search = call->own;

	(void)is_broken;
	loop_unqueue(&search->piece);
	free(search);
}

static void find_signer(struct api_call *call)
{
	struct e2b_signed request;
	struct box *box = NULL;

	/* The request is not authenticated yet: limit its length. */
	if (!e2b_signed_begin(call->exchange, &request)) {
		api_refuse(call, 400, "a path has at most %d bytes, and a user's name %d",
			   E2B_PATH_MAX, E2B_WORD_MAX);
		return;
	}
	do
		box = box_next_any(call->api->daemon, box);
	while (box && !e2b_signed_by(&request, box->access_token));
	if (!box) {
		api_refuse(call, 401, "invalid signature");
		return;
	}
	call->box = box;
	if (api_charge(call, box->tenant, &box->tenant->visitors))
		serve_or_wake(call, box, E2B_PORT_ENVD);
}

static void run_search(struct loop_turn *piece)
{
	struct search *search = container_of(piece, struct search, piece);
	struct api_call *call = search->call;

	call->own = NULL;
	call->over = NULL;
	free(search);
	find_signer(call);
}

static void serve_signed(struct api_call *call)
{
	struct search *search;

	if (!is_files(call)) {
		api_refuse(call, 404, "there is nothing at this path");
		return;
	}
	if (!exchange_query(call->exchange, "signature")) {
		api_refuse(call, 401, "missing signature query parameter");
		return;
	}
	if (daemon_n_boxes(call->api->daemon) <= TRIED_AT_ONCE) {
		find_signer(call);
		return;
	}
	search = calloc(1, sizeof *search);
	if (!search) {
		api_refuse(call, 500, "no memory");
		return;
	}
	*search = (struct search){.piece.run = run_search, .call = call};
	call->own = search;
	call->over = search_over;
	loop_queue(call->api->loop, &e2b_of(call)->searches, &search->piece);
}

/* ---- entry ---- */

static void serve_box(struct api_call *call, const struct api_data_plane *plane)
{
	struct box *box = box_find_any(call->api->daemon, plane->id);

	call->class = "unknown sandbox";
	if (!box || (box->state != BOX_RUNNING && box->state != BOX_PAUSED)) {
		e2b_refuse_unknown_box(call, plane->id);
		return;
	}
	if (!api_charge(call, box->tenant, load_of(call, box, plane->port)))
		return;
	call->box = box;
	call->class = plane->port == E2B_PORT_ENVD	    ? "envd"
		      : plane->port == E2B_PORT_INTERPRETER ? "code-interpreter"
							    : "port";
	serve_or_wake(call, box, plane->port);
}

void e2b_serve_data_plane(struct api_call *call, const struct api_data_plane *plane)
{
	if (plane->id[0]) {
		serve_box(call, plane);
	} else {
		call->class = "signed";
		serve_signed(call);
	}
}
