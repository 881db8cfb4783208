/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json.h"
#include "httpd/httpd.h"

/* Errors: {"error": {"cause": ..., "message": ..., "details": {...}}}. */

void v1_refuse(struct api_call *call, unsigned status, const char *cause, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* The same with members of "details", without its braces: "\"first\":7". */
void v1_refuse_with(struct api_call *call, unsigned status, const char *cause, const char *details,
		    const char *format, ...) __attribute__((format(printf, 5, 6)));
/* For the router: the cause follows from the status. */
void v1_refuse_status(struct api_call *call, unsigned status, const char *message);
void v1_fail(struct api_call *call, const struct atoll_error *err);
/* The error object alone, as a member `key` of another object. */
void v1_write_error(struct json *json, const char *key, const char *cause, const char *details,
		    const char *message);
/* The cause of an error: "not-found", "quota", ... */
const char *v1_error_cause(const struct atoll_error *err);
