/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "e2b/connect-call.h"

/* The answer to a unary call or to a client's stream. */
void rpc_answer(struct rpc *rpc, const struct buf *message);
void rpc_answer_empty(struct rpc *rpc);
/* Ends the call with an error. */
void rpc_fail(struct rpc *rpc, enum rpc_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The same for an error of box/. */
void rpc_fail_error(struct rpc *rpc, const struct atoll_error *err);

/* One message of a stream. */
void rpc_send(struct rpc *rpc, const char *message, size_t size);
/* A message that consists of `before`, `bytes` in base64, and `behind`. */
void rpc_send_bytes(struct rpc *rpc, const char *before, const void *bytes, size_t size,
		    const char *behind);
void rpc_end(struct rpc *rpc);
