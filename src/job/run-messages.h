/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct parsed_notice;
struct run;

/* Handle all messages of pid 1; false once its end is closed. */
bool run_read_messages(struct run *run);
/* For notices_init(): `data` is the run. */
void run_handle_notice(void *data, const struct parsed_notice *parsed);
