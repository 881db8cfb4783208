/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* ---- failures ---- */

static bool is_path(const struct api_call *call)
{
	const char *first = exchange_segment(call->exchange, 0);

	return first && streq(first, "v1");
}

static const char *status_cause(unsigned status)
{
	switch (status) {
	case 401:
		return "unauthorized";
	case 403:
		return "policy";
	case 404:
	case 410:
		return "not-found";
	case 409:
		return "conflict";
	case 429:
		return "quota";
	case 507:
		return "disk";
	case 502:
	case 503:
	case 504:
		return "host";
	default:
		return status < 500 ? "request" : "internal";
	}
}

const char *v1_error_cause(const struct atoll_error *err)
{
	if (err->errnum == EAGAIN)
		return "host"; /* the machine is full, not the tenant's share of it */
	if (err->fault == ATOLL_FAULT_HOST && api_error_status(err) == 500)
		return "host";
	return status_cause(api_error_status(err));
}

void v1_write_error(struct json *json, const char *key, const char *cause, const char *details,
		    const char *message)
{
	json_open(json, key, '{');
	json_str(json, "cause", cause);
	json_str(json, "message", message);
	json_open(json, "details", '{');
	buf_add_str(json->out, details);
	json_close(json, '}');
	json_close(json, '}');
}

static void refuse(struct api_call *call, unsigned status, const char *cause, const char *details,
		   const char *message)
{
	cleanup_buf struct buf out = BUF_INIT(64 * 1024);
	struct json json = {.out = &out};

	json_open(&json, NULL, '{');
	v1_write_error(&json, "error", cause, details, message);
	json_close(&json, '}');
	if (status == 429 || status == 503)
		exchange_add_if_missing(call->exchange, "Retry-After", "1");
	api_answer(call, status, &out);
}

void v1_refuse(struct api_call *call, unsigned status, const char *cause, const char *format, ...)
{
	char message[512];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof message, format, args);
	va_end(args);
	refuse(call, status, cause, "", message);
}

void v1_refuse_with(struct api_call *call, unsigned status, const char *cause, const char *details,
		    const char *format, ...)
{
	char message[512];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof message, format, args);
	va_end(args);
	refuse(call, status, cause, details, message);
}

void v1_fail(struct api_call *call, const struct atoll_error *err)
{
	unsigned status = api_error_status(err);

	/* This machine cannot: not now, or not at all, which the text says. */
	if (status == 500 && err->fault == ATOLL_FAULT_HOST)
		status = 503;
	if (status == 500 && err->fault == ATOLL_FAULT_JOB)
		status = 400;
	refuse(call, status, status == 400 ? "request" : v1_error_cause(err), "", err->text);
}

void v1_done(struct api_call *call)
{
	api_answer_empty(call, 204);
}

/* ---- answers that come later ---- */

static void forget_call(struct api_call *call, bool is_broken)
{
	struct v1_wait *wait = call->own;

	(void)is_broken;
	wait->call = NULL;
	atomic_store(&wait->is_gone, true);
}

void *v1_wait_new(struct api_call *call, size_t size, const struct box *box)
{
	struct v1_wait *wait = calloc(1, size);

	if (!wait) {
		v1_refuse(call, 503, "host", "out of memory");
		return NULL;
	}
	wait->call = call;
	wait->daemon = call->api->daemon;
	if (box)
		memcpy(wait->box, box->id, sizeof wait->box);
	call->own = wait;
	call->over = forget_call;
	return wait;
}

struct api_call *v1_wait_end(struct v1_wait *wait)
{
	struct api_call *call = wait->call;

	if (call) {
		call->own = NULL;
		call->over = NULL;
		wait->call = NULL;
	}
	return call;
}

struct box *v1_wait_box(const struct v1_wait *wait)
{
	struct box *box = box_find_any(wait->daemon, wait->box);

	return box && box->state != BOX_ENDING ? box : NULL;
}

struct box *v1_box(struct api_call *call)
{
	const char *id = api_parameter(call, 0);
	struct box *box = id ? box_find(call->tenant, id) : NULL;

	if (!box)
		v1_refuse(call, 404, "not-found", "there is no sandbox '%.40s'", id ? id : "");
	else
		box_touch(box);
	return box;
}

struct box *v1_running_box(struct api_call *call)
{
	struct box *box = v1_box(call);

