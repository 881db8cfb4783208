/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scope.h"
#include "box/box.h"
#include "e2b/connect.h"
#include "httpd/httpd.h"

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
	void (*finish)(struct rpc *rpc); /* the end of a client's stream */
	const char *keepalive;		 /* the message of a stream that was silent for long */
};

/*
 * One remote call. It is freed when its exchange has ended and its last reference is gone: a
 * callback of box/ may come later than the end of the exchange. Such a callback asks rpc_is_over()
 * first; if that is true, `box` may be gone, and rpc_unref() is all that the callback may do.
 */
struct rpc {
	struct api_call *call; /* NULL: the exchange has ended */
	struct box *box;
	const struct rpc_method *method;
	char *user;	     /* NULL: the box's default */
	json_t *request;     /* an object */
	uint64_t timeout_ms; /* 0: none */

	/* Of the method; `over` is called once, while `box` is still there. */
	void *own;
	void (*over)(struct rpc *rpc);

	/* Of connect-call.c. */
	struct parse *document; /* contains `request`; NULL: `request` is a document of its own */
	bool is_parsing;	/* on a thread */
	struct buf input;	/* of a client's stream */
	struct held input_held;
	struct loop_turn piece; /* parses more of the input */
	struct loop_timer deadline, quiet;
	int64_t sent_ns, keepalive_ns;
	uint64_t gone;
	unsigned n_refs;
	bool has_begun, has_ended;
};

/* Serves a call. The caller has checked the access token. */
void rpc_exchange(struct api_call *call, struct box *box);

struct rpc *rpc_ref(struct rpc *rpc);
void rpc_unref(struct rpc *rpc);
static inline bool rpc_is_over(const struct rpc *rpc)
{
	return !rpc->call || rpc->has_ended;
}

/* Calls the method's `over` and stops the timers; for connect-call.c and connect-send.c. */
void rpc_leave(struct rpc *rpc);
struct loop *rpc_loop(const struct rpc *rpc);
