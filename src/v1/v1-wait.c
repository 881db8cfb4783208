/* SPDX-License-Identifier: Apache-2.0 */

#include "v1/v1-wait.h"

#include "base/error.h"
#include "base/scope.h"
#include "v1/v1-error.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Requests that are answered later
 *
 * A request for box/ (struct v1_wait) or for a thread (struct v1_work) is answered by a callback.
 * The client may have gone before: then wait->call is NULL, and the callback only frees.
 */

void v1_done(struct api_call *call)
{
	api_answer_empty(call, 204);
}

/* ---- waiting for box/ ---- */

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
	/* The result if the daemon stops before a thread runs. */
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
