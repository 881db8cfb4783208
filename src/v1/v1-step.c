/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-step.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "v1/v1-error.h"
#include "v1/v1-form.h"
#include "v1/v1-state.h"
#include "v1/v1-view.h"
#include "v1/v1-wait.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/*
 * Steps: start, get, list, signal, resize
 *
 * POST .../steps starts a step (read_start(), on_started()) and answers at once, or with "wait"
 * when the step has ended. v1-results.c reports the ends of steps and boxes.
 */

#define WAIT_MOST  3600
#define STEPS_PAGE 1000
#define VIEW_MAX   (8U << 20)
#define FIRST_NS   (10 * INT64_C(1000000000))

/* ---- find a step ---- */

static bool read_number(const char *text, uint64_t *ret)
{
	char *end;

	if (!text || text[0] < '1' || text[0] > '9' || strlen(text) > 18)
		return false;
	*ret = strtoull(text, &end, 10);
	return !*end;
}

struct process *v1_step(struct api_call *call, struct box **ret_box,
			void (*old)(struct api_call *call, const struct result_step *step))
{
	const char *text = api_parameter(call, 1);
	struct box *box = v1_box(call);
	struct process *process;
	struct result_step step;
	uint64_t number;

	if (!box)
		return NULL;
	*ret_box = box;
	if (!read_number(text, &number)) {
		v1_refuse(call, 404, "not-found", "there is no step '%.20s'", text ? text : "");
		return NULL;
	}
	process = process_find_number(box, number);
	if (process)
		return process;
	if (!results_find(v1_of(call)->results, box->id, number, &step)) {
		if (process_is_adopting(box))
			v1_refuse(call, 503, "host",
				  "the daemon was started again, and looks for "
				  "what runs; ask again");
		else
			v1_refuse(call, 404, "not-found",
				  "sandbox '%s' has no step %" PRIu64 " (any more)", box->id,
				  number);
		return NULL;
	}
	if (old)
		old(call, &step);
	else
		v1_refuse(call, 409, "conflict", "step %" PRIu64 " has ended", number);
	result_done(&step);
	return NULL;
}

static void answer_old(struct api_call *call, const struct result_step *step)
{
	cleanup_buf struct buf out = BUF_INIT(VIEW_MAX);

	buf_add_str(&out, step->view);
	api_answer(call, 200, &out);
}

static void answer_step(struct api_call *call, unsigned status, struct process *process,
			bool with_data)
{
	cleanup_buf struct buf out = BUF_INIT(VIEW_MAX);
	struct json json = {.out = &out};

	v1_write_step(&json, NULL, process, with_data);
	api_answer(call, status, &out);
}

void v1_step_get(struct api_call *call)
{
	struct box *box;
	struct process *process = v1_step(call, &box, answer_old);

	if (process)
		answer_step(call, 200, process, false);
}

/* ---- the first reader ---- */

/* Reads nothing, but makes a new step wait when its buffer is full. So a client that follows the
 * step within FIRST_NS gets the output from its first byte. */
struct first_reader {
	struct v1 *v1;
	struct process_reader reader;
	struct loop_timer timer;
	struct first_reader *next;
};

static void drop_first(struct first_reader *first)
{
	struct first_reader **at = &first->v1->first_readers;

	while (*at && *at != first)
		at = &(*at)->next;
	if (*at)
		*at = first->next;
	loop_disarm(daemon_loop(first->reader.process->box->daemon), &first->timer);
	process_detach(&first->reader);
	free(first);
}

void v1_step_is_read(struct v1 *v1, struct process *process)
{
	for (struct first_reader *at = v1->first_readers, *next; at; at = next) {
		next = at->next;
		if (at->reader.process == process)
			drop_first(at);
	}
}

void v1_steps_done(struct v1 *v1)
{
	for (struct first_reader *at = v1->first_readers, *next; at; at = next) {
		next = at->next;
		loop_disarm(v1->api->loop, &at->timer);
		free(at);
	}
	v1->first_readers = NULL;
}

