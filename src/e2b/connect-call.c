/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/connect-call.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "e2b/connect-send.h"
#include "e2b/connect.h"
#include "e2b/e2b-filesystem.h"
#include "e2b/e2b-process.h"
#include "e2b/e2b-watch.h"
#include "e2b/interpreter-context.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/*
 * The life of a remote call
 *
 * rpc_exchange() finds the method and reads the request; handle_message() calls the method for each
 * message. The call ends by an answer, by its deadline, or with its box or exchange; it is freed
 * with its last reference.
 */

/* A message may contain standard input, so it may be large. */
#define MESSAGE_MAX (16U << 20)

/* Messages of a client's stream that are handled in one piece of the lane. */
#define MESSAGES_A_PIECE 16

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

/* ---- references and end ---- */

struct rpc *rpc_ref(struct rpc *rpc)
{
	rpc->n_refs++;
	return rpc;
}

static void drop_request(struct rpc *rpc)
{
	if (!rpc->document)
		json_decref(rpc->request);
	parse_free(rpc->document);
	rpc->request = NULL;
	rpc->document = NULL;
}

void rpc_unref(struct rpc *rpc)
{
	if (--rpc->n_refs > 0)
		return;
	drop_request(rpc);
	buf_done(&rpc->input);
	held_drop(&rpc->input_held);
	free(rpc->user);
	free(rpc);
}

void rpc_leave(struct rpc *rpc)
{
	void (*over)(struct rpc *) = rpc->over;

	rpc->over = NULL;
	if (over)
		over(rpc);
	loop_disarm(rpc_loop(rpc), &rpc->deadline);
	loop_disarm(rpc_loop(rpc), &rpc->quiet);
	loop_unqueue(&rpc->piece);
}

static void forget_box(struct rpc *rpc)
{
	if (rpc->gone)
		box_forget_gone(rpc->box, rpc->gone);
	rpc->gone = 0;
}

static void on_over(struct api_call *call, bool is_broken)
{
	struct rpc *rpc = call->own;

	(void)is_broken;
	rpc_leave(rpc);
	forget_box(rpc);
	rpc->call = NULL;
	rpc->box = NULL;
	rpc_unref(rpc);
}

/* The box was killed or paused: the connection breaks, and E2B's clients ask for the reason by
 * another request. */
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
	rpc_unref(rpc);
}

/* ---- timers ---- */

static void on_deadline(struct loop_timer *timer)
{
	struct rpc *rpc = container_of(timer, struct rpc, deadline);

	if (!rpc_is_over(rpc))
		rpc_fail(rpc, RPC_DEADLINE_EXCEEDED, "the call's deadline of %llu ms has passed",
			 (unsigned long long)rpc->timeout_ms);
}

/* No keepalive before the first message, and none to a client that does not read. */
static void on_quiet(struct loop_timer *timer)
{
	struct rpc *rpc = container_of(timer, struct rpc, quiet);
	int64_t now = clock_monotonic_ns(), due = rpc->sent_ns + rpc->keepalive_ns;

	if (rpc_is_over(rpc))
		return;
	rpc_ref(rpc);
	if (rpc->has_begun && due <= now && exchange_waiting(rpc->call->exchange) == 0)
		rpc_send(rpc, rpc->method->keepalive, strlen(rpc->method->keepalive));
	if (!rpc_is_over(rpc))
		loop_arm(rpc_loop(rpc), timer, due > now ? due : now + rpc->keepalive_ns);
	rpc_unref(rpc);
}

static void arm_quiet(struct rpc *rpc)
{
	const char *timeout = exchange_field(rpc->call->exchange, "connect-timeout-ms");
	const char *interval = exchange_field(rpc->call->exchange, "keepalive-ping-interval");
	int64_t now = clock_monotonic_ns();
	uint64_t ms, s = KEEPALIVE_S;

	rpc->deadline.fire = on_deadline;
	rpc->quiet.fire = on_quiet;
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

/* ---- messages ---- */

static void handle_input(struct rpc *rpc);

/* `body` is NULL if `why` is not empty; else it is rpc->request. */
static void use_message(struct rpc *rpc, const json_t *body, const char *why)
{
	if (!body)
		rpc_fail(rpc, RPC_INVALID_ARGUMENT, "the message is no JSON: %s", why);
	else if (!json_is_object(body))
		rpc_fail(rpc, RPC_INVALID_ARGUMENT, "the message is no JSON object");
	else
		rpc->method->handle(rpc);
}

static void on_parsed(struct parse *parse, json_t *body, const char *why, void *data)
{
	struct rpc *rpc = data;

	rpc->is_parsing = false;
	if (!rpc_is_over(rpc)) {
		drop_request(rpc);
		parse_keep(parse);
		rpc->document = parse;
		rpc->request = body;
		use_message(rpc, body, why);
		if (rpc->method->kind == RPC_CLIENT_STREAM)
			handle_input(rpc);
	}
	rpc_unref(rpc);
}

/* Parses the bytes of `text` from `from` on, and frees `text`. */
static void parse_message(struct rpc *rpc, char *text, size_t from, size_t size)
{
	rpc->is_parsing = parse_start(&(struct parse_request){.daemon = rpc->call->api->daemon,
							      .tenant = rpc->box->tenant,
							      .text = text,
							      .from = from,
							      .size = size},
				      on_parsed, rpc_ref(rpc));
	if (rpc->is_parsing)
		return;
	rpc_unref(rpc);
	rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED,
		 "this tenant has too many requests in memory; retry later");
}

