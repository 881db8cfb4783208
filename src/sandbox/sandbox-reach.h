/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandbox/holder-protocol.h"

/*
 * A client locks `held`, and is alone with the record; or it asks the holder
 */

/* Lock `held` (`*ret_held`), or connect to the holder that has it (`*ret_socket`); the other one is
 * -1. Waits up to 20 s for a holder that is starting or ending. */
int sandbox_lock_or_connect(struct layer_record *record, int *ret_held, int *ret_socket,
			    struct atoll_error *err);
/* Send a request with a checkpoint's name (NULL: none), which is checked, and wait for the reply.
 */
int sandbox_ask(int socket_fd, enum holder_request_type type, const char *name, bool is_forced,
		struct holder_reply *ret, struct atoll_error *err);
/* Lock `held`, or let the holder execute the request (`*ret_held` is -1, and `*ret` its reply).
 * Connects again if the holder was ending and has not read the request. */
int sandbox_lock_or_ask(struct layer_record *record, enum holder_request_type type,
			const char *name, int *ret_held, struct holder_reply *ret,
			struct atoll_error *err);
