/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of boxes: get, kill, time-out, pause, resume, fork; the table of routes
 *
 * Each handler reads the request and calls box/. The callback of box/ answers (e2b-wait.h).
 */
#include "e2b/e2b-control.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "e2b/e2b-create.h"
#include "e2b/e2b-list.h"
#include "e2b/e2b-logs.h"
#include "e2b/e2b-metrics.h"
#include "e2b/e2b-network.h"
#include "e2b/e2b-objects.h"
#include "e2b/e2b-snapshots.h"
#include "e2b/e2b-templates.h"
#include "e2b/e2b-wait.h"

#include <stdlib.h>

#define BODY_MAX   (64U << 10)
#define ANSWER_MAX (4U << 20)
#define TIMEOUT_S  300
#define REFRESH_S  15
#define FORKS_MAX  100

/* ---- get, kill ---- */

static void get_box(struct api_call *call)
{
	struct box *box = api_box(call);
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {&out};

	if (!box)
		return;
	e2b_write_listed(&json, box, true);
	api_answer(call, 200, &out);
}

static void answer_sandbox(struct api_call *call, unsigned status, const struct box *box)
{
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {&out};

	e2b_write_sandbox(&json, NULL, box);
	api_answer(call, status, &out);
}

static void on_killed(struct box *box, const struct atoll_error *err, void *data)
{
	(void)box;
	(void)err;
	(void)data;
}

/* box_kill() hides the box at once; the answer does not wait until its files are removed. */
static void kill_box(struct api_call *call)
{
	struct box *box = api_box(call);

	if (!box)
		return;
	box_kill(box, BOX_CAUSE_KILLED, on_killed, NULL);
	api_answer_empty(call, 204);
}

/* ---- time-out ---- */

static void read_timeout(struct api_call *call, json_t *body)
{
	struct box *box = api_box(call);
	uint64_t seconds = 0;

	if (!box)
		return;
	if (!json_object_get(body, "timeout")) {
		api_refuse(call, 400, "timeout: is missing");
		return;
	}
	if (!e2b_read_seconds(call, body, "timeout", &seconds))
		return;
	if (box->state != BOX_RUNNING) {
		api_refuse(call, 404, "sandbox %s is not running", box->id);
		return;
	}
	box_set_timeout(box, seconds, false);
	api_answer_empty(call, 204);
}

static void set_timeout(struct api_call *call)
{
	api_read_json(call, BODY_MAX, true, read_timeout);
}

static void read_refresh(struct api_call *call, json_t *body)
{
	struct box *box = api_box(call);
	uint64_t seconds = REFRESH_S;

	if (!box || !e2b_read_seconds(call, body, "duration", &seconds))
		return;
	if (box->state != BOX_RUNNING) {
		api_refuse(call, 404, "sandbox %s is not running", box->id);
		return;
	}
	box_set_timeout(box, seconds, true);
	api_answer_empty(call, 204);
}

static void refresh(struct api_call *call)
{
	api_read_json(call, BODY_MAX, false, read_refresh);
}

/* ---- pause ---- */

static void on_paused(struct box *box, const struct atoll_error *err, void *data)
{
	struct api_call *call = e2b_wait_end(data);

	(void)box;
	if (!call)
		return;
	if (err->fault != ATOLL_FAULT_NONE && err->errnum == EALREADY)
		api_refuse(call, 409, "sandbox is already paused");
	else if (err->fault != ATOLL_FAULT_NONE)
		api_fail(call, err);
	else
		api_answer_empty(call, 204);
}

static void read_pause(struct api_call *call, json_t *body)
{
	struct box *box = api_box(call);
	bool keeps_memory = true;
	struct e2b_wait *wait;

	if (!box || !e2b_read_bool(call, body, "memory", &keeps_memory))
		return;
	if (box->state == BOX_PAUSED) {
		api_refuse(call, 409, "sandbox %s is already paused", box->id);
		return;
	}
	wait = e2b_wait_new(call);
	if (wait)
		box_pause(box, keeps_memory, on_paused, wait);
}

static void pause_box(struct api_call *call)
{
	api_read_json(call, BODY_MAX, false, read_pause);
}

/* ---- connect, resume ---- */

static void on_resumed(struct box *box, const struct atoll_error *err, void *data)
{
	struct api_call *call = e2b_wait_end(data);

	if (!call)
		return;
	if (err->fault != ATOLL_FAULT_NONE || !box)
		api_fail(call, err);
	else
		answer_sandbox(call, 201, box);
}

/*
 * Starts a box without the content of its memory: resumes it, ends its processes, and starts it
 * again. These are separate steps; the box is looked up again in each, because it may be killed
 * between.
 */
static void start_afresh(struct box *box, const struct atoll_error *err, void *data)
{
	struct e2b_wait *wait = data;

	if (err->fault != ATOLL_FAULT_NONE || !box) {
		on_resumed(box, err, wait);
		return;
	}
	if (wait->step++ == 0)
		box_pause(box, false, start_afresh, wait);
	else
		box_resume(box, wait->timeout_s, on_resumed, wait);
}

