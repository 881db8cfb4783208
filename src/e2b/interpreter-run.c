/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/interpreter-run.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "e2b/interpreter-context.h"
#include "e2b/interpreter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Executions: the kernel has one at a time, the others of its context wait in a queue
 *
 * The lines of a kernel are "NUMBER JSON", in ASCII. They are not parsed as JSON, only sent to the
 * client of the execution with that number; other lines are dropped. When a client has gone, the
 * kernel is interrupted, and its lines are dropped until it reports the end of this execution.
 */

#define QUIET_NS   (5LL * 1000000000)  /* then a keepalive line is sent */
#define STUCK_NS   (60LL * 1000000000) /* a client that reads nothing for so long is cut */
#define WAITING	   (64U << 10)	       /* unsent bytes beyond which the kernel has to wait */
#define LINE_TYPE  "application/x-ndjson"
#define END_LINE   "{\"type\": \"end_of_execution\"}"
#define ALIVE_LINE "{\"type\": \"keepalive\"}\n"

static struct loop *loop_of(const struct run *run)
{
	return daemon_loop(run->context->interpreter->box->daemon);
}

/* ---- new and free ---- */

static void run_free(struct run *run)
{
	struct run **at = &run->context->runs;

	while (*at != run)
		at = &(*at)->next;
	*at = run->next;
	loop_disarm(loop_of(run), &run->quiet);
	if (run->call) {
		run->call->own = NULL;
		run->call->over = NULL;
		exchange_on_drained(run->call->exchange, NULL, NULL);
	}
	free(run->request);
	held_drop(&run->held);
	free(run);
}

static void on_tick(struct loop_timer *timer)
{
	struct run *run = (struct run *)((char *)timer - offsetof(struct run, quiet));
	int64_t now = clock_monotonic_ns();

	loop_arm(loop_of(run), timer, now + QUIET_NS);
	if (!run->call || !run->has_begun)
		return;
	if (exchange_waiting(run->call->exchange) == 0) {
		run->drained_ns = now;
		exchange_send(run->call->exchange, ALIVE_LINE, strlen(ALIVE_LINE));
	} else if (now - run->drained_ns > STUCK_NS) {
		exchange_cut(run->call->exchange); /* then run_over() is called */
	}
}

static void on_drained(struct exchange *exchange, void *own)
{
	struct run *run = own;

	(void)exchange;
	run->drained_ns = clock_monotonic_ns();
	process_go_on(&run->context->reader);
}

/* The exchange has ended: the client has gone, or has got everything. */
static void run_over(struct api_call *call, bool is_broken)
{
	struct run *run = call->own;
	struct context *context;

	(void)is_broken;
	if (!run)
		return;
	run->call = NULL;
	context = run->context;
	if (run->request) {
		run_free(run);
		return;
	}
	context_send(context, "interrupt", run->number);
	run_read(context); /* the kernel does not have to wait any more */
}

struct run *run_new(struct context *context, struct api_call *call, uint64_t number, char *request,
		    size_t size)
{
	struct run *run = calloc(1, sizeof *run), **last = &context->runs;

	if (!run || !held_set(&run->held, context->interpreter->box->tenant, size)) {
		free(run);
		return NULL;
	}
	*run = (struct run){.held = run->held, .context = context, .call = call, .number = number};
	run->request = request;
	run->size = size;
	run->quiet.fire = on_tick;
	call->own = run;
	call->over = run_over;
	while (*last)
		last = &(*last)->next;
	*last = run;
	run->drained_ns = clock_monotonic_ns();
	loop_arm(loop_of(run), &run->quiet, run->drained_ns + QUIET_NS);
	return run;
}

size_t run_count(const struct context *context)
{
	size_t n = 0;

	for (const struct run *run = context->runs; run; run = run->next)
		n++;
	return n;
}

/* ---- answers ---- */

/* Sends the head of the answer at once, also to an execution that waits in the queue. */
static void begin(struct run *run)
{
	if (run->has_begun || !run->call)
		return;
	run->has_begun = true;
	run->call->status = 200;
	exchange_on_drained(run->call->exchange, on_drained, run);
	exchange_begin(run->call->exchange, 200, LINE_TYPE, UINT64_MAX);
}

static void finish(struct run *run)
{
	struct api_call *call = run->call;

	run_free(run);
	if (call)
		exchange_end(call->exchange);
}

/* The execution fails. */
static void fail(struct run *run, unsigned status, const char *why)
{
	struct api_call *call = run->call;
	cleanup_buf struct buf out = BUF_INIT(8192);
	struct json json = {&out};

	if (!call || !run->has_begun) {
		run_free(run);
		if (call)
			interpreter_answer_text(call, status, "%s", why);
		return;
	}
	json_open(&json, NULL, '{');
	json_str(&json, "type", "error");
	json_str(&json, "name", "KernelDied");
	json_str(&json, "value", why);
	json_str(&json, "traceback", "");
	json_close(&json, '}');
	buf_add_str(&out, "\n" END_LINE "\n");
	if (buf_error(&out) == 0)
		exchange_send(call->exchange, out.data, out.used);
	finish(run);
}

