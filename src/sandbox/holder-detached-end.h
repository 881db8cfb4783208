/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "init/init.h"

#include <stdbool.h>

struct atoll_denial;
struct detached_step;
struct holder;
struct holder_client;

/* Handle INIT_STARTED or INIT_TERMINAL of pid 1; `fd` is the terminal's, and stays the caller's. */
void detached_handle_message(struct holder *holder, struct holder_client *client,
			     const struct init_message *message, int fd);
/* After a thaw: send INIT_GO to the steps whose terminal was ready meanwhile. */
void detached_go_all(struct holder *holder);
/* Add a denial to the step's list; the same one again raises its count. */
void detached_add_denial(struct detached_step *step, const struct atoll_denial *denial);
/* After the command's end: is the output complete, or not waited for? */
bool detached_is_drained(struct detached_step *step);
/* Handle client->end: the step has ended. Frees `client`. */
void detached_finish(struct holder *holder, struct holder_client *client);
/* The cell is gone, by `limit` or for an unknown reason (NULL). Frees `client`. */
void detached_lose(struct holder *holder, struct holder_client *client,
		   const struct init_message *limit);
/* Kill all processes of the step, and again after a second. */
void detached_kill(struct holder *holder, struct holder_client *client);
