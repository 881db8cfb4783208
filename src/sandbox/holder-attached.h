/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandbox/holder-client.h"

#include <atoll/error.h>

struct holder_request;

/* Handle HOLDER_EXEC. Descriptors that the step keeps become -1 in `fds`. */
int attached_start(struct holder *holder, struct holder_client *client,
		   const struct holder_request *request, int *fds, size_t n,
		   struct atoll_error *err);
/* INIT_STARTED has arrived: write the published ports into the result file. */
void attached_handle_started(struct holder *holder, struct holder_client *client);
/* Handle client->end: write the result file, send the end to the client. `checkpoint` is the
 * failure of the checkpoint after the step. May free `client`. */
void attached_finish(struct holder *holder, struct holder_client *client,
		     const struct atoll_error *checkpoint);
/* The cell is gone, by `limit` or for an unknown reason (NULL). May free `client`. */
void attached_lose(struct holder *holder, struct holder_client *client,
		   const struct init_message *limit);
