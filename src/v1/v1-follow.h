/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box.h"
#include "httpd/httpd.h"

/* The output of a step or job as server-sent events. */
void v1_follow(struct api_call *call, struct process *process);
/* The same for a step that is only in results.db. */
void v1_follow_old(struct api_call *call, const struct result_step *step);
api_handler v1_step_events;