static void on_first_late(struct loop_timer *timer)
{
	drop_first((struct first_reader *)((char *)timer - offsetof(struct first_reader, timer)));
}

static void answer_all(struct v1 *v1, struct process *process);

static void on_first_ready(struct process_reader *reader)
{
	struct first_reader *first = container_of(reader, struct first_reader, reader);
	struct process *process = reader->process;

	/* The answer cannot contain so much: the client has to read the output itself. */
	if (process_size(process, PROCESS_OUT) > V1_INLINE ||
	    process_size(process, PROCESS_ERR) > V1_INLINE)
		answer_all(first->v1, process);
}

static void attach_first(struct v1 *v1, struct process *process)
{
	const uint64_t at[PROCESS_STREAMS] = {0};
	struct first_reader *first;

	for (first = v1->first_readers; first; first = first->next) {
		if (first->reader.process == process)
			return; /* the same request a second time */
	}
	first = process->has_ended ? NULL : calloc(1, sizeof *first);
	if (!first)
		return;
	first->reader.ready = on_first_ready;
	first->reader.holds = true;
	first->timer.fire = on_first_late;
	first->v1 = v1;
	first->next = v1->first_readers;
	v1->first_readers = first;
	process_attach(process, &first->reader, at);
	loop_arm(daemon_loop(process->box->daemon), &first->timer, clock_monotonic_ns() + FIRST_NS);
}

/* ---- start ---- */

/* A request to start a step. With "wait" it is in v1->starts until the step ends or the time is
 * over. */
struct start {
	struct v1_wait wait;
	struct loop_timer timer;
	struct process *process; /* NULL: has not started */
	uint64_t wait_ms;
	struct v1 *v1;
	struct start *next;
};

static void free_start(struct start *start)
{
	for (struct start **at = &start->v1->starts; *at; at = &(*at)->next) {
		if (*at == start) {
			*at = start->next;
			break;
		}
	}
	loop_disarm(daemon_loop(start->wait.daemon), &start->timer);
	free(start);
}

static void answer_start(struct start *start)
{
	struct api_call *call = v1_wait_end(&start->wait);
	struct process *process = start->process;
	bool with_data = start->wait_ms > 0 && process->has_ended;

	free_start(start);
	if (call)
		answer_step(call, 201, process, with_data);
}

static void on_wait_over(struct loop_timer *timer)
{
	answer_start((struct start *)((char *)timer - offsetof(struct start, timer)));
}

static void answer_all(struct v1 *v1, struct process *process)
{
	for (struct start *at = v1->starts, *next; at; at = next) {
		next = at->next;
		if (at->process == process)
			answer_start(at);
	}
}

void v1_step_ended(struct v1 *v1, struct process *process)
{
	v1_step_is_read(v1, process);
	answer_all(v1, process);
}

void v1_steps_gone(struct v1 *v1, struct box *box)
{
	struct api_call *call;

	for (struct first_reader *first = v1->first_readers, *after; first; first = after) {
		after = first->next;
		if (first->reader.process->box == box)
			drop_first(first);
	}

	for (struct start *at = v1->starts, *next; at; at = next) {
		next = at->next;
		if (at->process->box != box)
			continue;
		call = v1_wait_end(&at->wait);
		free_start(at);
		if (call && box->state == BOX_PAUSED)
			v1_refuse(call, 409, "conflict",
				  "sandbox '%s' was paused without its memory meanwhile", box->id);
		else if (call)
			v1_refuse(call, 409, box_cause_name(box->cause),
				  "sandbox '%s' has ended meanwhile", box->id);
	}
}

/* The client went away: the step goes on. */
static void on_waiter_gone(struct api_call *call, bool is_broken)
{
	struct start *start = call->own;

	(void)is_broken;
	start->wait.call = NULL;
	if (start->process)
		free_start(start);
}

