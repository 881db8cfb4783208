/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-results.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "v1/v1-job.h"
#include "v1/v1-sandbox.h"
#include "v1/v1-state.h"
#include "v1/v1-step.h"
#include "v1/v1-view.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Stores the results of steps and jobs in results.db
 *
 * box/ calls on_event() for each step that starts or ends, by /v1 or by E2B, and for each box that
 * ends.
 */

#define VIEW_MAX (8U << 20)

static void read_tail(struct process *process, enum process_stream stream, struct result_step *ret)
{
	uint64_t size = process_size(process, stream), first = process_first(process, stream);
	uint64_t at[PROCESS_STREAMS] = {UINT64_MAX, UINT64_MAX};
	struct process_reader reader = {0};
	size_t n = 0, got;
	char *data;

	ret->streams[stream].size = size;
	if (size - first > RESULTS_TAIL)
		first = size - RESULTS_TAIL;
	if (size == first)
		return;
	data = malloc(size - first);
	if (!data)
		return;
	at[stream] = first;
	process_attach(process, &reader, at);
	while (n < size - first &&
	       (got = process_read(&reader, stream, data + n, size - first - n)) > 0)
		n += got;
	process_detach(&reader);
	ret->streams[stream].data = data;
	ret->streams[stream].kept = n;
	/* Bytes that could not be read are missing at the end. */
	ret->streams[stream].size = first + n;
}

bool v1_has_ended(const struct v1 *v1, const struct process *process)
{
	return process->has_ended &&
	       !(process->number == 1 && v1_label(process->box, V1_LABEL_JOB) &&
		 results_is_waiting(v1->results, process->box->id, process->number));
}

static char *labels_of(const struct box *box)
{
	cleanup_buf struct buf out = BUF_INIT(VIEW_MAX);
	struct json json = {.out = &out};

	v1_write_pairs(&json, NULL, &box->labels);
	return buf_take(&out);
}

static void store(struct v1 *v1, struct process *process, const struct process_end *end,
		  int64_t end_ms)
{
	cleanup_buf struct buf out = BUF_INIT(VIEW_MAX);
	struct json json = {.out = &out};
	struct box *box = process->box;
	struct result_step step = {
		.number = process->number,
		.is_job = v1_is_job_step(process),
		.start_ms = process->start_ms,
		.end_ms = end_ms,
	};

	v1_write_step_as(&json, NULL, process, end, end_ms, false);
	snprintf(step.box, sizeof step.box, "%s", box->id);
	snprintf(step.key, sizeof step.key, "%s", process->key ? process->key : "");
	snprintf(step.tenant, sizeof step.tenant, "%s", box->tenant->id);
	snprintf(step.sandbox, sizeof step.sandbox, "%s", box->sandbox);
	step.view = buf_take(&out);
	step.labels = step.is_job ? labels_of(box) : NULL;
	read_tail(process, PROCESS_OUT, &step);
	read_tail(process, PROCESS_ERR, &step);
	results_add(v1->results, &step);
}

/* The box of a job ends before its command. */
static void store_cut_off(struct v1 *v1, struct box *box)
{
	struct process_end end = {.code = SIGKILL, .cause = box->cause};
	struct process *process = v1_job_step(box);

	if (!process || process->has_ended)
		return;
	snprintf(end.text, sizeof end.text, "its sandbox has ended: %s",
		 box_cause_name(box->cause));
	store(v1, process, &end, (int64_t)(clock_real_ns() / 1000000));
}

/* Stored when the command of a job starts: if the machine stops before the command ends, the next
 * daemon finds this result and does not start the job again. The real end replaces it. */
static void store_lost(struct v1 *v1, struct process *process)
{
	struct process_end end = {.code = SIGKILL, .cause = BOX_CAUSE_HOST};

	if (!v1_is_job_step(process) || process->has_ended)
		return;
	snprintf(end.text, sizeof end.text, "the machine was restarted while it ran");
	store(v1, process, &end, (int64_t)(clock_real_ns() / 1000000));
}

static void on_event(struct box_listener *listener, enum box_event event, struct box *box,
		     struct process *process)
{
	struct v1 *v1 = container_of(listener, struct v1, listener);

	if (event == PROCESS_ENDED) {
		store(v1, process, &process->end, process->end_ms);
		v1_step_ended(v1, process);
		if (v1_is_job_step(process))
			v1_job_ended(box);
	} else if (event == PROCESS_STARTED) {
		store_lost(v1, process);
	} else if (event == BOX_ENDED) {
		store_cut_off(v1, box);
		v1_steps_gone(v1, box);
		results_forget(v1->results, box->id);
	} else if (box_event_frees(event, box)) {
		v1_steps_gone(v1, box);
	}
}

int v1_open(struct api *api, const char *dir, void **ret, struct atoll_error *err)
{
	struct v1 *v1 = calloc(1, sizeof *v1);
	int r;

	if (!v1)
		return error_oom(err);
	v1->api = api;
	r = results_open(api->daemon, dir, &v1->results, err);
	if (r < 0) {
		free(v1);
		return r;
	}
	v1->listener = (struct box_listener){
		.daemon = api->daemon, .told = on_event, .wants_processes = true};
	box_listen(&v1->listener);
	results_clean(v1->results);
	v1_jobs_resume(v1);
	*ret = v1;
	return 0;
}

void v1_close(void *state)
{
	struct v1 *v1 = state;

	if (!v1)
		return;
	box_unlisten(&v1->listener);
	v1_steps_done(v1);
	results_close(v1->results);
	free(v1);
}
