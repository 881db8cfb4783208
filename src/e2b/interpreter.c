/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/interpreter.h"

#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "e2b/e2b-protocol.h"
#include "e2b/interpreter-context.h"
#include "e2b/interpreter-run.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Requests to the code interpreter
 *
 * GET /health, POST /execute, and /contexts: list, make, restart, remove. The box is looked up
 * again after a body was read, because it may have ended.
 */

#define ANSWER_MAX (1U << 20)
#define CWD_MAX	   4096

/* ---- answers ---- */

void interpreter_answer_text(struct api_call *call, unsigned status, const char *format, ...)
{
	char text[1024];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	call->status = status;
	exchange_answer(call->exchange, status, "text/plain; charset=utf-8", text, strlen(text));
}

void interpreter_answer_null(struct api_call *call)
{
	call->status = 200;
	exchange_answer(call->exchange, 200, "application/json", "null", 4);
}

static void write_context(struct json *json, const struct context *context)
{
	json_open(json, NULL, '{');
	json_str(json, "id", context->id);
	json_str(json, "language", context->language);
	json_str(json, "cwd", context->cwd);
	json_close(json, '}');
}

void interpreter_answer_context(struct api_call *call, const struct context *context)
{
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {&out};

	write_context(&json, context);
	api_answer(call, 200, &out);
}

static void answer_contexts(struct api_call *call, struct interpreter *interpreter)
{
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {&out};

	json_open(&json, NULL, '[');
	for (struct context *at = interpreter->contexts; at; at = at->next)
		write_context(&json, at);
	json_close(&json, ']');
	api_answer(call, 200, &out);
}

/* ---- bodies ---- */

/* The box may end while the body is read: it is looked up again after that. */
static void wait_for_body(struct api_call *call, struct box *box,
			  void (*read)(struct api_call *call, json_t *body))
{
	call->box = NULL;
	call->own = strdup(box->id);
	if (!call->own)
		interpreter_answer_text(call, 500, "out of memory");
	else
		api_read_json(call, INTERPRETER_LINE, false, read);
}

static void forget_id(struct api_call *call, bool is_broken)
{
	(void)is_broken;
	free(take_ptr(call->own));
}

static struct interpreter *find_interpreter(struct api_call *call)
{
	struct box *box = box_find_any(call->api->daemon, call->own);
	struct interpreter *interpreter = NULL;

	forget_id(call, false);
	call->over = NULL;
	if (!box || box->state != BOX_RUNNING) {
		interpreter_answer_text(call, 502, "The sandbox was not found");
		return NULL;
	}
	interpreter = interpreter_of(e2b_of(call), box);
	if (!interpreter)
		interpreter_answer_text(call, 500, "out of memory");
	return interpreter;
}

/* A string member; NULL if it is missing. False: it has another type, and the call was answered. */
static bool get_text(struct api_call *call, json_t *body, const char *name, const char **ret)
{
	json_t *value = json_object_get(body, name);

	*ret = json_string_value(value);
	if (*ret || !value || json_is_null(value))
		return true;
	interpreter_answer_text(call, 422, "%s: not a string", name);
	return false;
}

static const char *get_language(struct api_call *call, const char *name)
{
	const char *language = interpreter_language(name ? name : "python");

	if (!language)
		interpreter_answer_text(
			call, 400,
			"There is no kernel for the language '%.40s' here, only for python, "
			"javascript, typescript and bash",
			name);
	return language;
}

/* ---- POST /execute ---- */

static bool are_texts(json_t *object)
{
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value)
	{
		if (!json_is_string(value) || !name[0] || strchr(name, '='))
			return false;
	}
	return true;
}

static struct context *get_context(struct api_call *call, struct interpreter *interpreter,
				   json_t *body)
{
	const char *id, *name, *language;
	struct context *context = NULL;

	if (!get_text(call, body, "context_id", &id) || !get_text(call, body, "language", &name))
		return NULL;
	if (id && name) {
		interpreter_answer_text(call, 400,
					"Only one of context_id or language can be provided");
		return NULL;
	}
	if (id) {
		context = context_find(interpreter, id);
		if (!context)
			interpreter_answer_text(call, 404, "Context %.40s not found", id);
		return context;
	}
	language = get_language(call, name);
	if (!language)
		return NULL;
	context = context_default(interpreter, language);
	if (!context)
		interpreter_answer_text(call, 500, "out of memory");
	return context;
}

static char *make_request(json_t *code, json_t *environment, uint64_t number, size_t *ret_size)
{
	json_t *request = json_pack("{s:s, s:I, s:O}", "op", "execute", "id", (json_int_t)number,
				    "code", code);
	char *text = NULL, *line = NULL;

	if (request && json_is_object(environment))
		json_object_set(request, "env", environment);
	if (request)
		text = json_dumps(request, JSON_COMPACT | JSON_ENSURE_ASCII);
	json_decref(request);
	if (!text)
		return NULL;
	*ret_size = strlen(text) + 1;
	line = realloc(text, *ret_size + 1);
	if (!line)
		free(text);
	else
		memcpy(line + *ret_size - 1, "\n", 2);
	return line;
}

