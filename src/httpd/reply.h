/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

#include <atoll/error.h>
#include <jansson.h>

struct api_call;
struct box;

/* Answers of a call in JSON. Each of them sets call->status. */

/* Answers with an error in the form of the path's protocol (api_protocol), else by {"code": status,
 * "message": ...}. */
void api_refuse(struct api_call *call, unsigned status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The same for an error of the library or of box/. */
void api_fail(struct api_call *call, const struct atoll_error *err);
/* The status for an error: 404 for ENOENT, 429 for EDQUOT and EAGAIN, 409 for EALREADY, EBUSY and
 * EEXIST, 507 for ENOSPC, 503 for ECANCELED; else 403 for a fault of the policy, 400 for one of the
 * request, 500 for others. */
unsigned api_error_status(const struct atoll_error *err);
/* Sends `body` as JSON; 500 if the buffer has failed. The buffer stays the caller's. */
void api_answer(struct api_call *call, unsigned status, const struct buf *body);
void api_answer_empty(struct api_call *call, unsigned status);
/* Reads the body as a JSON object: `read` gets the object, also {} for an empty body unless
 * `is_needed`, and may keep a reference. Anything but a JSON object is answered by 400, more than
 * `max` bytes by 413. */
void api_read_json(struct api_call *call, size_t max, bool is_needed,
		   void (*read)(struct api_call *call, json_t *body));
/* The tenant's box that the first parameter of the pattern names. NULL: 404 was answered. */
struct box *api_box(struct api_call *call);
