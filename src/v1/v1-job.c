/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-job.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "spec/spec.h"
#include "v1/v1-error.h"
#include "v1/v1-follow.h"
#include "v1/v1-form.h"
#include "v1/v1-output.h"
#include "v1/v1-record.h"
#include "v1/v1-results.h"
#include "v1/v1-sandbox.h"
#include "v1/v1-state.h"
#include "v1/v1-view.h"
#include "v1/v1-wait.h"

#include <errno.h>
#include <stdio.h>

/*
 * Jobs: a command and its contract in a sandbox of its own
 *
 * A job is a sandbox with a step, the command of the job. A label of the sandbox contains the
 * request, so a daemon that starts after a kill between the two can start the step. The step has a
 * key, so it is started once. After its end the sandbox stays for `keep` seconds, and the result
 * for days (v1-results.c).
 */

#define KEEP	  300
#define KEEP_MOST (7U * 86400)
#define PAGE	  100

static const char *const start_keys[] = {
	"contract", "template", "command",   "environment", "labels",	 "metadata", "internet",
	"cwd",	    "user",	"timeoutMs", "keep",	    "requestId", NULL};
static const char *const stored_keys[] = {"command",   "environment", "cwd", "user",
					  "timeoutMs", "keep",	      NULL};

/* ---- the command ---- */

/* Adds the command of the job file if the request has none. */
static void add_command(struct form *form, const char *contract)
{
	struct atoll_error err = {0};
	json_t *own = json_object_get(form->body, "command"), *words;
	struct spec *spec;

	if (own && !json_is_null(own))
		return;
	spec = contract ? spec_new("/", "/", &err) : NULL;
	if (spec && spec_load(spec, "contract", NULL, contract, strlen(contract), &err) < 0)
		form_bad(form, "%s", err.text);
	if (!spec || !spec->command || !spec->command[0]) {
		form_bad(form, "there is no 'command', neither beside the contract nor in it");
		spec_free(spec);
		return;
	}
	words = json_array();
	for (char **word = spec->command; *word; word++)
		json_array_append_new(words, json_string(*word));
	json_object_set_new(form->body, "command", words);
	spec_free(spec);
}

/* The members of the request that start the step, as the text of a label. */
static char *make_label(json_t *body, const char *trace)
{
	json_t *stored = json_object();
	char *text;

	for (const char *const *key = stored_keys; *key; key++) {
		json_t *value = json_object_get(body, *key);

		if (value)
			json_object_set(stored, *key, value);
	}
	/* Requests have no member "trace", so this cannot collide. */
	if (trace[0])
		json_object_set_new(stored, "trace", json_string(trace));
	text = json_dumps(stored, JSON_COMPACT);
	json_decref(stored);
	return text;
}

/* Reads the members about the step. False: there is a mistake. */
static bool read_process(struct form *form, struct process_request *ret)
{
	*ret = (struct process_request){
		.argv = form_words(form, "command"),
		.cwd = form_str(form, "cwd", NULL),
		.user = form_str(form, "user", NULL),
		.key = V1_JOB_KEY,
		.timeout_ms = form_uint(form, "timeoutMs", 0, 1, INT64_MAX / 1000000),
	};
	form_pairs(form, "environment", &ret->environment);
	form_uint(form, "keep", KEEP, 0, KEEP_MOST);
	return ret->argv && !form->is_bad;
}

static void process_done(struct process_request *request)
{
	form_free_pairs(&request->environment);
	free((void *)request->argv);
}

/* Not simply the first process: a template may have started some before. */
struct process *v1_job_step(const struct box *box)
{
	struct process *process = box->processes;

	while (process && !v1_is_job_step(process))
		process = process->next;
	return process;
}

bool v1_is_job_step(const struct process *process)
{
	return process->key && streq(process->key, V1_JOB_KEY) &&
	       v1_label(process->box, V1_LABEL_JOB);
}

/* ---- as JSON ---- */

