/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box.h"
#include "e2b/connect-call.h"

extern const struct rpc_method e2b_process_methods[];
/* The process that the selector of the request names. NULL: the call was answered. */
struct process *e2b_process(struct rpc *rpc, json_t *request);
/* False: the call was answered. */
bool e2b_terminal_size(struct rpc *rpc, json_t *pty, uint16_t *columns, uint16_t *rows);
