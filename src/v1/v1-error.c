/* SPDX-License-Identifier: Apache-2.0 */

#include "v1/v1-error.h"

#include "base/scope.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* Errors of /v1: their form, and the cause and status of a struct atoll_error. */

static const char *status_cause(unsigned status)
{
	switch (status) {
	case 401:
		return "unauthorized";
	case 403:
		return "policy";
	case 404:
	case 410:
		return "not-found";
	case 409:
		return "conflict";
	case 429:
		return "quota";
	case 507:
		return "disk";
	case 502:
	case 503:
	case 504:
		return "host";
	default:
		return status < 500 ? "request" : "internal";
	}
}

const char *v1_error_cause(const struct atoll_error *err)
{
	if (err->errnum == EAGAIN)
		return "host"; /* the machine has no room; the tenant's quota is not reached */
	if (err->fault == ATOLL_FAULT_HOST && api_error_status(err) == 500)
		return "host";
	return status_cause(api_error_status(err));
}

void v1_write_error(struct json *json, const char *key, const char *cause, const char *details,
		    const char *message)
{
	json_open(json, key, '{');
	json_str(json, "cause", cause);
	json_str(json, "message", message);
	json_open(json, "details", '{');
	buf_add_str(json->out, details);
	json_close(json, '}');
	json_close(json, '}');
}

static void refuse(struct api_call *call, unsigned status, const char *cause, const char *details,
		   const char *message)
{
	cleanup_buf struct buf out = BUF_INIT(64 * 1024);
	struct json json = {.out = &out};

	json_open(&json, NULL, '{');
	v1_write_error(&json, "error", cause, details, message);
	json_close(&json, '}');
	if (status == 429 || status == 503)
		exchange_add_if_missing(call->exchange, "Retry-After", "1");
	api_answer(call, status, &out);
}

void v1_refuse(struct api_call *call, unsigned status, const char *cause, const char *format, ...)
{
	char message[512];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof message, format, args);
	va_end(args);
	refuse(call, status, cause, "", message);
}

void v1_refuse_with(struct api_call *call, unsigned status, const char *cause, const char *details,
		    const char *format, ...)
{
	char message[512];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof message, format, args);
	va_end(args);
	refuse(call, status, cause, details, message);
}

void v1_fail(struct api_call *call, const struct atoll_error *err)
{
	unsigned status = api_error_status(err);

	/* The host cannot do it now, or not at all; the message says which. */
	if (status == 500 && err->fault == ATOLL_FAULT_HOST)
		status = 503;
	if (status == 500 && err->fault == ATOLL_FAULT_JOB)
		status = 400;
	refuse(call, status, status == 400 ? "request" : v1_error_cause(err), "", err->text);
}

void v1_refuse_status(struct api_call *call, unsigned status, const char *message)
{
	refuse(call, status, status_cause(status), "", message);
}
