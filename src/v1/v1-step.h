/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box.h"
#include "v1/v1-state.h"

/* The step that the path names. NULL: the call was answered. For a step that is only in results.db
 * `old` answers, if it is not NULL. */
struct process *v1_step(struct api_call *call, struct box **ret_box,
			void (*old)(struct api_call *call, const struct result_step *step));
/* 204, or the error of a change to a step: -ESRCH, -EPIPE, -ENOTTY, -EAGAIN. */
void v1_answer_change(struct api_call *call, int r);
/* A step has ended: answers the requests that wait for its end. */
void v1_step_ended(struct v1 *v1, struct process *process);
/* A client reads the output of the step from now on. */
void v1_step_is_read(struct v1 *v1, struct process *process);
/* The box has ended, and with it its steps. */
void v1_steps_gone(struct v1 *v1, struct box *box);
/* The daemon has stopped. Its boxes live on, so no event has ended their first readers; the struct
 * process of each is freed already. */
void v1_steps_done(struct v1 *v1);

api_handler v1_step_start, v1_steps_list, v1_step_get, v1_step_signal, v1_step_resize;
