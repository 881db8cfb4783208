/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Remote calls by the Connect protocol, with JSON
 *
 * A call is a POST to "/SERVICE/METHOD". The body of a unary call is one message; the answer is one
 * message, or a status and {"code", "message"}. A stream is a sequence of envelopes: a byte of
 * flags, the length in four bytes, the message. The last envelope has flag 2 and contains the
 * result of the call; the status is always 200.
 *
 *   connect.c          envelopes, codes, base64: pure functions
 *   connect-call.c     the life of a call: request, deadline, keepalive, end
 *   connect-send.c     answers and messages to the client
 *   connect-message.c  members of a message
 *   e2b-process.c, e2b-filesystem.c, e2b-watch.c   the methods
 */

enum rpc_code {
	RPC_CANCELED,
	RPC_UNKNOWN,
	RPC_INVALID_ARGUMENT,
	RPC_DEADLINE_EXCEEDED,
	RPC_NOT_FOUND,
	RPC_ALREADY_EXISTS,
	RPC_PERMISSION_DENIED,
	RPC_RESOURCE_EXHAUSTED,
	RPC_FAILED_PRECONDITION,
	RPC_ABORTED,
	RPC_OUT_OF_RANGE,
	RPC_UNIMPLEMENTED,
	RPC_INTERNAL,
	RPC_UNAVAILABLE,
	RPC_DATA_LOSS,
	RPC_UNAUTHENTICATED,
	RPC_CODES,
};
const char *rpc_code_name(enum rpc_code code);
unsigned rpc_code_status(enum rpc_code code);

#define CONNECT_HEAD	   5
#define CONNECT_COMPRESSED 1
#define CONNECT_LAST	   2
#define CONNECT_STREAM	   "application/connect+json"

struct connect_envelope {
	unsigned flags;
	const char *message;
	size_t size;
	size_t used; /* bytes of the input: head and message */
};

/* The envelope at the start of `data`. 1; 0: not all there yet; -EMSGSIZE: a message of more than
 * `max` bytes; -EBADMSG: unknown flags, or compression, which the server does not offer. */
int connect_next(const char *data, size_t size, size_t max, struct connect_envelope *ret);
void connect_head(unsigned flags, size_t size, char ret[CONNECT_HEAD]);

/* Base64 in either alphabet, with or without padding, as protobuf's JSON has it. The caller frees
 * `*ret`, which is never NULL. 0 or -EINVAL, -ENOMEM. */
int connect_decode(const char *text, size_t size, char **ret, size_t *ret_size);
/* "Basic dXNlcjo=": the user's name, which may be ""; the caller frees it. -EINVAL, -ENOMEM. */
int connect_basic_user(const char *field, char **ret);
/* At most ten digits; false: the text is something else. */
bool connect_number(const char *text, uint64_t *ret);
