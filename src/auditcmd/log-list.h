/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct atoll_error;

/* `atoll log --list`: the event logs of the store. */
int log_list(bool is_json, struct atoll_error *err);