static void handle_message(struct rpc *rpc, const char *data, size_t size)
{
	char why[160] = "", *copy;

	if (size <= PARSE_SMALL) {
		drop_request(rpc);
		rpc->request = parse_text(data, size, why);
		use_message(rpc, rpc->request, why);
		return;
	}
	copy = malloc(size);
	if (copy)
		memcpy(copy, data, size);
	parse_message(rpc, copy, 0, size);
}

static const char *why_bad(int r)
{
	return r == -EMSGSIZE ? "a message of more than 16 MiB"
	       : r == 0	      ? "the request ends within an envelope"
			      : "an envelope with flags, which were not agreed on";
}

/* The start of the message; false: the call was answered. */
static bool find_message(struct rpc *rpc, const char *data, size_t size, size_t *ret_from)
{
	struct connect_envelope envelope = {0};
	int r;

	*ret_from = 0;
	if (rpc->method->kind == RPC_UNARY)
		return true;
	*ret_from = CONNECT_HEAD;
	r = connect_next(data, size, MESSAGE_MAX, &envelope);
	if (r > 0 && envelope.used == size)
		return true;
	rpc_fail(rpc, RPC_INVALID_ARGUMENT, "%s", r <= 0 ? why_bad(r) : "more than one message");
	return false;
}

static void on_whole(struct exchange *exchange, const char *data, size_t size, void *own)
{
	struct rpc *rpc = rpc_ref(own);
	size_t from;

	if (!rpc_is_over(rpc) && find_message(rpc, data, size, &from)) {
		if (size - from > PARSE_SMALL)
			parse_message(rpc, exchange_detach_whole(exchange), from, size - from);
		else
			handle_message(rpc, data + from, size - from);
	}
	rpc_unref(rpc);
}

/* Handles some of the messages in the input. True: there may be more. */
static bool handle_envelopes(struct rpc *rpc)
{
	struct connect_envelope envelope;
	size_t used = 0;
	int r = 1;

	for (int i = 0; i < MESSAGES_A_PIECE && !rpc_is_over(rpc) && !rpc->is_parsing; i++) {
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
	held_set(&rpc->input_held, NULL, rpc->input.used);
	return r > 0;
}

/* The stream waits while a message is parsed, and for its lane. */
static void handle_input(struct rpc *rpc)
{
	bool has_more = !rpc_is_over(rpc) && handle_envelopes(rpc);

	if (rpc_is_over(rpc))
		return;
	if (has_more || rpc->is_parsing)
		exchange_pause(rpc->call->exchange);
	else
		exchange_resume(rpc->call->exchange);
	if (has_more && !rpc->is_parsing)
		loop_queue(rpc_loop(rpc), &rpc->box->tenant->own.lane, &rpc->piece);
}

static void run_piece(struct loop_turn *piece)
{
	struct rpc *rpc = rpc_ref(container_of(piece, struct rpc, piece));

	handle_input(rpc);
	rpc_unref(rpc);
}

static void on_piece(struct exchange *exchange, const char *data, size_t size, void *own)
{
	struct rpc *rpc = rpc_ref(own);

	(void)exchange;
	if (!rpc_is_over(rpc) && size > 0) {
		buf_add(&rpc->input, data, size);
		if (buf_error(&rpc->input) < 0 ||
		    !held_set(&rpc->input_held, rpc->box->tenant, rpc->input.used))
			rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED, "no memory for the message");
		else
			handle_input(rpc);
	} else if (!rpc_is_over(rpc)) {
		if (rpc->input.used > 0)
			rpc_fail(rpc, RPC_INVALID_ARGUMENT, "%s", why_bad(0));
		else
			rpc->method->finish(rpc);
	}
	rpc_unref(rpc);
}

/* ---- start of a call ---- */

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
		exchange_read(exchange, on_piece, rpc);
	else
		exchange_read_whole(exchange, MESSAGE_MAX + CONNECT_HEAD, on_whole, rpc);
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
	rpc->n_refs = 1;
	rpc->input = (struct buf)BUF_INIT(MESSAGE_MAX + CONNECT_HEAD + (1U << 20));
	rpc->piece.run = run_piece;
	call->own = rpc;
	call->over = on_over;
	rpc->gone = box_on_gone(box, box_gone, rpc);
	rpc_ref(rpc);
	arm_quiet(rpc);
	read_request(rpc);
	rpc_unref(rpc);
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
		api_refuse(call, 415, "this call needs Content-Type %s", type);
		return;
	}
	serve(call, box, method);
}
