/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandbox/holder-client.h"

#include <atoll/error.h>

struct holder_request;

/* Handle HOLDER_EXEC. Descriptors that the step keeps become -1 in `fds`. */
int attached_start(struct holder *holder, struct holder_client *client,
		   const struct holder_request *request, int *fds, size_t n,
		   struct atoll_error *err);

/* The following serve attached and detached steps. */

/* How many steps run. */
size_t holder_count_running(const struct holder *holder);
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
