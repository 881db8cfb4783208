/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/event.h"
#include "box/results.h"
#include "v1/v1.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

/* Whatever ends is written down, by whomever it was started. */

#define VIEW_MAX (8U << 20)

/* The daemon has one; tests that need it open it as the daemon does. */
static struct results *results;
static struct box_listener listener;

struct results *v1_results(void)
{
	return results;
}

static void keep_tail(struct process *process, enum process_stream stream, struct result_step *ret)
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
	/* What could not be read is behind what is kept. */
	ret->streams[stream].size = first + n;
}

bool v1_has_ended(const struct process *process)
{
	return process->has_ended &&
	       !(process->number == 1 && v1_label(process->box, V1_LABEL_JOB) &&
		 results_is_waiting(results, process->box->id, process->number));
}

static char *labels_of(const struct box *box)
{
	cleanup_buf struct buf out = BUF_INIT(VIEW_MAX);
	struct json json = {.out = &out};

	v1_write_pairs(&json, NULL, &box->labels);
	return buf_take(&out);
}

static void keep(struct process *process, const struct process_end *end, int64_t end_ms)
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
	keep_tail(process, PROCESS_OUT, &step);
	keep_tail(process, PROCESS_ERR, &step);
	results_add(results, &step);
}

/* A job whose sandbox ends before it. */
static void keep_cut_off(struct box *box)
{
	struct process_end end = {.code = SIGKILL, .cause = box->cause};
	struct process *process = v1_job_step(box);

	if (!process || process->has_ended)
		return;
	snprintf(end.text, sizeof end.text, "its sandbox has ended: %s",
		 box_cause_name(box->cause));
	keep(process, &end, (int64_t)(clock_real_ns() / 1000000));
}

/* What is known of a job if neither it nor its holder is there any more: that it is not to be
 * started again. Its real end takes the place of this. */
static void keep_lost(struct process *process)
{
	struct process_end end = {.code = SIGKILL, .cause = BOX_CAUSE_HOST};

	if (!v1_is_job_step(process) || process->has_ended)
		return;
	snprintf(end.text, sizeof end.text, "the machine was restarted while it ran");
	keep(process, &end, (int64_t)(clock_real_ns() / 1000000));
}

static void on_event(struct box_listener *own, enum box_event event, struct box *box,
		     struct process *process)
{
	(void)own;
	if (event == PROCESS_ENDED) {
		keep(process, &process->end, process->end_ms);
		v1_step_ended(process);
		if (v1_is_job_step(process))
			v1_job_ended(box);
	} else if (event == PROCESS_STARTED) {
		keep_lost(process);
	} else if (event == BOX_ENDED) {
		keep_cut_off(box);
		v1_steps_gone(box);
		results_forget(results, box->id);
	} else if (box_event_frees(event, box)) {
		v1_steps_gone(box);
	}
}

int v1_open(struct api *api, const char *dir, void **ret, struct atoll_error *err)
{
	int r = results_open(api->daemon, dir, &results, err);

	if (r < 0)
		return r;
	listener = (struct box_listener){
		.daemon = api->daemon, .told = on_event, .wants_processes = true};
	box_listen(&listener);
	results_clean(results);
	v1_jobs_go_on(api);
	*ret = results;
	return 0;
}

void v1_close(void *state)
{
	if (!state)
		return;
	box_unlisten(&listener);
	results_close(results);
	results = NULL;
}
