/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box.h"
#include "v1/v1.h"

#define V1_BODY_MAX (1U << 20)

/* The state of the protocol in one daemon; v1-results.c opens and closes it. */
struct v1 {
	struct api *api;
	struct results *results;      /* results.db */
	struct box_listener listener; /* v1-results.c */
	struct v1_making *makings;    /* v1-sandbox.c; requests whose sandboxes are being made */
	struct first_reader *first_readers; /* v1-step.c; steps that nobody has read yet */
	struct start *starts; /* v1-step.c; requests that wait for the end of a step */
};

static inline struct v1 *v1_of(const struct api_call *call)
{
	return api_state(call->api, &v1_protocol);
}