	if (box && box->state != BOX_RUNNING) {
		v1_refuse(call, 409, "conflict",
			  "sandbox '%s' is %s; resume it first (POST /v1/sandboxes/%s/resume)",
			  box->id, box->state == BOX_PAUSED ? "paused" : "not ready", box->id);
		return NULL;
	}
	return box;
}

/* ---- work on threads ---- */

static void free_work(struct v1_work *work)
{
	if (work->tenant)
		work->tenant->scratch -= work->reserved;
	if (work->free)
		work->free(work);
	free(work);
}

bool v1_work_reserve(struct v1_work *work, uint64_t bytes)
{
	struct tenant *tenant = work->tenant;
	uint64_t left = daemon_disk_left(work->wait.daemon);
	struct api_call *call;

	if (bytes > left)
		bytes = left;
	if (bytes > 0 && tenant_reserve_scratch(tenant, bytes)) {
		work->reserved = bytes;
		return true;
	}
	call = v1_wait_end(&work->wait);
	free_work(work);
	if (bytes == 0) {
		v1_refuse(call, 507, "host", "the machine has no disk left for the answer");
		return false;
	}
	v1_refuse(call, 429, "quota",
		  "answers of this tenant, in files, wait to be read: %llu MiB of %llu",
		  (unsigned long long)(tenant->scratch >> 20),
		  (unsigned long long)(TENANT_SCRATCH_MAX >> 20));
	return false;
}

static void work_run(struct work_item *item)
{
	struct v1_work *work = (struct v1_work *)((char *)item - offsetof(struct v1_work, item));

	work->result = work->run(work, &work->error);
}

static void work_done(struct work_item *item)
{
	struct v1_work *work = (struct v1_work *)((char *)item - offsetof(struct v1_work, item));
	struct api_call *call = v1_wait_end(&work->wait);

	if (call && work->result < 0) {
		if (work->error.fault == ATOLL_FAULT_NONE)
			error_set(&work->error, ATOLL_FAULT_HOST, -work->result, "do it");
		v1_fail(call, &work->error);
	} else if (call) {
		work->answer(work, call);
	}
	free_work(work);
}

void *v1_work_new(struct api_call *call, size_t size, const struct box *box)
{
	struct v1_work *work = v1_wait_new(call, size, box);

	if (!work)
		return NULL;
	if (box)
		memcpy(work->sandbox, box->sandbox, sizeof work->sandbox);
	work->item.run = work_run;
	work->item.done = work_done;
	work->item.owner = work->tenant = call->tenant;
	/* What is not run any more, because the daemon stops. */
	work->result = -ECANCELED;
	return work;
}

void v1_work_submit(struct v1_work *work)
{
	work_submit(daemon_work(work->wait.daemon), &work->item,
		    work->compares ? WORK_COMPARE : WORK_NOW);
}

bool v1_work_is_wanted(void *work)
{
	struct v1_work *own = work;

	return !atomic_load(&own->wait.is_gone);
}

int v1_scratch(const struct v1_work *work, struct atoll_error *err)
{
	return daemon_scratch(work->wait.daemon, err);
}

void v1_answer_file(struct api_call *call, const char *type, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		v1_refuse(call, 500, "internal", "look at the answer");
		close(fd);
		return;
	}
	call->status = 200;
	exchange_begin(call->exchange, 200, type, (uint64_t)st.st_size);
	exchange_send_file(call->exchange, fd, 0, (uint64_t)st.st_size);
}

void v1_answer_scratch(struct api_call *call, const char *type, int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0) {
		call->scratch = (uint64_t)st.st_blocks * 512;
		call->charged->scratch += call->scratch;
	}
	v1_answer_file(call, type, fd);
}

/* ---- the document, and the table ---- */

void v1_openapi(struct api_call *call)
{
	call->status = 200;
	exchange_answer(call->exchange, 200, "application/json", v1_openapi_text,
			strlen(v1_openapi_text));
}

void v1_root(struct api_call *call)
{
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct json json = {.out = &out};

	json_open(&json, NULL, '{');
	json_str(&json, "version", atoll_version());
	json_str(&json, "openapi", "/v1/openapi.json");
	json_str(&json, "tenant", call->tenant->name);
	json_close(&json, '}');
	api_answer(call, 200, &out);
}

