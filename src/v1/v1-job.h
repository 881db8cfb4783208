/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box.h"
#include "v1/v1-state.h"

#define V1_JOB_KEY "atoll-job" /* the key of the job's step */

/* The step that is the command of the job; NULL: it has not started. */
struct process *v1_job_step(const struct box *box);
bool v1_is_job_step(const struct process *process);
/* The command of a job has ended: its sandbox ends after a while. */
void v1_job_ended(struct box *box);
/* Starts the jobs that the last daemon had not started. */
void v1_jobs_resume(struct v1 *v1);

api_handler v1_job_start, v1_jobs_list, v1_job_get, v1_job_events, v1_job_output, v1_job_receipt,
	v1_job_cancel;
