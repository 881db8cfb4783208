/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/interpreter-context.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/str.h"
#include "e2b/e2b-protocol.h"
#include "e2b/interpreter-run.h"
#include "e2b/interpreter.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/*
 * Contexts and their kernels
 *
 * A kernel's process is found again by its tag, "atoll:kernel:ID:LANGUAGE:NUMBER". The number makes
 * the tag unique while an older kernel of the context is being killed. Clients can set tags, too:
 * so a process counts as a kernel only if its command is a kernel's. A process that imitates both
 * deceives only its own tenant.
 *
 * context_start() asks box/ for a process; on_kernel_started() gets it and runs the queue.
 */

#define KERNEL	   "/run/atoll/kernels/kernel.py"
#define TAG_PREFIX "atoll:kernel:"
#define HOME	   "/home/user"

static const struct {
	const char *name, *language;
} languages[] = {
	{"python", "python"},	      {"javascript", "javascript"}, {"js", "javascript"},
	{"typescript", "typescript"}, {"ts", "typescript"},	    {"bash", "bash"},
};

const char *interpreter_language(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++) {
		if (streq(languages[i].name, name))
			return languages[i].language;
	}
	return NULL;
}

uint64_t context_number(void)
{
	static uint64_t last;

	/* Larger than all numbers of earlier daemons: a kernel may still send lines with those. */
	if (last == 0)
		last = clock_real_ns();
	return ++last;
}

/* ---- the list of contexts ---- */

struct context *context_find(struct interpreter *interpreter, const char *id)
{
	struct context *context = interpreter->contexts;

	while (context && !streq(context->id, id))
		context = context->next;
	return context;
}

static void on_kernel_output(struct process_reader *reader)
{
	struct context *context =
		(struct context *)((char *)reader - offsetof(struct context, reader));

	run_read(context);
}

static void random_id(char ret[40])
{
	unsigned char bytes[16];

	if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
		abort(); /* getrandom(2) does not fail for 16 bytes */
	for (size_t i = 0, at = 0; i < sizeof bytes; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			ret[at++] = '-';
		at += (size_t)snprintf(ret + at, 40 - at, "%02x", bytes[i]);
	}
}

struct context *context_new(struct interpreter *interpreter, const char *id, const char *language,
			    const char *cwd)
{
	struct context *context = calloc(1, sizeof *context), **last = &interpreter->contexts;

	if (!context)
		return NULL;
	context->interpreter = interpreter;
	context->language = language;
	context->line = (struct buf)BUF_INIT(INTERPRETER_LINE * 2);
	context->reader.ready = on_kernel_output;
	context->reader.holds = true;
	if (id)
		snprintf(context->id, sizeof context->id, "%s", id);
	else
		random_id(context->id);
	context->cwd = strdup(cwd ? cwd : HOME);
	if (!context->cwd) {
		free(context);
		return NULL;
	}
	while (*last)
		last = &(*last)->next;
	*last = context;
	return context;
}

struct context *context_default(struct interpreter *interpreter, const char *language)
{
	struct context *context = context_find(interpreter, language);

	if (!context) {
		context = context_new(interpreter, language, language, NULL);
		if (context)
			context->is_default = true;
	}
	return context;
}

static void context_free(struct context *context)
{
	struct context **at = &context->interpreter->contexts;

	while (*at != context)
		at = &(*at)->next;
	*at = context->next;
	process_detach(&context->reader);
	buf_done(&context->line);
	free(context->cwd);
	free(context);
}

bool context_lives(const struct context *context)
{
	return context->reader.process && !context->is_killed;
}

/* ---- kernels of an earlier daemon ---- */

static bool is_kernel(const struct process *process)
{
	return process->tag && starts_with(process->tag, TAG_PREFIX) && process->argv &&
	       process->argv[0] && process->argv[1] && process->argv[2] &&
	       streq(process->argv[2], KERNEL);
}

