/* SPDX-License-Identifier: Apache-2.0 */
#include "api/connect.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* Standard input comes in messages, so they may be large. */
#define MESSAGE_MAX (16U << 20)

#define KEEPALIVE_S    90
#define KEEPALIVE_MAX  3600
#define NS_OF_S	       INT64_C(1000000000)
#define NS_OF_MS       INT64_C(1000000)
#define UNARY_TYPE     "application/json"
#define CONNECT_STREAM "application/connect+json"

struct loop *rpc_loop(const struct rpc *rpc)
{
	return rpc->call->api->loop;
}

/* ---- its life ---- */

struct rpc *rpc_hold(struct rpc *rpc)
{
	rpc->held++;
	return rpc;
}

void rpc_release(struct rpc *rpc)
{
	if (--rpc->held > 0)
		return;
	json_decref(rpc->request);
	buf_done(&rpc->input);
	free(rpc->user);
	free(rpc);
}

/* The exchange may still be there. */
void rpc_leave(struct rpc *rpc)
{
	void (*over)(struct rpc *) = rpc->over;

	rpc->over = NULL;
	if (over)
		over(rpc);
	loop_disarm(rpc_loop(rpc), &rpc->deadline);
	loop_disarm(rpc_loop(rpc), &rpc->quiet);
}

static void forget_box(struct rpc *rpc)
{
	if (rpc->gone)
		box_forget_gone(rpc->box, rpc->gone);
	rpc->gone = 0;
}

static void over(struct api_call *call, bool is_broken)
{
	struct rpc *rpc = call->own;

	(void)is_broken;
	rpc_leave(rpc);
	forget_box(rpc);
	rpc->call = NULL;
	rpc->box = NULL;
	rpc_release(rpc);
}

/* Killed or paused: its clients see the connection break, and ask for the reason elsewhere. */
static void box_gone(struct box *box, void *data)
{
	struct rpc *rpc = data;
	struct api_call *call = rpc->call;

	(void)box;
	rpc->gone = 0;
	rpc_leave(rpc);
	rpc->call = NULL;
	rpc->box = NULL;
	call->box = NULL;
	call->own = NULL;
	call->over = NULL;
	exchange_cut(call->exchange);
	rpc_release(rpc);
}

/* ---- times ---- */

static void deadline_passed(struct loop_timer *timer)
{
	struct rpc *rpc = container_of(timer, struct rpc, deadline);

	if (!rpc_is_over(rpc))
		rpc_fail(rpc, RPC_DEADLINE_EXCEEDED, "the call's deadline of %llu ms has passed",
			 (unsigned long long)rpc->timeout_ms);
}

/* Nothing but the first message may come first, and who does not read needs no sign of life. */
static void was_quiet(struct loop_timer *timer)
{
	struct rpc *rpc = container_of(timer, struct rpc, quiet);
	int64_t now = clock_monotonic_ns(), due = rpc->sent_ns + rpc->keepalive_ns;

	if (rpc_is_over(rpc))
		return;
	rpc_hold(rpc);
	if (rpc->has_begun && due <= now && exchange_waiting(rpc->call->exchange) == 0)
		rpc_send(rpc, rpc->method->keepalive, strlen(rpc->method->keepalive));
	if (!rpc_is_over(rpc))
		loop_arm(rpc_loop(rpc), timer, due > now ? due : now + rpc->keepalive_ns);
	rpc_release(rpc);
}

static void arm(struct rpc *rpc)
{
	const char *timeout = exchange_field(rpc->call->exchange, "connect-timeout-ms");
	const char *interval = exchange_field(rpc->call->exchange, "keepalive-ping-interval");
	int64_t now = clock_monotonic_ns();
	uint64_t ms, s = KEEPALIVE_S;

	rpc->deadline.fire = deadline_passed;
	rpc->quiet.fire = was_quiet;
	if (timeout && connect_number(timeout, &ms) && ms > 0) {
		rpc->timeout_ms = ms;
		loop_arm(rpc_loop(rpc), &rpc->deadline, now + (int64_t)ms * NS_OF_MS);
	}
	if (!rpc->method->keepalive)
		return;
	if (interval && (!connect_number(interval, &s) || s == 0 || s > KEEPALIVE_MAX))
		s = KEEPALIVE_S;
	rpc->keepalive_ns = (int64_t)s * NS_OF_S;
	rpc->sent_ns = now;
	loop_arm(rpc_loop(rpc), &rpc->quiet, now + rpc->keepalive_ns);
}

/* ---- what comes ---- */

static void handle_message(struct rpc *rpc, const char *data, size_t size)
{
	json_error_t why;

	json_decref(rpc->request);
	rpc->request = json_loadb(data, size, JSON_REJECT_DUPLICATES, &why);
	if (!rpc->request)
		rpc_fail(rpc, RPC_INVALID_ARGUMENT, "the message is no JSON: %s", why.text);
	else if (!json_is_object(rpc->request))
		rpc_fail(rpc, RPC_INVALID_ARGUMENT, "the message is no JSON object");
	else
		rpc->method->handle(rpc);
}

static const char *why_bad(int r)
{
	return r == -EMSGSIZE ? "a message of more than 16 MiB"
	       : r == 0	      ? "the request ends within an envelope"
			      : "an envelope with flags, which were not agreed on";
}

