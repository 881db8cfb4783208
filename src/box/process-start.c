/* SPDX-License-Identifier: Apache-2.0 */
#include "box/process-start.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/process.h"
#include "box/quota.h"
#include "box/template-start.h"
#include "box/work.h"

#include <atoll/step.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/*
 * How a process begins for the daemon
 *
 * A start is on its way from process_start() until the command's number inside is known. Where
 * nothing holds the sandbox yet it takes a turn on a thread. Finding one again after the daemon was
 * started anew is the same without the beginning.
 */

/* How soon and how long a holder that takes no more connections is asked again. */
#define AGAIN_NS     (20 * INT64_C(1000000))
#define AGAIN_MAX_NS (20 * INT64_C(1000000000))

struct start {
	struct work_item item;
	struct start *next;
	struct box *box;	   /* NULL: gone, and everybody has been told */
	struct tenant *counted_at; /* in its n_starting; NULL: not */
	char sandbox[ATOLL_ID_SIZE];
	struct loop *loop;
	struct atoll_step *step;
	struct loop_watch watch;
	struct loop_timer later; /* what is known at once is told later */
	struct atoll_error error;
	bool has_started_holder, is_working;
	int64_t until_ns; /* it is tried again; 0: it was not yet */
	uint32_t number;  /* of one that is found again */

	process_started *done; /* NULL: it is found again */
	void *data;
	struct adoption *adoption;

	char **argv, **environment;
	char *cwd, *user, *tag, *key;
	struct atoll_step_options options;
};

struct adoption {
	struct work_item item;
	struct box *box; /* NULL: gone */
	struct adoption *next;
	char sandbox[ATOLL_ID_SIZE];
	struct atoll_step_info *infos;
	size_t n, n_open;
	void (*done)(void *data);
	void *data;
};

/* On the loop's thread, as all of this. */
static struct start *starts;
static struct adoption *adoptions;

/* ---- a request of our own ---- */

static void free_texts(char **texts)
{
	for (size_t i = 0; texts && texts[i]; i++)
		free(texts[i]);
	free(texts);
}

static void free_start(struct start *start)
{
	struct start **at = &starts;

	while (*at && *at != start)
		at = &(*at)->next;
	if (*at)
		*at = start->next;
	if (start->counted_at)
		start->counted_at->n_starting--;
	loop_unwatch(start->loop, &start->watch);
	loop_disarm(start->loop, &start->later);
	atoll_step_detach(start->step);
	free_texts(start->argv);
	free_texts(start->environment);
	free(start->cwd);
	free(start->user);
	free(start->tag);
	free(start->key);
	free(start);
}

static char **copy_argv(char *const *argv)
{
	size_t n = 0;
	char **copy;

	while (argv[n])
		n++;
	copy = calloc(n + 1, sizeof *copy);
	for (size_t i = 0; copy && i < n; i++) {
		copy[i] = strdup(argv[i]);
		if (!copy[i]) {
			free_texts(copy);
			return NULL;
		}
	}
	return copy;
}

/* The box's, then the request's: a later one of the same name counts. `trace` comes first: what
 * somebody says himself wins. */
static char **join_pairs(const struct box_pairs *first, const struct box_pairs *second,
			 const char *trace)
{
	char **texts = calloc(first->n + second->n + 2, sizeof *texts);
	size_t n = 0;

	if (texts && trace && trace[0] && asprintf(&texts[n++], "TRACEPARENT=%s", trace) < 0) {
		free(texts);
		return NULL;
	}

	for (size_t i = 0; texts && i < first->n + second->n; i++) {
		const struct box_pair *pair =
			i < first->n ? &first->items[i] : &second->items[i - first->n];

		if (asprintf(&texts[n++], "%s=%s", pair->name, pair->value) < 0) {
			texts[n - 1] = NULL;
			free_texts(texts);
			return NULL;
		}
	}
	return texts;
}

