/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box.h"
#include "v1/v1-state.h"

/* Opens results.db in `dir`, begins to store results, and starts the jobs that the last daemon had
 * not started. Call it once the boxes of the last daemon are there again. *ret is a struct v1. */
int v1_open(struct api *api, const char *dir, void **ret, struct atoll_error *err);
void v1_close(void *state);
/* Has the step ended, and may clients see it? The end of a job is shown once its result is on disk.
 */
bool v1_has_ended(const struct v1 *v1, const struct process *process);