/* The exit status of a shell: 127 for a missing program, 126 for one that cannot be executed. */
static void fail_start(struct api_call *call, const struct atoll_error *err)
{
	bool is_missing = strstr(err->text, "No such file") != NULL;

	if (err->fault == ATOLL_FAULT_JOB)
		v1_refuse_with(call, 400, "request",
			       is_missing ? "\"exitStatus\":127" : "\"exitStatus\":126", "%s",
			       err->text);
	else
		v1_fail(call, err);
}

static void on_started(struct process *process, const struct atoll_error *err, void *data)
{
	struct start *start = data;
	struct api_call *call = start->wait.call;

	if (!call || !process) {
		call = v1_wait_end(&start->wait);
		if (call)
			fail_start(call, err);
		free_start(start);
		return;
	}
	start->process = process;
	attach_first(start->v1, process);
	if (start->wait_ms == 0 || process->has_ended) {
		answer_start(start);
		return;
	}
	start->next = start->v1->starts;
	start->v1->starts = start;
	start->timer.fire = on_wait_over;
	loop_arm(daemon_loop(start->wait.daemon), &start->timer,
		 clock_monotonic_ns() + (int64_t)start->wait_ms * 1000000);
}

static void read_terminal(struct form *form, struct process_request *request)
{
	static const char *const keys[] = {"columns", "rows", NULL};
	json_t *terminal = json_object_get(form->body, "terminal");
	struct form size = {.call = form->call, .body = terminal};

	if (!terminal || json_is_null(terminal) || json_is_false(terminal))
		return;
	request->has_terminal = true;
	request->columns = 80;
	request->rows = 24;
	if (json_is_true(terminal))
		return;
	if (!json_is_object(terminal)) {
		form_bad(form, "'terminal' has to be true, or {\"columns\": N, \"rows\": N}");
		return;
	}
	form_known(&size, keys);
	request->columns = (uint16_t)form_uint(&size, "columns", 80, 1, 10000);
	request->rows = (uint16_t)form_uint(&size, "rows", 24, 1, 10000);
	if (size.is_bad)
		form_bad(form, "'terminal': %s", size.why);
}

static void read_request(struct form *form, struct process_request *ret)
{
	*ret = (struct process_request){
		.argv = form_words(form, "command"),
		.cwd = form_str(form, "cwd", NULL),
		.user = form_str(form, "user", NULL),
		.key = form_str(form, "requestId", NULL),
		.has_stdin = form_bool(form, "stdin", false),
		.timeout_ms = form_uint(form, "timeoutMs", 0, 1, INT64_MAX / 1000000),
	};
	ret->trace = form->call->trace;
	form_pairs(form, "environment", &ret->environment);
	read_terminal(form, ret);
	if (!ret->argv)
		form_bad(form, "'command' is missing: a list of texts");
	if (ret->key && (!ret->key[0] || strlen(ret->key) > 63))
		form_bad(form, "'requestId' has to have 1 to 63 bytes");
}

/* A step with this key that is only in results.db is not run again: its result is the answer. */
static bool answer_known(struct api_call *call, struct box *box, const char *key)
{
	struct result_step step;

	if (!key || !results_find_key(v1_of(call)->results, box->id, key, &step))
		return false;
	if (process_find_number(box, step.number)) {
		result_done(&step);
		return false; /* process_start() finds it by its key, with its output */
	}
	answer_old(call, &step);
	result_done(&step);
	return true;
}

static void read_start(struct api_call *call, json_t *body)
{
	static const char *const keys[] = {"command",  "environment", "cwd",	   "user", "stdin",
					   "terminal", "timeoutMs",   "requestId", "wait", NULL};
	struct form form = {.call = call, .body = body};
	struct process_request request;
	struct start *start;
	uint64_t wait_s;
	struct box *box;

	form_known(&form, keys);
	read_request(&form, &request);
	wait_s = form_uint(&form, "wait", 0, 0, WAIT_MOST);
	if (!form_fails(&form) && (box = v1_running_box(call)) &&
	    !answer_known(call, box, request.key)) {
		start = v1_wait_new(call, sizeof *start, box);
		if (start) {
			start->v1 = v1_of(call);
			start->wait_ms = wait_s * 1000;
			call->over = on_waiter_gone;
			process_start(box, &request, on_started, start);
		}
	}
	form_free_pairs(&request.environment);
	free((void *)request.argv);
}