void run_fail_all(struct context *context, unsigned status, const char *why)
{
	while (context->runs)
		fail(context->runs, status, why);
}

void run_cut_all(struct context *context)
{
	while (context->runs) {
		struct api_call *call = context->runs->call;

		run_free(context->runs);
		if (call)
			exchange_cut(call->exchange);
	}
}

/* ---- to the kernel ---- */

void run_next(struct context *context)
{
	struct run *run;

	for (run = context->runs; run; run = run->next)
		begin(run);
	run = context->runs;
	if (!run || context->sync || !run->request || !context_lives(context))
		return;
	if (process_write(context->reader.process, run->request, run->size) < 0) {
		fail(run, 500, "the kernel does not read its input any more");
		return;
	}
	free(take_ptr(run->request));
	held_drop(&run->held);
}

void run_kernel_gone(struct context *context, const char *why)
{
	char text[320];

	process_detach(&context->reader);
	context->is_killed = false;
	snprintf(text, sizeof text,
		 "the kernel has ended: %s; what it knew is lost, the next execution has a new one",
		 why);
	if (context->runs && !context->runs->request)
		fail(context->runs, 500, text);
	if (context->runs || context->waits)
		context_start(context);
}

/* ---- from the kernel ---- */

static bool is_plain(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (text[i] < ' ' || text[i] > '~')
			return false;
	}
	return true;
}

/* `line` ends with its line feed. */
static void handle_line(struct context *context, char *line, size_t size)
{
	struct run *run = context->runs;
	char *text = NULL;
	uint64_t number;

	if (size < 4 || line[0] < '0' || line[0] > '9' || !is_plain(line, size - 1))
		return;
	number = strtoull(line, &text, 10);
	if (*text++ != ' ' || *text != '{')
		return;
	size -= (size_t)(text - line);
	if (context->sync) {
		if (number == context->sync) {
			context->sync = 0;
			run_next(context);
		}
		return;
	}
	if (!run || run->request || run->number != number)
		return;
	if (run->call)
		exchange_send(run->call->exchange, text, size);
	if (size == strlen(END_LINE) + 1 && memcmp(text, END_LINE, size - 1) == 0) {
		finish(run);
		run_next(context);
	} else if (run->call) {
		loop_arm(loop_of(run), &run->quiet, clock_monotonic_ns() + QUIET_NS);
	}
}

/* Handles complete lines; the beginning of the next one stays in the buffer. */
static void handle_lines(struct context *context)
{
	struct buf *buf = &context->line;
	size_t at = 0;

	while (at < buf->used) {
		char *line = buf->data + at, *end = memchr(line, '\n', buf->used - at);

		if (!end)
			break;
		at += (size_t)(end - line) + 1;
		if (context->is_skipping)
			context->is_skipping = false;
		else
			handle_line(context, line, (size_t)(end - line) + 1);
	}
	if (at > 0)
		memmove(buf->data, buf->data + at, buf->used - at);
	buf->used -= at;
	if (buf->used > INTERPRETER_LINE) {
		buf->used = 0;
		context->is_skipping = true;
	}
	/* A picture makes a long line: free the memory after it. */
	if (buf->used == 0 && buf->room > (256U << 10))
		buf_done(buf), *buf = (struct buf)BUF_INIT(INTERPRETER_LINE * 2);
}

static bool has_to_wait(const struct context *context)
{
	const struct run *run = context->runs;

	return run && run->call && exchange_waiting(run->call->exchange) > WAITING;
}

void run_read(struct context *context)
{
	char data[64U << 10];
	size_t n, all;

	/* Sending may end an exchange, which calls this function again. */
	if (context->is_reading || !context->reader.process)
		return;
	context->is_reading = true;
	/* stderr of the kernel is dropped. */
	all = process_read(&context->reader, PROCESS_ERR, data, sizeof data);
	n = has_to_wait(context) ? 0
				 : process_read(&context->reader, PROCESS_OUT, data, sizeof data);
	if (n > 0) {
		buf_add(&context->line, data, n);
		if (buf_error(&context->line) < 0) {
			buf_done(&context->line);
			context->line = (struct buf)BUF_INIT(INTERPRETER_LINE * 2);
			context->is_skipping = true;
		}
		handle_lines(context);
	}
	/* The next piece is read in another round of the lane. */
	if (all + n > 0)
		process_go_on(&context->reader);
	context->is_reading = false;
	if (process_is_read(&context->reader))
		run_kernel_gone(context, context->reader.process->end.text);
}
