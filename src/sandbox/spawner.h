/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* Let the spawner fork the holder of sandbox `id`, which reports at `status_fd` (holder_main()).
 * False: there is no spawner, or it is gone; the caller forks. The other functions of spawner.c are
 * in sandbox.h. */
bool spawner_start_holder(const char *id, bool stays, int status_fd);