static bool copy_text(const char *text, char **ret)
{
	*ret = text && text[0] ? strdup(text) : NULL;
	return *ret || !text || !text[0];
}

/* What the request leaves out the box's template may say. */
static bool copy_request(struct start *start, const struct process_request *request)
{
	const char *cwd = request->cwd ? request->cwd : template_setting(start->box, "workdir");
	const char *user = request->user ? request->user : template_setting(start->box, "user");

	start->argv = copy_argv(request->argv);
	start->environment =
		join_pairs(&start->box->environment, &request->environment, request->trace);
	if (!start->argv || !start->environment || !copy_text(cwd, &start->cwd) ||
	    !copy_text(user, &start->user) || !copy_text(request->tag, &start->tag) ||
	    !copy_text(request->key, &start->key))
		return false;
	start->options = (struct atoll_step_options){
		.argv = start->argv,
		.env = start->environment,
		.cwd = start->cwd,
		.user = start->user,
		.label = start->tag,
		.key = start->key,
		.has_stdin = request->has_stdin,
		.has_terminal = request->has_terminal,
		.columns = request->columns,
		.rows = request->rows,
		.timeout_ms = request->timeout_ms,
		.channel_fd = -1,
		.needs_holder = true,
	};
	return true;
}

/* ---- what became of it ---- */

/* Last of all: `start` may be gone afterwards, and so may the box. */
static void finish(struct start *start, struct process *process)
{
	process_started *done = start->done;
	const struct atoll_error error = start->error;
	struct adoption *adoption = start->adoption;
	void *data = start->data;

	free_start(start);
	if (done)
		done(process, &error, data);
	if (adoption && --adoption->n_open == 0 && adoption->box) {
		struct adoption **at = &adoptions;

		while (*at != adoption)
			at = &(*at)->next;
		*at = adoption->next;
		adoption->done(adoption->data);
		free(adoption);
	}
}

static void fire_later(struct loop_timer *timer)
{
	struct start *start = container_of(timer, struct start, later);

	/* The holder is being started meanwhile, and comes back to a start that is gone. */
	finish(start, NULL);
}

static void fail_later(struct start *start)
{
	if (!start->error.fault)
		error_set(&start->error, ATOLL_FAULT_BUG, EIO, "start a process");
	start->later.fire = fire_later;
	loop_arm(start->loop, &start->later, clock_monotonic_ns());
}

/* No such directory and no such program are the request's faults. */
static void read_refusal(struct start *start)
{
	const struct atoll_error *why = atoll_step_error(start->step);
	const char *cwd = start->cwd ? start->cwd : "";

	if (starts_with(why->text, "enter '"))
		error_set(&start->error, ATOLL_FAULT_REQUEST, 0, "cwd '%s' %s", cwd,
			  why->errnum == ENOENT ? "does not exist" : "cannot be entered");
	else
		start->error = *why;
	/* execve(2) says EAGAIN where the user has as many processes as there may be. */
	if (start->error.fault != ATOLL_FAULT_HOST && start->error.fault != ATOLL_FAULT_BUG &&
	    start->error.errnum != EAGAIN)
		start->error.errnum = EINVAL;
	if (!start->error.fault)
		start->error.fault = ATOLL_FAULT_REQUEST;
}

static bool has_not_started(const struct atoll_step_info *info)
{
	return info->state == ATOLL_STEP_ENDED && info->result &&
	       info->result->end == ATOLL_NOT_STARTED;
}

static void conclude(struct start *start)
{
	const struct atoll_step_info *info = atoll_step_info(start->step);
	struct process *process = process_find_number(start->box, info->number);

	loop_unwatch(start->loop, &start->watch);
	if (process) { /* by its key */
		finish(start, process);
		return;
	}
	if (has_not_started(info)) {
		read_refusal(start);
		finish(start, NULL);
		return;
	}
	process = process_make(start->box, start->step);
	if (process)
		start->step = NULL;
	else
		error_oom(&start->error);
	finish(start, process);
}

