/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct events;

/* `atoll log --follow`: waits until the log may have more lines. */
struct log_wait;
struct log_wait *log_wait_new(const struct events *events, bool is_sandbox);
void log_wait_free(struct log_wait *wait);
/* 1, or 0 if no process writes the log any more. */
int log_wait_more(struct log_wait *wait);