static void handle_only_envelope(struct rpc *rpc, const char *data, size_t size)
{
	struct connect_envelope envelope = {0};
	int r = connect_next(data, size, MESSAGE_MAX, &envelope);

	if (r <= 0)
		rpc_fail(rpc, RPC_INVALID_ARGUMENT, "%s", why_bad(r));
	else if (envelope.used != size)
		rpc_fail(rpc, RPC_INVALID_ARGUMENT, "more than one message");
	else
		handle_message(rpc, envelope.message, envelope.size);
}

static void whole_came(struct exchange *exchange, const char *data, size_t size, void *own)
{
	struct rpc *rpc = rpc_hold(own);

	(void)exchange;
	if (rpc_is_over(rpc))
		;
	else if (rpc->method->kind == RPC_UNARY)
		handle_message(rpc, data, size);
	else
		handle_only_envelope(rpc, data, size);
	rpc_release(rpc);
}

static void handle_envelopes(struct rpc *rpc)
{
	struct connect_envelope envelope;
	size_t used = 0;
	int r = 1;

	while (!rpc_is_over(rpc) && r > 0) {
		r = connect_next(rpc->input.data + used, rpc->input.used - used, MESSAGE_MAX,
				 &envelope);
		if (r < 0)
			rpc_fail(rpc, RPC_INVALID_ARGUMENT, "%s", why_bad(r));
		if (r <= 0)
			break;
		used += envelope.used;
		handle_message(rpc, envelope.message, envelope.size);
	}
	memmove(rpc->input.data, rpc->input.data + used, rpc->input.used - used);
	rpc->input.used -= used;
}

static void piece_came(struct exchange *exchange, const char *data, size_t size, void *own)
{
	struct rpc *rpc = rpc_hold(own);

	(void)exchange;
	if (!rpc_is_over(rpc) && size > 0) {
		buf_add(&rpc->input, data, size);
		if (buf_error(&rpc->input) < 0)
			rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED, "no memory for the message");
		else
			handle_envelopes(rpc);
	} else if (!rpc_is_over(rpc)) {
		if (rpc->input.used > 0)
			rpc_fail(rpc, RPC_INVALID_ARGUMENT, "%s", why_bad(0));
		else
			rpc->method->finish(rpc);
	}
	rpc_release(rpc);
}

/* ---- its beginning ---- */

static const struct rpc_method *find_method(struct exchange *exchange)
{
	static const struct rpc_method *const lists[] = {e2b_process_methods,
							 e2b_filesystem_methods, e2b_watch_methods};
	const char *service = exchange_segment(exchange, 0), *name = exchange_segment(exchange, 1);
	char path[96];

	if (!service || !name || exchange_segment(exchange, 2))
		return NULL;
	if (snprintf(path, sizeof path, "%s/%s", service, name) >= (int)sizeof path)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		for (const struct rpc_method *method = lists[i]; method->name; method++) {
			if (streq(method->name, path))
				return method;
		}
	}
	return NULL;
}

static bool has_type(struct exchange *exchange, const char *wanted)
{
	const char *type = exchange_field(exchange, "content-type");
	size_t n = strlen(wanted);

	return type && strncasecmp(type, wanted, n) == 0 &&
	       (type[n] == '\0' || type[n] == ';' || type[n] == ' ');
}

static void read_request(struct rpc *rpc)
{
	struct exchange *exchange = rpc->call->exchange;
	const char *user = exchange_field(exchange, "authorization");

	if (user && connect_basic_user(user, &rpc->user) < 0) {
		rpc_fail(rpc, RPC_UNAUTHENTICATED, "invalid username");
		return;
	}
	if (rpc->user && rpc->user[0] == '\0') {
		free(rpc->user);
		rpc->user = NULL;
	}
	if (rpc->method->kind == RPC_CLIENT_STREAM)
		exchange_read(exchange, piece_came, rpc);
	else
		exchange_read_whole(exchange, MESSAGE_MAX + CONNECT_HEAD, whole_came, rpc);
}

static void serve(struct api_call *call, struct box *box, const struct rpc_method *method)
{
	struct rpc *rpc = calloc(1, sizeof *rpc);

	if (!rpc) {
		api_refuse(call, 500, "no memory");
		return;
	}
	rpc->call = call;
	rpc->box = box;
	rpc->method = method;
	rpc->held = 1;
	rpc->input = (struct buf)BUF_INIT(MESSAGE_MAX + CONNECT_HEAD + (1U << 20));
	call->own = rpc;
	call->over = over;
	rpc->gone = box_on_gone(box, box_gone, rpc);
	rpc_hold(rpc);
	arm(rpc);
	read_request(rpc);
	rpc_release(rpc);
}

void rpc_exchange(struct api_call *call, struct box *box)
{
	const struct rpc_method *method = find_method(call->exchange);
	const char *type;

	if (!method) {
		api_refuse(call, 404, "there is no such call");
		return;
	}
	call->class = method->name;
	if (!http_slice_is(exchange_head(call->exchange)->method, "POST")) {
		exchange_add(call->exchange, "Allow", "POST");
		api_refuse(call, 405, "a call is a POST");
		return;
	}
	type = method->kind == RPC_UNARY ? UNARY_TYPE : CONNECT_STREAM;
	if (!has_type(call->exchange, type)) {
		exchange_add(call->exchange, "Accept-Post", type);
		api_refuse(call, 415, "this call takes %s", type);
		return;
	}
	serve(call, box, method);
}