/* A job as it is shown. */
struct job {
	const struct v1 *v1;
	const char *id;
	const char *labels;	 /* JSON; NULL: none */
	bool has_box;		 /* its sandbox is still there */
	struct process *process; /* its step; NULL: not started, or only in results.db */
	const char *view;	 /* of its step in results.db; NULL */
};

/* "running" is shown once the start is on disk: from then on no daemon starts the job again. */
static bool is_begun(const struct job *job)
{
	return !results_is_waiting(job->v1->results, job->process->box->id, job->process->number);
}

static void write_job(struct json *json, const struct job *job)
{
	struct process *process = job->process;
	bool has_ended = process ? v1_has_ended(job->v1, process) : job->view != NULL;

	json_open(json, NULL, '{');
	json_str(json, "id", job->id);
	json_str(json, "state",
		 has_ended		    ? "ended"
		 : process && is_begun(job) ? "running"
					    : "starting");
	json_raw(json, "labels", job->labels ? job->labels : "{}");
	json_str(json, "sandbox", job->has_box ? job->id : NULL);
	if (process)
		v1_write_step_as(json, "step", process, has_ended ? &process->end : NULL,
				 process->end_ms, false);
	else if (job->view)
		json_raw(json, "step", job->view);
	else
		json_none(json, "step");
	json_close(json, '}');
}

static void write_box_job(struct json *json, const struct v1 *v1, struct box *box)
{
	cleanup_buf struct buf labels = BUF_INIT(1 << 20);
	struct json inner = {.out = &labels};

	v1_write_pairs(&inner, NULL, &box->labels);
	write_job(json, &(struct job){.v1 = v1,
				      .id = box->id,
				      .labels = labels.data,
				      .has_box = true,
				      .process = v1_job_step(box)});
}

/* ---- start ---- */

struct starting {
	struct v1_wait wait;
	struct v1_making making; /* until the box exists, which has the request's id as a label */
	char *label;
};

static void ignore_end(struct box *box, const struct atoll_error *err, void *data)
{
	(void)box;
	(void)err;
	(void)data;
}

static void starting_free(struct starting *starting)
{
	free(starting->label);
	free(starting);
}

static void answer_job(struct api_call *call, unsigned status, struct box *box)
{
	cleanup_buf struct buf out = BUF_INIT(16 << 20);
	struct json json = {.out = &out};

	write_box_job(&json, v1_of(call), box);
	api_answer(call, status, &out);
}

static void on_started(struct process *process, const struct atoll_error *err, void *data)
{
	struct starting *starting = data;
	struct box *box = v1_wait_box(&starting->wait);
	struct api_call *call = v1_wait_end(&starting->wait);

	if (process) {
		if (call)
			answer_job(call, 201, process->box);
	} else {
		if (call)
			v1_fail(call, err);
		if (box)
			box_kill(box, BOX_CAUSE_HOST, ignore_end, NULL);
	}
	starting_free(starting);
}

static void start_in(struct box *box, struct starting *starting)
{
	struct atoll_error err = {0};
	json_t *body = json_loads(starting->label, 0, NULL);
	struct form form = {.body = body};
	struct process_request request;

	if (read_process(&form, &request)) {
		request.trace = json_string_value(json_object_get(body, "trace"));
		process_start(box, &request, on_started, starting);
	} else {
		error_set(&err, ATOLL_FAULT_REQUEST, 0, "%s", form.why);
		on_started(NULL, &err, starting);
	}
	process_done(&request);
	json_decref(body);
}

static void on_created(struct box *box, const struct atoll_error *err, void *data)
{
	struct starting *starting = data;
	struct api_call *call;

	v1_making_end(&starting->making);
	if (!box) {
		call = v1_wait_end(&starting->wait);
		if (call)
			v1_fail(call, err);
		starting_free(starting);
		return;
	}
	memcpy(starting->wait.box, box->id, sizeof box->id);
	start_in(box, starting);
}