static void execute(struct api_call *call, json_t *body)
{
	struct interpreter *interpreter = find_interpreter(call);
	json_t *code = json_object_get(body, "code"), *env = json_object_get(body, "env_vars");
	uint64_t number = context_number();
	struct context *context;
	char *request;
	size_t size;

	if (!interpreter)
		return;
	if (!json_is_string(code) || (env && !json_is_null(env) && !json_is_object(env)) ||
	    !are_texts(env)) {
		interpreter_answer_text(call, 422,
					json_is_string(code) ? "env_vars: not an object of strings"
							     : "code: not a string");
		return;
	}
	context = get_context(call, interpreter, body);
	if (!context)
		return;
	if (run_count(context) >= INTERPRETER_QUEUE) {
		exchange_add(call->exchange, "Retry-After", "1");
		interpreter_answer_text(call, 429, "%d executions wait for this context already",
					INTERPRETER_QUEUE);
		return;
	}
	request = make_request(code, env, number, &size);
	if (!request || !run_new(context, call, number, request, size)) {
		free(request);
		exchange_add(call->exchange, "Retry-After", "1");
		interpreter_answer_text(call, 429,
					"no memory for the code: more of it waits already");
		return;
	}
	if (context_lives(context))
		run_next(context);
	else
		context_start(context);
}

/* ---- /contexts ---- */

static size_t count(const struct interpreter *interpreter)
{
	size_t n = 0;

	for (const struct context *at = interpreter->contexts; at; at = at->next)
		n++;
	return n;
}

static void make_context(struct api_call *call, json_t *body)
{
	struct interpreter *interpreter = find_interpreter(call);
	const char *name, *cwd, *language;
	struct context *context;

	if (!interpreter || !get_text(call, body, "language", &name) ||
	    !get_text(call, body, "cwd", &cwd))
		return;
	language = get_language(call, name);
	if (!language)
		return;
	if (cwd && (cwd[0] != '/' || strlen(cwd) > CWD_MAX)) {
		interpreter_answer_text(call, 400, "cwd: an absolute path is wanted");
		return;
	}
	if (count(interpreter) >= INTERPRETER_CONTEXTS) {
		interpreter_answer_text(call, 429, "%d contexts are the most that a sandbox has",
					INTERPRETER_CONTEXTS);
		return;
	}
	context = context_new(interpreter, NULL, language, cwd);
	if (!context) {
		interpreter_answer_text(call, 500, "out of memory");
		return;
	}
	context_wait(context, call);
	context_start(context);
}

static void serve_context(struct api_call *call, struct interpreter *interpreter, const char *id,
			  const char *verb)
{
	struct context *context = context_find(interpreter, id);
	struct http_slice method = exchange_head(call->exchange)->method;

	if (!context) {
		interpreter_answer_text(call, 404, "Context %.40s not found", id);
	} else if (!verb && http_slice_is(method, "GET")) {
		interpreter_answer_context(call, context);
	} else if (!verb && http_slice_is(method, "DELETE")) {
		context_remove(context);
		interpreter_answer_null(call);
	} else if (verb && streq(verb, "restart") && http_slice_is(method, "POST")) {
		if (context->waits)
			interpreter_answer_text(call, 409, "Context %.40s is being restarted", id);
		else
			context_restart(context, call);
	} else {
		interpreter_answer_text(call, 405, "Method Not Allowed");
	}
}

/* ---- entry ---- */

void interpreter_exchange(struct exchange *exchange, struct box *box)
{
	struct api_call *call = api_call_of(exchange);
	struct http_slice method = exchange_head(exchange)->method;
	const char *first = exchange_segment(exchange, 0), *id = NULL;
	struct interpreter *interpreter;

	if (first && streq(first, "health") && http_slice_is(method, "GET")) {
		call->status = 200;
		exchange_answer(exchange, 200, "application/json", "\"OK\"", 4);
		return;
	}
	if (first && streq(first, "contexts"))
		id = exchange_segment(exchange, 1);
	if (first && streq(first, "execute") && !exchange_segment(exchange, 1) &&
	    http_slice_is(method, "POST")) {
		call->over = forget_id;
		wait_for_body(call, box, execute);
	} else if (first && streq(first, "contexts") && !id && http_slice_is(method, "POST")) {
		call->over = forget_id;
		wait_for_body(call, box, make_context);
	} else if (first && streq(first, "contexts")) {
		interpreter = interpreter_of(e2b_of(call), box);
		if (!interpreter)
			interpreter_answer_text(call, 500, "out of memory");
		else if (id)
			serve_context(call, interpreter, id, exchange_segment(exchange, 2));
		else if (http_slice_is(method, "GET"))
			answer_contexts(call, interpreter);
		else
			interpreter_answer_text(call, 405, "Method Not Allowed");
	} else {
		interpreter_answer_text(call, 404, "Not Found");
	}
}