/* "atoll:kernel:ID:LANGUAGE:NUMBER" */
static bool read_tag(const char *tag, char ret_id[40], const char **ret_language)
{
	const char *id = tag + strlen(TAG_PREFIX), *colon = strchr(id, ':');
	char language[16];

	if (!colon || colon == id || colon - id >= 40)
		return false;
	snprintf(ret_id, 40, "%.*s", (int)(colon - id), id);
	snprintf(language, sizeof language, "%.*s", (int)strcspn(colon + 1, ":"), colon + 1);
	*ret_language = interpreter_language(language);
	return *ret_language;
}

static void attach(struct context *context, struct process *process, bool is_new)
{
	uint64_t at[PROCESS_STREAMS] = {0, 0};

	if (!is_new) {
		for (int i = 0; i < PROCESS_STREAMS; i++)
			at[i] = process_size(process, (enum process_stream)i);
	}
	process_attach(process, &context->reader, at);
	if (!is_new) {
		/* The output may be in the middle of a line, of an execution whose client has
		 * gone. */
		context->sync = context_number();
		context_send(context, "sync", context->sync);
	}
}

static void adopt(struct interpreter *interpreter, struct process *process)
{
	struct context *context;
	const char *language;
	char id[40];

	if (process->has_ended || !is_kernel(process) || !read_tag(process->tag, id, &language) ||
	    context_find(interpreter, id))
		return;
	context = context_new(interpreter, id, language, process->cwd);
	if (!context)
		return;
	context->is_default = streq(id, language);
	attach(context, process, false);
}

/* By number, in the order of their creation: the list of processes is not sorted. */
static void adopt_all(struct interpreter *interpreter)
{
	uint64_t last = 0;

	for (size_t n = 0; n < INTERPRETER_CONTEXTS; n++) {
		struct process *next = NULL;

		for (struct process *at = interpreter->box->processes; at; at = at->next) {
			if (at->number > last && is_kernel(at) &&
			    (!next || at->number < next->number))
				next = at;
		}
		if (!next)
			return;
		last = next->number;
		adopt(interpreter, next);
	}
}

static struct api_call *end_waiting(struct context *context)
{
	struct api_call *call = context->waits;

	context->waits = NULL;
	if (call) {
		call->own = NULL;
		call->over = NULL;
	}
	return call;
}

/* The box ends or is paused: kernels of a paused box are found again when it is resumed. */
static void box_gone(struct box *box, void *data)
{
	struct interpreter *interpreter = data, **at = &interpreter->e2b->interpreters;

	(void)box;
	while (*at != interpreter)
		at = &(*at)->next;
	*at = interpreter->next;
	while (interpreter->contexts) {
		struct context *context = interpreter->contexts;
		struct api_call *call = end_waiting(context);

		if (call)
			exchange_cut(call->exchange);
		run_cut_all(context);
		context_free(context);
	}
	free(interpreter);
}

static struct interpreter *find_interpreter(const struct e2b *e2b, const struct box *box)
{
	struct interpreter *interpreter = e2b->interpreters;

	while (interpreter && interpreter->box != box)
		interpreter = interpreter->next;
	return interpreter;
}

struct interpreter *interpreter_of(struct e2b *e2b, struct box *box)
{
	struct interpreter *interpreter = find_interpreter(e2b, box);

	if (interpreter)
		return interpreter;
	interpreter = calloc(1, sizeof *interpreter);
	if (!interpreter)
		return NULL;
	interpreter->box = box;
	interpreter->e2b = e2b;
	interpreter->next = e2b->interpreters;
	e2b->interpreters = interpreter;
	interpreter->gone = box_on_gone(box, box_gone, interpreter);
	adopt_all(interpreter);
	/* These contexts always exist; their kernels are started on demand. */
	if (!context_default(interpreter, "python") || !context_default(interpreter, "javascript"))
		return NULL;
	return interpreter;
}

/* ---- kernels ---- */

/* The box or the context may end before on_kernel_started() is called. */
struct start {
	struct e2b *e2b;
	struct daemon *daemon;
	char box[BOX_ID_SIZE], context[40];
};

