/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-checkpoint.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "v1/v1-error.h"
#include "v1/v1-form.h"
#include "v1/v1-state.h"
#include "v1/v1-view.h"
#include "v1/v1-wait.h"

#include <errno.h>
#include <stdio.h>

/* Checkpoints of a sandbox: make, list, rollback, fork. */

#define FORKS_MOST 256

static bool is_name(const char *name)
{
	return name[0] && strlen(name) < 64 && str_is_printable(name) && !strchr(name, '/') &&
	       name[0] != '.';
}

/* ---- make ---- */

struct checkpoint_work {
	struct v1_work work;
	char name[64], made[64];
	uint64_t ended;
};

static int make_checkpoint(struct v1_work *work, struct atoll_error *err)
{
	struct checkpoint_work *own = (struct checkpoint_work *)work;

	return atoll_sandbox_checkpoint(work->sandbox, own->name[0] ? own->name : NULL, own->made,
					err);
}

static void answer_checkpoint(struct v1_work *work, struct api_call *call)
{
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct json json = {.out = &out};

	json_open(&json, NULL, '{');
	json_str(&json, "name", ((struct checkpoint_work *)work)->made);
	json_close(&json, '}');
	api_answer(call, 201, &out);
}

/* A body with the name of a checkpoint, which may be optional. */
static void read_named(struct api_call *call, json_t *body, const char *key, bool is_needed,
		       const struct v1_work *kind)
{
	const char *const keys[] = {key, NULL};
	struct form form = {.call = call, .body = body};
	const char *name = form_str(&form, key, NULL);
	struct checkpoint_work *own;
	struct box *box;

	form_known(&form, keys);
	if (name ? !is_name(name) : is_needed)
		form_bad(&form, "'%s' has to be a checkpoint's name, of 1 to 63 bytes", key);
	if (form_fails(&form))
		return;
	box = v1_running_box(call);
	own = box ? v1_work_new(call, sizeof *own, box) : NULL;
	if (!own)
		return;
	snprintf(own->name, sizeof own->name, "%s", name ? name : "");
	own->work.run = kind->run;
	own->work.answer = kind->answer;
	v1_work_submit(&own->work);
}

static void read_checkpoint(struct api_call *call, json_t *body)
{
	read_named(call, body, "name", false,
		   &(struct v1_work){.run = make_checkpoint, .answer = answer_checkpoint});
}

void v1_checkpoint_make(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, false, read_checkpoint);
}

/* ---- roll back ---- */

static int roll_back(struct v1_work *work, struct atoll_error *err)
{
	struct checkpoint_work *own = (struct checkpoint_work *)work;

	return atoll_sandbox_rollback(work->sandbox, own->name, &own->ended, err);
}

static void answer_rollback(struct v1_work *work, struct api_call *call)
{
	struct checkpoint_work *own = (struct checkpoint_work *)work;
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct json json = {.out = &out};

	json_open(&json, NULL, '{');
	json_str(&json, "checkpoint", own->name);
	json_uint(&json, "endedProcesses", own->ended);
	json_close(&json, '}');
	api_answer(call, 200, &out);
}

static void read_rollback(struct api_call *call, json_t *body)
{
	read_named(call, body, "checkpoint", true,
		   &(struct v1_work){.run = roll_back, .answer = answer_rollback});
}

void v1_rollback(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, true, read_rollback);
}

/* ---- list ---- */

struct history_work {
	struct v1_work work;
	struct atoll_checkpoint *list;
	size_t n;
};

static int read_history(struct v1_work *work, struct atoll_error *err)
{
	struct history_work *own = (struct history_work *)work;

	return atoll_sandbox_history(work->sandbox, &own->list, &own->n, err);
}

static void answer_history(struct v1_work *work, struct api_call *call)
{
	struct history_work *own = (struct history_work *)work;
	cleanup_buf struct buf out = BUF_INIT(64 << 20);
	struct json json = {.out = &out};

	json_open(&json, NULL, '{');
	json_open(&json, "items", '[');
	for (size_t i = 0; i < own->n; i++) {
		json_open(&json, NULL, '{');
		json_str(&json, "name", own->list[i].name);
		json_uint(&json, "number", own->list[i].number);
		v1_write_time(&json, "madeAt", (int64_t)(own->list[i].time_ns / 1000000));
		json_bool(&json, "current", own->list[i].is_current);
		if (own->list[i].status >= 0)
			json_int(&json, "status", own->list[i].status);
		else
			json_none(&json, "status");
		json_str(&json, "command", own->list[i].command);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_none(&json, "next");
	json_close(&json, '}');
	api_answer(call, 200, &out);
}

static void free_history(struct v1_work *work)
{
	struct history_work *own = (struct history_work *)work;

	atoll_history_free(own->list, own->n);
}

void v1_checkpoints_list(struct api_call *call)
{
	struct box *box = v1_box(call);
	struct history_work *own = box ? v1_work_new(call, sizeof *own, box) : NULL;

	if (!own)
		return;
	own->work.run = read_history;
	own->work.answer = answer_history;
	own->work.free = free_history;
	v1_work_submit(&own->work);
}

/* ---- fork ---- */

static void ignore_end(struct box *box, const struct atoll_error *err, void *data)
{
	(void)box;
	(void)err;
	(void)data;
}

/* The client has gone and does not know the ids: end the forks. */
static void drop_forks(struct box_fork *forks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (forks[i].box)
			box_kill(forks[i].box, BOX_CAUSE_KILLED, ignore_end, NULL);
	}
}

static void on_forked(struct box_fork *forks, size_t n, const struct atoll_error *err, void *data)
{
	cleanup_buf struct buf out = BUF_INIT(16 << 20);
	struct json json = {.out = &out};
	struct v1_wait *wait = data;
	struct api_call *call = v1_wait_end(wait);

	free(wait);
	if (!call) {
		drop_forks(forks, n);
		return;
	}
	if (err && err->fault != ATOLL_FAULT_NONE) {
		v1_fail(call, err);
		return;
	}
	json_open(&json, NULL, '{');
	json_open(&json, "items", '[');
	for (size_t i = 0; i < n; i++) {
		json_open(&json, NULL, '{');
		if (forks[i].box) {
			v1_write_box(&json, "sandbox", forks[i].box, false);
			json_none(&json, "error");
		} else {
			json_none(&json, "sandbox");
			v1_write_error(&json, "error", v1_error_cause(&forks[i].error), "",
				       forks[i].error.text);
		}
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_close(&json, '}');
	api_answer(call, 201, &out);
}

static void read_fork(struct api_call *call, json_t *body)
{
	static const char *const keys[] = {"count", "timeout", NULL};
	struct form form = {.call = call, .body = body};
	uint64_t count = form_uint(&form, "count", 1, 1, FORKS_MOST),
		 timeout_s = form_uint(&form, "timeout", 300, 1, 30 * 86400);
	struct v1_wait *wait;
	struct box *box;

	form_known(&form, keys);
	if (form_fails(&form))
		return;
	box = v1_box(call);
	if (box && box_has_secrets(box)) {
		v1_refuse(call, 409, "conflict",
			  "sandbox '%s' has secrets, whose values are its own: it cannot be copied",
			  box->id);
		return;
	}
	wait = box ? v1_wait_new(call, sizeof *wait, box) : NULL;
	if (wait)
		box_fork(box, count, timeout_s, on_forked, wait);
}

void v1_fork(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, false, read_fork);
}
