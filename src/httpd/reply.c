/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/reply.h"

#include "base/json.h"
#include "base/scope.h"
#include "httpd/answer.h"
#include "httpd/intake.h"
#include "httpd/parse.h"
#include "httpd/route.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/*
 * Answers and errors of calls in JSON, and bodies in JSON
 *
 * A body of at most PARSE_SMALL bytes is parsed at once, a longer one on a thread (parse.h).
 */

#define JSON_TYPE     "application/json"
#define RETRY_AFTER_S "2"

void api_answer(struct api_call *call, unsigned status, const struct buf *body)
{
	if (buf_error(body) < 0) {
		call->status = 500;
		exchange_answer(call->exchange, 500, NULL, NULL, 0);
		return;
	}
	call->status = status;
	exchange_answer(call->exchange, status, JSON_TYPE, body->data ? body->data : "",
			body->used);
}

void api_answer_empty(struct api_call *call, unsigned status)
{
	call->status = status;
	exchange_answer(call->exchange, status, NULL, NULL, 0);
}

static void refuse_with(struct api_call *call, unsigned status, const char *message)
{
	cleanup_buf struct buf body = BUF_INIT(8192);
	struct json json = {.out = &body};

	for (const struct api_protocol *const *protocol = call->api->protocols; *protocol;
	     protocol++) {
		if ((*protocol)->is_path && (*protocol)->is_path(call)) {
			(*protocol)->refuse(call, status, message);
			return;
		}
	}
	json_open(&json, NULL, '{');
	json_uint(&json, "code", status);
	json_str(&json, "message", message);
	json_close(&json, '}');
	api_answer(call, status, &body);
}

void api_refuse(struct api_call *call, unsigned status, const char *format, ...)
{
	char message[1024];
	va_list list;

	va_start(list, format);
	vsnprintf(message, sizeof message, format, list);
	va_end(list);
	refuse_with(call, status, message);
}

unsigned api_error_status(const struct atoll_error *err)
{
	switch (err->errnum) {
	case ENOENT:
		return 404;
	case EDQUOT:
	case EAGAIN:
		return 429;
	case EALREADY:
	case EBUSY:
	case EEXIST:
		return 409;
	case ENOSPC:
		return 507;
	case ECANCELED:
		return 503;
	}
	return err->fault == ATOLL_FAULT_POLICY	   ? 403
	       : err->fault == ATOLL_FAULT_REQUEST ? 400
						   : 500;
}

void api_fail(struct api_call *call, const struct atoll_error *err)
{
	unsigned status = api_error_status(err);

	if (status == 429 || status == 503)
		exchange_add(call->exchange, "Retry-After", RETRY_AFTER_S);
	refuse_with(call, status, err->text[0] ? err->text : "unknown error");
}

/* ---- bodies ---- */

static void read_body(struct api_call *call, json_t *body, const char *why)
{
	if (!body)
		api_refuse(call, 400, "the body is no JSON: %s", why);
	else if (json_is_object(body))
		call->read(call, body);
	else
		api_refuse(call, 400, "the body has to be a JSON object");
}

static void on_body_parsed(struct parse *parse, json_t *body, const char *why, void *data)
{
	struct api_call *call = data;

	(void)parse;
	call->parse = NULL;
	read_body(call, body, why);
}

static void on_body(struct exchange *exchange, const char *data, size_t size, void *own)
{
	struct api_call *call = own;
	char why[160] = "";
	json_t *body;

	if (size > PARSE_SMALL) {
		const struct parse_request request = {.daemon = call->api->daemon,
						      .tenant = call->charged,
						      .text = exchange_detach_whole(exchange),
						      .size = size};

		call->parse = parse_start(&request, on_body_parsed, call);
		if (!call->parse)
			api_refuse(call, 429,
				   "this tenant has too many requests in memory; retry later");
		return;
	}
	body = size == 0 && !call->is_body_needed ? json_object() : parse_text(data, size, why);
	read_body(call, body, why);
	json_decref(body);
}

void api_read_json(struct api_call *call, size_t max, bool is_needed,
		   void (*read)(struct api_call *call, json_t *body))
{
	call->read = read;
	call->is_body_needed = is_needed;
	exchange_read_whole(call->exchange, max, on_body, call);
}

struct box *api_box(struct api_call *call)
{
	struct box *box = box_find(call->tenant, api_parameter(call, 0));

	if (!box)
		api_refuse(call, 404, "sandbox \"%.64s\" not found", api_parameter(call, 0));
	return box;
}