static void add_label(struct form *form, struct box_pairs *labels, const char *value)
{
	struct box_pair *pair;

	if (!labels->items)
		labels->items = calloc(4, sizeof *labels->items);
	if (!labels->items || !value) {
		form_bad(form, "out of memory");
		return;
	}
	pair = &labels->items[labels->n++];
	pair->name = strdup(V1_LABEL_JOB);
	pair->value = strdup(value);
	if (!pair->name || !pair->value)
		form_bad(form, "out of memory");
}

static void start_job(struct api_call *call, struct v1_create *wanted, const char *request_id,
		      char **label)
{
	struct starting *starting = v1_wait_new(call, sizeof *starting, NULL);

	if (!starting)
		return;
	starting->label = take_ptr(*label);
	v1_making_begin(&starting->making, call, request_id);
	box_create(call->tenant, &wanted->request, on_created, starting);
}

static void read_start(struct api_call *call, json_t *body)
{
	struct form form = {.call = call, .body = body};
	struct process_request request;
	cleanup_free char *label = NULL;
	struct v1_create wanted;
	const char *request_id;
	struct box *box;

	form_known(&form, start_keys);
	v1_read_create(&form, &wanted);
	add_command(&form, wanted.contract);
	read_process(&form, &request);
	process_done(&request);
	/* No time-out: the sandbox ends after its command, by v1_job_ended(). */
	wanted.request.timeout_s = UINT64_MAX;
	label = make_label(body, call->trace);
	add_label(&form, &wanted.request.labels, label);
	request_id = form_str(&form, "requestId", NULL);
	if (!form_fails(&form)) {
		box = request_id ? v1_box_of_request(call->tenant, request_id) : NULL;
		if (box)
			answer_job(call, 200, box);
		else if (!v1_is_being_made(call, request_id))
			start_job(call, &wanted, request_id, &label);
	}
	v1_create_done(&wanted);
}

void v1_job_start(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, true, read_start);
}

/* ---- end, and start after a restart ---- */

void v1_job_ended(struct box *box)
{
	json_t *label = json_loads(v1_label(box, V1_LABEL_JOB), 0, NULL);
	json_t *value = json_object_get(label, "keep");
	uint64_t keep = json_is_integer(value) ? (uint64_t)json_integer_value(value) : KEEP;

	json_decref(label);
	box_set_timeout(box, keep > 0 ? keep : 1, false);
}

void v1_jobs_resume(struct v1 *v1)
{
	struct daemon *daemon = v1->api->daemon;
	struct result_step step;
	struct starting *starting;
	const char *label;

	for (struct box *box = box_next_any(daemon, NULL); box; box = box_next_any(daemon, box)) {
		label = v1_label(box, V1_LABEL_JOB);
		if (!label || box->state != BOX_RUNNING || v1_job_step(box))
			continue;
		if (results_find_key(v1->results, box->id, V1_JOB_KEY, &step)) {
			result_done(&step);
			v1_job_ended(box);
			continue;
		}
		starting = calloc(1, sizeof *starting);
		if (!starting)
			return;
		starting->wait.daemon = daemon;
		memcpy(starting->wait.box, box->id, sizeof box->id);
		starting->label = strdup(label);
		start_in(box, starting);
	}
}

/* ---- find ---- */

/* The box of the job; or NULL and the result of a job whose box has ended in `*ret`; or NULL, and
 * the call was answered. */
static struct box *find(struct api_call *call, struct result_step *ret, bool *ret_is_old)
{
	const char *id = api_parameter(call, 0);
	struct box *box = id ? box_find(call->tenant, id) : NULL;

	*ret_is_old = false;
	if (box && v1_job_step(box))
		return box;
	if (id && strlen(id) < BOX_ID_SIZE &&
	    results_find_key(v1_of(call)->results, id, V1_JOB_KEY, ret)) {
		if (ret->is_job && streq(ret->tenant, call->tenant->id)) {
			*ret_is_old = true;
			return NULL;
		}
		result_done(ret);
	}
	if (box && v1_label(box, V1_LABEL_JOB))
		v1_refuse(call, 409, "conflict", "job '%s' is being started; ask again", box->id);
	else
		v1_refuse(call, 404, "not-found", "there is no job '%.40s'", id ? id : "");
	return NULL;
}