static void answer_waiting(struct context *context, const struct atoll_error *err)
{
	struct api_call *call = end_waiting(context);

	if (!call)
		return;
	if (err)
		interpreter_answer_text(call, err->fault == ATOLL_FAULT_REQUEST ? 400 : 500, "%s",
					err->text);
	else if (http_slice_is(exchange_head(call->exchange)->method, "POST") &&
		 !exchange_segment(call->exchange, 1))
		interpreter_answer_context(call, context);
	else
		interpreter_answer_null(call);
}

static void kernel_failed(struct context *context, const struct atoll_error *err)
{
	bool was_asked_for = context->waits;

	answer_waiting(context, err);
	run_fail_all(context, 500, err->text);
	if (was_asked_for && !context->is_default)
		context_free(context);
}

static void on_kernel_started(struct process *process, const struct atoll_error *err, void *data)
{
	struct start *start = data;
	struct box *box = box_find_any(start->daemon, start->box);
	struct interpreter *interpreter = find_interpreter(start->e2b, box);
	struct context *context;

	context = interpreter ? context_find(interpreter, start->context) : NULL;
	free(start);
	if (!context || !context->is_starting) {
		if (process)
			process_signal(process, SIGKILL);
		return;
	}
	context->is_starting = false;
	if (!process) {
		kernel_failed(context, err);
		return;
	}
	context->is_killed = false;
	attach(context, process, true);
	answer_waiting(context, NULL);
	run_next(context);
}

void context_start(struct context *context)
{
	struct box *box = context->interpreter->box;
	char language[16], tag[96];
	char *argv[] = {(char *)"python3", (char *)"-B", (char *)KERNEL, language, NULL};
	struct process_request request = {
		.argv = argv, .cwd = context->cwd, .tag = tag, .has_stdin = true};
	struct start *start;

	if (context->is_starting || context->reader.process)
		return;
	start = calloc(1, sizeof *start);
	if (!start) {
		run_fail_all(context, 500, "out of memory");
		return;
	}
	start->e2b = context->interpreter->e2b;
	start->daemon = box->daemon;
	memcpy(start->box, box->id, sizeof start->box);
	memcpy(start->context, context->id, sizeof start->context);
	snprintf(language, sizeof language, "%s", context->language);
	snprintf(tag, sizeof tag, TAG_PREFIX "%s:%s:%llu", context->id, context->language,
		 (unsigned long long)context_number());
	context->is_starting = true;
	context->line.used = 0;
	context->is_skipping = false;
	context->sync = 0;
	process_start(box, &request, on_kernel_started, start);
}

void context_send(struct context *context, const char *op, uint64_t number)
{
	char line[96];
	int n = snprintf(line, sizeof line, "{\"op\":\"%s\",\"id\":%llu}\n", op,
			 (unsigned long long)number);

	if (context->reader.process)
		process_write(context->reader.process, line, (size_t)n);
}

static void on_waiting_over(struct api_call *call, bool is_broken)
{
	struct context *context = call->own;

	(void)is_broken;
	if (context && context->waits == call)
		context->waits = NULL;
}

void context_wait(struct context *context, struct api_call *call)
{
	context->waits = call;
	call->own = context;
	call->over = on_waiting_over;
}

void context_restart(struct context *context, struct api_call *call)
{
	if (!context->reader.process) {
		/* There is no kernel, or one that has got no execution yet. */
		interpreter_answer_null(call);
		return;
	}
	context_wait(context, call);
	context->is_killed = true;
	process_signal(context->reader.process, SIGKILL);
}

void context_remove(struct context *context)
{
	struct api_call *call = end_waiting(context);

	if (context->reader.process)
		process_signal(context->reader.process, SIGKILL);
	if (call)
		interpreter_answer_text(call, 404, "Context %s not found", context->id);
	run_fail_all(context, 404, "the context was removed");
	context_free(context);
}
