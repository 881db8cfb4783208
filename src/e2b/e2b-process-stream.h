/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box.h"
#include "e2b/connect-call.h"

/* process.Process/Start and /Connect */
void e2b_process_start(struct rpc *rpc);
void e2b_process_connect(struct rpc *rpc);
/* A process of the daemon, such as a kernel of the interpreter: clients do not see it. */
bool e2b_process_is_hidden(const struct process *process);