static void write_old(struct json *json, struct daemon *daemon, const struct result_step *step)
{
	write_job(json, &(struct job){.id = step->box,
				      .labels = step->labels,
				      .has_box = box_find_any(daemon, step->box) != NULL,
				      .view = step->view});
}

void v1_job_get(struct api_call *call)
{
	cleanup_buf struct buf out = BUF_INIT(16 << 20);
	struct json json = {.out = &out};
	struct result_step step;
	bool is_old;
	struct box *box = find(call, &step, &is_old);

	if (box)
		answer_job(call, 200, box);
	if (!is_old)
		return;
	write_old(&json, call->api->daemon, &step);
	api_answer(call, 200, &out);
	result_done(&step);
}

void v1_job_events(struct api_call *call)
{
	struct result_step step;
	bool is_old;
	struct box *box = find(call, &step, &is_old);

	if (box)
		v1_follow(call, v1_job_step(box));
	if (!is_old)
		return;
	v1_follow_old(call, &step);
	result_done(&step);
}

void v1_job_output(struct api_call *call)
{
	struct result_step step;
	bool is_old;
	struct box *box = find(call, &step, &is_old);

	if (box)
		v1_output(call, v1_job_step(box));
	if (!is_old)
		return;
	v1_output_old(call, &step);
	result_done(&step);
}

void v1_job_receipt(struct api_call *call)
{
	struct result_step step;
	bool is_old;
	struct box *box = find(call, &step, &is_old);

	if (box)
		v1_record_receipt(call, box->sandbox);
	if (!is_old)
		return;
	v1_record_receipt(call, step.sandbox);
	result_done(&step);
}

/* For a job that has ended this only removes the sandbox; the result stays. */
void v1_job_cancel(struct api_call *call)
{
	struct result_step step;
	struct v1_wait *wait;
	bool is_old;
	struct box *box = find(call, &step, &is_old);

	if (is_old) {
		box = box_find(call->tenant, step.box);
		result_done(&step);
		if (!box)
			v1_done(call);
	}
	wait = box ? v1_wait_new(call, sizeof *wait, box) : NULL;
	if (wait)
		box_kill(box, BOX_CAUSE_KILLED, v1_on_killed, wait);
}

/* ---- list ---- */

struct job_list {
	struct json *json;
	struct api_call *call;
	int64_t last_ms;
};

static void list_old(const struct result_step *step, void *data)
{
	struct job_list *list = data;
	struct box *box = box_find(list->call->tenant, step->box);

	list->last_ms = step->start_ms;
	if (!box || !v1_job_step(box))
		write_old(list->json, list->call->api->daemon, step);
}

void v1_jobs_list(struct api_call *call)
{
	cleanup_buf struct buf out = BUF_INIT(64 << 20);
	struct json json = {.out = &out};
	struct job_list list = {.json = &json, .call = call};
	uint64_t limit, before;
	char next[32];
	size_t n;

	if (!v1_query_uint(call, "limit", PAGE, 1000, &limit) ||
	    !v1_query_uint(call, "after", INT64_MAX, INT64_MAX, &before))
		return;
	json_open(&json, NULL, '{');
	json_open(&json, "items", '[');
	/* Jobs that have a sandbox are on the first page. */
	for (struct box *box = box_next(call->tenant, NULL, true); box && before == INT64_MAX;
	     box = box_next(call->tenant, box, true)) {
		if (v1_job_step(box))
			write_box_job(&json, v1_of(call), box);
	}
	n = results_list_jobs(v1_of(call)->results, call->tenant->id, (int64_t)before,
			      limit ? limit : PAGE, list_old, &list);
	json_close(&json, ']');
	snprintf(next, sizeof next, "%lld", (long long)list.last_ms);
	json_str(&json, "next", n == limit ? next : NULL);
	json_close(&json, '}');
	api_answer(call, 200, &out);
}