static void on_step(struct loop_watch *watch, uint32_t events)
{
	struct start *start = container_of(watch, struct start, watch);

	(void)events;
	if (atoll_step_move(start->step, &start->error) < 0) {
		finish(start, NULL);
		return;
	}
	if (atoll_step_info(start->step)->state != ATOLL_STEP_STARTING)
		conclude(start);
}

/* ---- a start ---- */

static void begin(struct start *start);
static void attach(struct start *start);

static void fire_again(struct loop_timer *timer)
{
	struct start *start = container_of(timer, struct start, later);

	if (start->adoption)
		attach(start);
	else
		begin(start);
}

/* To wait for the holder here would be to stop for everybody. */
static bool try_again(struct start *start, int r)
{
	const int64_t now_ns = clock_monotonic_ns();

	if (!start->until_ns)
		start->until_ns = now_ns + AGAIN_MAX_NS;
	if (r != -EAGAIN || now_ns > start->until_ns)
		return false;
	start->error = (struct atoll_error){0};
	start->later.fire = fire_again;
	return loop_arm(start->loop, &start->later, now_ns + AGAIN_NS) == 0;
}

static void run_holder(struct work_item *item)
{
	struct start *start = container_of(item, struct start, item);

	atoll_sandbox_start(start->sandbox, &start->error);
}

static void holder_done(struct work_item *item)
{
	struct start *start = container_of(item, struct start, item);

	start->is_working = false;
	if (!start->box) {
		free_start(start);
		return;
	}
	if (start->error.fault)
		fail_later(start);
	else
		begin(start);
}

static void watch_step(struct start *start)
{
	start->watch = (struct loop_watch){.fd = atoll_step_fd(start->step), .ready = on_step};
	if (loop_watch(start->loop, &start->watch, EPOLLIN) == 0)
		return;
	error_oom(&start->error);
	fail_later(start);
}

static void begin(struct start *start)
{
	int r = atoll_step_start(start->sandbox, &start->options, &start->step, &start->error);

	if (r == 0) {
		watch_step(start);
		return;
	}
	if (try_again(start, r))
		return;
	if (r != -ENOENT || start->has_started_holder) {
		fail_later(start);
		return;
	}
	start->has_started_holder = start->is_working = true;
	start->error = (struct atoll_error){0};
	start->item.run = run_holder;
	start->item.done = holder_done;
	start->item.owner = start->box->tenant;
	work_submit(daemon_work(start->box->daemon), &start->item, WORK_NOW);
}

static struct start *new_start(struct box *box)
{
	struct start *start = calloc(1, sizeof *start);

	if (!start)
		return NULL;
	start->box = box;
	start->loop = daemon_loop(box->daemon);
	start->watch.fd = -1;
	snprintf(start->sandbox, sizeof start->sandbox, "%s", box->sandbox);
	start->next = starts;
	starts = start;
	return start;
}

static bool is_tag_taken(struct box *box, const struct process_request *request)
{
	const struct process *process = request->tag ? process_find_tag(box, request->tag) : NULL;

	/* The same request once more has the same tag. */
	if (process && !process->has_ended &&
	    !(request->key && process->key && streq(request->key, process->key)))
		return true;
	for (const struct start *at = starts; at && request->tag; at = at->next) {
		if (at->box == box && at->tag && streq(at->tag, request->tag) &&
		    !(request->key && at->key && streq(request->key, at->key)))
			return true;
	}
	return false;
}

void process_start(struct box *box, const struct process_request *request, process_started *done,
		   void *data)
{
	struct start *start = new_start(box);
	char why[192];
	bool is_taken;

	if (!start) {
		/* There is not even room to say so later. */
		struct atoll_error error;

		error_oom(&error);
		done(NULL, &error, data);
		return;
	}
	is_taken = is_tag_taken(box, request);
	start->done = done;
	start->data = data;
	/* The budget is compared once a second; until its box is paused nothing begins in it. */
	if (tenant_is_spent(box->tenant, why, sizeof why) ||
	    tenant_has_no_step_left(box->tenant, why, sizeof why))
		quota_refuse(&start->error, ATOLL_FAULT_POLICY, EDQUOT, "%s", why);
	else if (is_taken)
		error_set(&start->error, ATOLL_FAULT_REQUEST, EEXIST,
			  "a process with tag '%s' runs already", request->tag);
	else if (!copy_request(start, request))
		error_oom(&start->error);
	if (start->error.fault) {
		fail_later(start);
		return;
	}
	start->counted_at = box->tenant;
	start->counted_at->n_starting++;
	begin(start);
}