static void resume(struct api_call *call, struct box *box, uint64_t timeout_s, bool keeps_memory)
{
	struct e2b_wait *wait = e2b_wait_new(call);

	if (!wait)
		return;
	wait->timeout_s = timeout_s;
	box_resume(box, timeout_s, keeps_memory || !box->keeps_memory ? on_resumed : start_afresh,
		   wait);
}

static void read_connect(struct api_call *call, json_t *body)
{
	struct box *box = api_box(call);
	uint64_t timeout_s = TIMEOUT_S;
	bool keeps_memory = true;

	if (!box || !e2b_read_seconds(call, body, "timeout", &timeout_s) ||
	    !e2b_read_bool(call, body, "memory", &keeps_memory))
		return;
	if (box->state == BOX_PAUSED) {
		resume(call, box, timeout_s, keeps_memory);
		return;
	}
	box_set_timeout(box, timeout_s, true);
	answer_sandbox(call, 200, box);
}

static void connect_box(struct api_call *call)
{
	api_read_json(call, BODY_MAX, false, read_connect);
}

static void read_resume(struct api_call *call, json_t *body)
{
	struct box *box = api_box(call);
	uint64_t timeout_s = TIMEOUT_S;
	bool keeps_memory = true;

	if (!box || !e2b_read_seconds(call, body, "timeout", &timeout_s) ||
	    !e2b_read_bool(call, body, "memory", &keeps_memory) ||
	    !e2b_read_bool(call, body, "autoPause", &box->pauses_at_end))
		return;
	if (box->state == BOX_PAUSED)
		resume(call, box, timeout_s, keeps_memory);
	else
		api_refuse(call, 409, "sandbox %s is running", box->id);
}

static void resume_box(struct api_call *call)
{
	api_read_json(call, BODY_MAX, false, read_resume);
}

/* ---- fork ---- */

static void write_fork(struct json *json, const struct box_fork *fork)
{
	json_open(json, NULL, '{');
	if (fork->box) {
		e2b_write_sandbox(json, "sandbox", fork->box);
	} else {
		json_open(json, "error", '{');
		json_uint(json, "code", api_error_status(&fork->error));
		json_str(json, "message", fork->error.text);
		json_close(json, '}');
	}
	json_close(json, '}');
}

static void on_forked(struct box_fork *forks, size_t n, const struct atoll_error *err, void *data)
{
	struct api_call *call = e2b_wait_end(data);
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {&out};

	for (size_t i = 0; !call && i < n; i++) {
		if (forks[i].box)
			box_kill(forks[i].box, BOX_CAUSE_KILLED, on_killed, NULL);
	}
	if (!call)
		return;
	if (err->fault != ATOLL_FAULT_NONE) {
		api_fail(call, err);
		return;
	}
	json_open(&json, NULL, '[');
	for (size_t i = 0; i < n; i++)
		write_fork(&json, &forks[i]);
	json_close(&json, ']');
	api_answer(call, 201, &out);
}

static void read_fork(struct api_call *call, json_t *body)
{
	struct box *box = api_box(call);
	uint64_t timeout_s = TIMEOUT_S;
	json_t *count = json_object_get(body, "count");
	json_int_t n = count ? json_integer_value(count) : 1;
	struct e2b_wait *wait;

	if (!box || !e2b_read_seconds(call, body, "timeout", &timeout_s))
		return;
	if (n < 1 || n > FORKS_MAX || (count && !json_is_integer(count))) {
		api_refuse(call, 400, "count: must be from 1 to %d", FORKS_MAX);
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
		box_fork(box, (size_t)n, timeout_s, on_forked, wait);
}

static void fork_box(struct api_call *call)
{
	api_read_json(call, BODY_MAX, false, read_fork);
}

const struct api_route e2b_control_routes[] = {
	{"POST", "/v2/sandboxes", e2b_create},
	{"GET", "/v2/sandboxes", e2b_list},
	{"POST", "/sandboxes", e2b_create_v1},
	{"GET", "/sandboxes", e2b_list_v1},
	{"GET", "/sandboxes/metrics", e2b_metrics_of_many},
	{"GET", "/sandboxes/{id}", get_box},
	{"DELETE", "/sandboxes/{id}", kill_box},
	{"POST", "/sandboxes/{id}/timeout", set_timeout},
	{"POST", "/sandboxes/{id}/refreshes", refresh},
	{"POST", "/sandboxes/{id}/pause", pause_box},
	{"POST", "/v2/sandboxes/{id}/connect", connect_box},
	{"POST", "/sandboxes/{id}/connect", connect_box},
	{"POST", "/sandboxes/{id}/resume", resume_box},
	{"POST", "/sandboxes/{id}/fork", fork_box},
	{"PUT", "/sandboxes/{id}/network", e2b_put_network},
	{"GET", "/sandboxes/{id}/metrics", e2b_metrics},
	{"GET", "/sandboxes/{id}/logs", e2b_logs_v1},
	{"GET", "/v2/sandboxes/{id}/logs", e2b_logs},
	{"POST", "/sandboxes/{id}/snapshots", e2b_snapshot},
	{"GET", "/snapshots", e2b_list_snapshots},
	{"GET", "/templates/aliases/{alias}", e2b_alias},
	{"DELETE", "/templates/tags", e2b_remove_tags},
	{"DELETE", "/templates/{id}", e2b_remove_template},
	{0},
};
