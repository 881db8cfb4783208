/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandbox/holder-client.h"

#include <atoll/error.h>

/* How many steps run. */
size_t holder_count_running(const struct holder *holder);
/* Start a step in the open cell: log it, and send the order to pid 1. `stdio` is -1 for a terminal.
 * After a failure the place is a request again. */
int holder_start_step(struct holder *holder, struct holder_client *client, int invocation_fd,
		      const int stdio[3], struct atoll_error *err);
/* Handle a message of pid 1; `fd` is a terminal's or -1, and stays the caller's. */
void holder_handle_message(struct holder *holder, const struct init_message *message, int fd);
/* Handle the ends that pid 1 has reported. */
void holder_finish_steps(struct holder *holder);
/* The cell is gone, by `limit` or for an unknown reason (NULL): end all steps. */
void holder_lose_steps(struct holder *holder, const struct init_message *limit);
/* Write the latest step's command and status into the record: when it is due, or at once. */
void holder_note_step(struct holder *holder, bool is_now);
/* Send a denial to the step that it belongs to, or to all if that is unknown. */
void holder_spread_denial(struct holder *holder, const struct init_message *message);