void process_drop_starts(struct box *box)
{
	struct start *at = starts;
	struct atoll_error gone = {0};

	error_set(&gone, ATOLL_FAULT_REQUEST, ENOENT, "the sandbox is gone");
	while (at) {
		struct start *start = at;

		at = at->next;
		if (start->box != box)
			continue;
		start->box = NULL;
		if (start->is_working) { /* a thread has it, and writes to its error */
			process_started *done = start->done;

			start->done = NULL;
			done(NULL, &gone, start->data);
		} else {
			start->error = gone;
			finish(start, NULL);
		}
		at = starts; /* whoever was told may have done anything */
	}
	for (struct adoption **link = &adoptions; *link;) {
		struct adoption *adoption = *link;

		if (adoption->box != box) {
			link = &adoption->next;
			continue;
		}
		*link = adoption->next;
		adoption->box = NULL;
		adoption->done(adoption->data);
	}
}

/* ---- finding them again ---- */

static void run_list(struct work_item *item)
{
	struct adoption *adoption = container_of(item, struct adoption, item);
	struct atoll_error err;

	if (atoll_steps_list(adoption->sandbox, &adoption->infos, &adoption->n, &err) < 0)
		adoption->n = 0;
}

/* Also one that ended long ago: perhaps nobody has heard of it yet, and its result is kept
 * (results.h). */
static bool is_worth_it(const struct box *box, const struct atoll_step_info *info)
{
	return !process_find_number((struct box *)box, info->number);
}

static void attach(struct start *start)
{
	int r = atoll_step_attach(start->sandbox, start->number, &start->step, &start->error);

	if (r == 0)
		watch_step(start);
	else if (!try_again(start, r))
		fail_later(start);
}

static void find_again(struct adoption *adoption, const struct atoll_step_info *info)
{
	struct start *start = new_start(adoption->box);

	if (!start)
		return;
	start->adoption = adoption;
	start->number = info->number;
	adoption->n_open++;
	attach(start);
}

static void list_done(struct work_item *item)
{
	struct adoption *adoption = container_of(item, struct adoption, item), **at = &adoptions;

	for (size_t i = 0; adoption->box && i < adoption->n; i++) {
		if (is_worth_it(adoption->box, &adoption->infos[i]))
			find_again(adoption, &adoption->infos[i]);
	}
	free(adoption->infos);
	adoption->infos = NULL;
	if (adoption->n_open > 0)
		return;
	while (*at && *at != adoption)
		at = &(*at)->next;
	if (*at)
		*at = adoption->next;
	if (adoption->box)
		adoption->done(adoption->data);
	free(adoption);
}

bool process_is_adopting(const struct box *box)
{
	for (const struct adoption *at = adoptions; at; at = at->next) {
		if (at->box == box)
			return true;
	}
	return false;
}

void process_adopt(struct box *box, void (*done)(void *data), void *data)
{
	struct adoption *adoption = calloc(1, sizeof *adoption);

	if (!adoption) {
		done(data);
		return;
	}
	adoption->box = box;
	adoption->done = done;
	adoption->data = data;
	snprintf(adoption->sandbox, sizeof adoption->sandbox, "%s", box->sandbox);
	adoption->item.run = run_list;
	adoption->item.done = list_done;
	adoption->next = adoptions;
	adoptions = adoption;
	work_submit(daemon_work(box->daemon), &adoption->item, WORK_NOW);
}
