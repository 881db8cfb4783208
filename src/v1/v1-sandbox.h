/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "v1/v1-form.h"

#define V1_LABEL_REQUEST "atoll.request"
#define V1_LABEL_JOB	 "atoll.job"
#define V1_LABEL_ASKS	 "atoll.asks"

/* A request to create a sandbox; v1_create_done() frees it. */
struct v1_create {
	struct box_request request;
	char *contract; /* as text */
	json_t *body;	/* owns the strings of `request` */
};
/* Mistakes are added to `form`. */
void v1_read_create(struct form *form, struct v1_create *ret);
void v1_create_done(struct v1_create *create);
/* The box that an earlier request with this id has made, or NULL. */
struct box *v1_box_of_request(struct tenant *tenant, const char *request_id);

/* A sandbox or job that is being made: a second request with the same id must not make another one.
 * `request_id` may be NULL. */
struct v1_making {
	struct v1 *v1;
	char request_id[64];
	const struct tenant *tenant;
	struct v1_making *next;
};
/* True: 409 was answered. */
bool v1_is_being_made(struct api_call *call, const char *request_id);
void v1_making_begin(struct v1_making *making, const struct api_call *call, const char *request_id);
void v1_making_end(struct v1_making *making);
/* For box_kill(): answers by 204 or with the error. `data` is a struct v1_wait. */
void v1_on_killed(struct box *box, const struct atoll_error *err, void *data);

api_handler v1_sandbox_create, v1_sandbox_get, v1_sandbox_delete, v1_sandbox_pause,
	v1_sandbox_resume, v1_sandbox_timeout;
