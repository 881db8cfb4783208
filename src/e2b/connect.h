/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scope.h"
#include "httpd/httpd.h"

/*
 * Remote calls by the Connect protocol, with JSON
 *
 * A call is a POST to "/SERVICE/METHOD". A plain one has its message as the body and is answered by
 * one, or by a status and {"code", "message"}. Streams are sequences of envelopes: a byte of flags,
 * the length in four bytes, the message; the last one has flag 2 and tells how it ended, always
 * under status 200.
 *
 *   connect.c          envelopes, codes, base64: pure functions
 *   connect-call.c     the life of a call: reading it, deadline, keepalive, its end
 *   connect-say.c      what is said to it
 *   connect-message.c  what is in a message
 *   e2b-process.c, e2b-filesystem.c ...  the methods
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

/* ---- connect.c ---- */

#define CONNECT_HEAD	   5
#define CONNECT_COMPRESSED 1
#define CONNECT_LAST	   2
#define CONNECT_STREAM	   "application/connect+json"

struct connect_envelope {
	unsigned flags;
	const char *message;
	size_t size;
	size_t used; /* of what was given: head and message */
};

/* The envelope at the start of `data`. 1; 0: not all there yet; -EMSGSIZE: a message of more than
 * `max` bytes; -EBADMSG: flags that mean nothing, or that we never agreed to. */
int connect_next(const char *data, size_t size, size_t max, struct connect_envelope *ret);
void connect_head(unsigned flags, size_t size, char ret[CONNECT_HEAD]);

/* Base64 in either alphabet, with or without padding, as JSON's form of protobuf has it. `*ret` is
 * the caller's, never NULL. 0 or -EINVAL, -ENOMEM. */
int connect_decode(const char *text, size_t size, char **ret, size_t *ret_size);
/* "Basic dXNlcjo=": the user's name, which may be ""; the caller's. -EINVAL, -ENOMEM. */
int connect_basic_user(const char *field, char **ret);
/* At most ten digits; false: something else. */
bool connect_number(const char *text, uint64_t *ret);

/* ---- connect-call.c ---- */

enum rpc_kind {
	RPC_UNARY,
	RPC_SERVER_STREAM, /* one message in, many out */
	RPC_CLIENT_STREAM, /* many in: `handle` for each, then `finish`; one out */
};

struct rpc;

struct rpc_method {
	const char *name; /* "process.Process/Start" */
	enum rpc_kind kind;
	void (*handle)(struct rpc *rpc);
	void (*finish)(struct rpc *rpc); /* of a client's stream: no more comes */
	const char *keepalive;		 /* what a silent stream says */
};

/* Each ends with an empty row. */
extern const struct rpc_method e2b_process_methods[], e2b_filesystem_methods[], e2b_watch_methods[];

/*
 * Lives until its exchange is over and nobody holds it: what was begun for it may still call back.
 * Who is called back looks at rpc_is_over() first; then nothing may be said any more, `box` may be
 * gone, and rpc_unref() is all there is to do.
 */
struct rpc {
	struct api_call *call; /* NULL: over */
	struct box *box;
	const struct rpc_method *method;
	char *user;	     /* NULL: the box's default */
	json_t *request;     /* an object */
	uint64_t timeout_ms; /* 0: none was said */

	/* The method's; `over` is called once, while `box` is still there. */
	void *own;
	void (*over)(struct rpc *rpc);

	/* connect-call.c's */
	struct parse *document; /* `request` is a part of it; NULL: it is its own */
	bool is_parsing;	/* on a thread */
	struct buf input;	/* of a client's stream */
	struct held input_held;
	struct loop_turn turn; /* more of the input is looked at in it */
	struct loop_timer deadline, quiet;
	int64_t sent_ns, keepalive_ns;
	uint64_t gone;
	unsigned held;
	bool has_begun, has_ended;
};

/* Serves it. The access token was looked at before. */
void rpc_exchange(struct api_call *call, struct box *box);

struct rpc *rpc_ref(struct rpc *rpc);
void rpc_unref(struct rpc *rpc);
static inline bool rpc_is_over(const struct rpc *rpc)
{
	return !rpc->call || rpc->has_ended;
}

/* The method lets go of what it has, and no timer fires any more; connect-call.c's and
 * connect-say.c's. */
void rpc_leave(struct rpc *rpc);

/* ---- connect-say.c ---- */

/* The answer to a plain call, or the only one to a client's stream. */
void rpc_answer(struct rpc *rpc, const struct buf *message);
void rpc_answer_empty(struct rpc *rpc);
/* How a call failed. A stream ends by it. */
void rpc_fail(struct rpc *rpc, enum rpc_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* For failures that come from box/, of processes and files alike. */
void rpc_fail_error(struct rpc *rpc, const struct atoll_error *err);

/* One message of a stream. */
void rpc_send(struct rpc *rpc, const char *message, size_t size);
/* One with `bytes` in it as base64: {before}BASE64{behind}. */
void rpc_send_bytes(struct rpc *rpc, const char *before, const void *bytes, size_t size,
		    const char *behind);
void rpc_end(struct rpc *rpc);
struct loop *rpc_loop(const struct rpc *rpc);

/* ---- connect-message.c ---- */

/* Fields by either of their names ("watcherId", "watcher_id"); what is null is not there. They
 * answer a failure themselves: false, then. */
json_t *rpc_field(json_t *object, const char *name);
bool rpc_text(struct rpc *rpc, json_t *object, const char *name, const char **ret);
bool rpc_bool(struct rpc *rpc, json_t *object, const char *name, bool *ret);
bool rpc_number(struct rpc *rpc, json_t *object, const char *name, int64_t min, int64_t max,
		int64_t *ret);
bool rpc_object(struct rpc *rpc, json_t *object, const char *name, json_t **ret);