void v1_step_start(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, true, read_start);
}

/* ---- list ---- */

struct listing {
	struct json *json;
	struct box *box;
};

static void list_old(const struct result_step *step, void *data)
{
	struct listing *listing = data;

	if (!process_find_number(listing->box, step->number))
		json_raw(listing->json, NULL, step->view);
}

void v1_steps_list(struct api_call *call)
{
	cleanup_buf struct buf out = BUF_INIT(64 << 20);
	struct json json = {.out = &out};
	struct box *box = v1_box(call);
	struct listing listing = {.json = &json, .box = box};
	const char *state;

	if (!box)
		return;
	state = exchange_query(call->exchange, "state");
	if (state && !streq(state, "running") && !streq(state, "ended")) {
		v1_refuse(call, 400, "request", "'state' has to be 'running' or 'ended'");
		return;
	}
	json_open(&json, NULL, '{');
	json_open(&json, "items", '[');
	for (struct process *at = box->processes; at; at = at->next) {
		if (!state || streq(state, "ended") == at->has_ended)
			v1_write_step(&json, NULL, at, false);
	}
	if (!state || streq(state, "ended"))
		results_list(v1_of(call)->results, box->id, UINT64_MAX, STEPS_PAGE, list_old,
			     &listing);
	json_close(&json, ']');
	json_none(&json, "next");
	json_close(&json, '}');
	api_answer(call, 200, &out);
}

/* ---- signals, size ---- */

void v1_answer_change(struct api_call *call, int r)
{
	switch (r) {
	case 0:
		v1_done(call);
		break;
	case -ESRCH:
		v1_refuse(call, 409, "conflict", "the step has ended");
		break;
	case -EPIPE:
		v1_refuse(call, 409, "conflict",
			  "its standard input is closed, or it was started without one");
		break;
	case -ENOTTY:
		v1_refuse(call, 409, "conflict", "it has a terminal, or needs one for this");
		break;
	case -EAGAIN:
		v1_refuse(call, 429, "quota",
			  "it does not read its input, and 16 MiB wait already");
		break;
	default:
		v1_refuse(call, 503, "host", "%s", strerror(-r));
	}
}

static void read_signal(struct api_call *call, json_t *body)
{
	static const char *const keys[] = {"signal", NULL};
	struct form form = {.call = call, .body = body};
	const char *name = form_str(&form, "signal", "SIGTERM");
	int number = name ? v1_signal_number(name) : 0;
	struct process *process;
	struct box *box;

	form_known(&form, keys);
	if (number == 0)
		form_bad(&form, "'signal' has to be a signal's name: \"SIGTERM\", \"SIGINT\"");
	if (form_fails(&form))
		return;
	process = v1_step(call, &box, NULL);
	if (process)
		v1_answer_change(call, process_signal(process, number));
}

void v1_step_signal(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, false, read_signal);
}

static void read_resize(struct api_call *call, json_t *body)
{
	static const char *const keys[] = {"columns", "rows", NULL};
	struct form form = {.call = call, .body = body};
	uint64_t columns = form_uint(&form, "columns", 80, 1, 10000),
		 rows = form_uint(&form, "rows", 24, 1, 10000);
	struct process *process;
	struct box *box;

	form_known(&form, keys);
	if (form_fails(&form))
		return;
	process = v1_step(call, &box, NULL);
	if (process)
		v1_answer_change(
			call, process->has_ended
				      ? -ESRCH
				      : process_resize(process, (uint16_t)columns, (uint16_t)rows));
}

void v1_step_resize(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, true, read_resize);
}