/* clang-format off */
static const struct api_route routes[] = {
	{"GET", "/v1", v1_root},
	{"GET", "/v1/openapi.json", v1_openapi, API_OPEN},

	{"POST", "/v1/sandboxes", v1_sandbox_create},
	{"GET", "/v1/sandboxes", v1_sandboxes_list},
	{"DELETE", "/v1/sandboxes", v1_sandboxes_delete},
	{"POST", "/v1/sandboxes/bulk", v1_sandboxes_create},
	{"GET", "/v1/sandboxes/{id}", v1_sandbox_get},
	{"DELETE", "/v1/sandboxes/{id}", v1_sandbox_delete},
	{"POST", "/v1/sandboxes/{id}/pause", v1_sandbox_pause},
	{"POST", "/v1/sandboxes/{id}/resume", v1_sandbox_resume},
	{"POST", "/v1/sandboxes/{id}/timeout", v1_sandbox_timeout},
	{"POST", "/v1/sandboxes/{id}/fork", v1_fork},
	{"POST", "/v1/sandboxes/{id}/rollback", v1_rollback},
	{"GET", "/v1/sandboxes/{id}/checkpoints", v1_checkpoints_list},
	{"POST", "/v1/sandboxes/{id}/checkpoints", v1_checkpoint_make},
	{"GET", "/v1/sandboxes/{id}/diff", v1_diff},
	{"POST", "/v1/sandboxes/{id}/apply", v1_apply},
	{"POST", "/v1/sandboxes/{id}/undo", v1_undo},
	{"GET", "/v1/sandboxes/{id}/export", v1_export},
	{"GET", "/v1/sandboxes/{id}/log", v1_log},
	{"GET", "/v1/sandboxes/{id}/receipt", v1_receipt},

	{"POST", "/v1/sandboxes/{id}/steps", v1_step_start},
	{"GET", "/v1/sandboxes/{id}/steps", v1_steps_list},
	{"GET", "/v1/sandboxes/{id}/steps/{number}", v1_step_get},
	{"GET", "/v1/sandboxes/{id}/steps/{number}/output", v1_step_output},
	{"GET", "/v1/sandboxes/{id}/steps/{number}/events", v1_step_events},
	{"POST", "/v1/sandboxes/{id}/steps/{number}/stdin", v1_step_stdin},
	{"POST", "/v1/sandboxes/{id}/steps/{number}/signal", v1_step_signal},
	{"POST", "/v1/sandboxes/{id}/steps/{number}/resize", v1_step_resize},

	{"GET", "/v1/sandboxes/{id}/files", v1_file_get},
	{"PUT", "/v1/sandboxes/{id}/files", v1_file_put},
	{"DELETE", "/v1/sandboxes/{id}/files", v1_file_delete},
	{"GET", "/v1/sandboxes/{id}/files/stat", v1_file_stat},
	{"GET", "/v1/sandboxes/{id}/files/list", v1_file_list},
	{"POST", "/v1/sandboxes/{id}/files/move", v1_file_move},
	{"POST", "/v1/sandboxes/{id}/files/mkdir", v1_file_mkdir},

	{"POST", "/v1/jobs", v1_job_start},
	{"GET", "/v1/jobs", v1_jobs_list},
	{"GET", "/v1/jobs/{id}", v1_job_get},
	{"DELETE", "/v1/jobs/{id}", v1_job_cancel},
	{"GET", "/v1/jobs/{id}/events", v1_job_events},
	{"GET", "/v1/jobs/{id}/output", v1_job_output},
	{"GET", "/v1/jobs/{id}/receipt", v1_job_receipt},

	{"GET", "/v1/approvals", v1_approvals_list},
	{"POST", "/v1/approvals/{id}", v1_approval_answer},
	{"GET", "/v1/secrets", v1_secrets_list},
	{"GET", "/v1/secrets/{name}", v1_secret_get},
	{"PUT", "/v1/secrets/{name}", v1_secret_put},
	{"DELETE", "/v1/secrets/{name}", v1_secret_delete},
	{"GET", "/v1/usage", v1_usage},
	{"GET", "/v1/events", v1_events},
	{0},
};
/* clang-format on */

static void refuse_status(struct api_call *call, unsigned status, const char *message)
{
	refuse(call, status, status_cause(status), "", message);
}

static const struct api_route *const tables[] = {routes, NULL};

const struct api_protocol v1_protocol = {
	.name = "v1",
	.routes = tables,
	.open = v1_open,
	.close = v1_close,
	.is_path = is_path,
	.refuse = refuse_status,
};
