/* SPDX-License-Identifier: Apache-2.0 */
#include "api/connect.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* Standard input comes in messages, so they may be large. */
#define MESSAGE_MAX (16U << 20)

#define KEEPALIVE_S   90
#define KEEPALIVE_MAX 3600
#define NS_OF_S	      INT64_C(1000000000)
#define NS_OF_MS      INT64_C(1000000)
#define UNARY_TYPE    "application/json"
#define STREAM_TYPE   "application/connect+json"

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

/* The method lets go of what it has; no timer fires any more. The exchange may still be there. */
static void leave(struct rpc *rpc)
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
	leave(rpc);
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
	leave(rpc);
	rpc->call = NULL;
	rpc->box = NULL;
	call->box = NULL;
	call->own = NULL;
	call->over = NULL;
	exchange_cut(call->exchange);
	rpc_release(rpc);
}

/* ---- what is said ---- */

static void begin_stream(struct rpc *rpc)
{
	if (rpc->has_begun)
		return;
	rpc->has_begun = true;
	rpc->call->status = 200;
	exchange_begin(rpc->call->exchange, 200, STREAM_TYPE, UINT64_MAX);
}

static void send_envelope(struct rpc *rpc, unsigned flags, const char *message, size_t size)
{
	cleanup_free char *whole = malloc(CONNECT_HEAD + size);

	begin_stream(rpc);
	if (!whole) {
		exchange_cut(rpc->call->exchange);
		return;
	}
	connect_head(flags, size, whole);
	memcpy(whole + CONNECT_HEAD, message, size);
	exchange_send(rpc->call->exchange, whole, CONNECT_HEAD + size);
}

void rpc_send(struct rpc *rpc, const char *message, size_t size)
{
	rpc->sent_ns = clock_monotonic_ns();
	send_envelope(rpc, 0, message, size);
}

void rpc_send_bytes(struct rpc *rpc, const char *before, const void *bytes, size_t size,
		    const char *behind)
{
	size_t n_before = strlen(before), n_behind = strlen(behind), n = (size + 2) / 3 * 4;
	size_t length = n_before + n + n_behind;
	cleanup_free char *whole = malloc(CONNECT_HEAD + length + 1);
	char *at = whole + CONNECT_HEAD;

	rpc->sent_ns = clock_monotonic_ns();
	begin_stream(rpc);
	if (!whole) {
		exchange_cut(rpc->call->exchange);
		return;
	}
	connect_head(0, length, whole);
	memcpy(at, before, n_before);
	EVP_EncodeBlock((unsigned char *)at + n_before, bytes, (int)size);
	memcpy(at + n_before + n, behind, n_behind);
	exchange_send(rpc->call->exchange, whole, CONNECT_HEAD + length);
}

static void finish_stream(struct rpc *rpc, const char *last, size_t size)
{
	struct exchange *exchange = rpc->call->exchange;

	rpc->has_ended = true;
	rpc_hold(rpc);
	send_envelope(rpc, CONNECT_LAST, last, size);
	if (rpc->call) {
		leave(rpc);
		exchange_end(exchange);
	}
	rpc_release(rpc);
}

void rpc_end(struct rpc *rpc)
{
	finish_stream(rpc, "{}", 2);
}

void rpc_answer(struct rpc *rpc, const struct buf *message)
{
	if (buf_error(message) < 0) {
		rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED, "the answer is too large");
		return;
	}
	if (rpc->method->kind == RPC_CLIENT_STREAM) {
		rpc_send(rpc, message->data, message->used);
		rpc_end(rpc);
		return;
	}
	rpc->has_ended = true;
	api_answer(rpc->call, 200, message);
}

void rpc_answer_empty(struct rpc *rpc)
{
	cleanup_buf struct buf message = BUF_INIT(16);

	buf_add_str(&message, "{}");
	rpc_answer(rpc, &message);
}

static void write_failure(struct json *json, const char *key, enum rpc_code code, const char *text)
{
	json_open(json, key, '{');
	json_str(json, "code", rpc_code_name(code));
	json_str(json, "message", text);
	json_close(json, '}');
}

void rpc_fail(struct rpc *rpc, enum rpc_code code, const char *format, ...)
{
	cleanup_buf struct buf out = BUF_INIT(16 << 10);
	struct json json = {&out};
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (rpc->method->kind == RPC_UNARY) {
		write_failure(&json, NULL, code, text);
		rpc->has_ended = true;
		api_answer(rpc->call, rpc_code_status(code), &out);
		return;
	}
	json_open(&json, NULL, '{');
	write_failure(&json, "error", code, text);
	json_close(&json, '}');
	finish_stream(rpc, out.data, out.used);
}

static enum rpc_code code_of(int errnum)
{
	switch (errnum) {
	case ENOENT:
		return RPC_NOT_FOUND;
	case EEXIST:
		return RPC_ALREADY_EXISTS;
	case EINVAL:
	case ENOTDIR:
	case EISDIR:
	case ENAMETOOLONG:
		return RPC_INVALID_ARGUMENT;
	case ELOOP:
		return RPC_FAILED_PRECONDITION;
	case EACCES:
	case EPERM:
	case EROFS:
		return RPC_PERMISSION_DENIED;
	case EDQUOT:
	case EAGAIN:
		return RPC_RESOURCE_EXHAUSTED;
	case ENOTCONN:
	case ECONNRESET:
		return RPC_UNAVAILABLE;
	default:
		return RPC_INTERNAL;
	}
}

void rpc_fail_error(struct rpc *rpc, const struct atoll_error *err)
{
	if (err->errnum == ESRCH)
		rpc_fail(rpc, RPC_UNAUTHENTICATED, "invalid username: '%s'",
			 rpc->user ? rpc->user : "user");
	else
		rpc_fail(rpc, code_of(err->errnum), "%s", err->text);
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
	type = method->kind == RPC_UNARY ? UNARY_TYPE : STREAM_TYPE;
	if (!has_type(call->exchange, type)) {
		exchange_add(call->exchange, "Accept-Post", type);
		api_refuse(call, 415, "this call takes %s", type);
		return;
	}
	serve(call, box, method);
}

/* ---- what is in a message ---- */

json_t *rpc_field(json_t *object, const char *name)
{
	json_t *value = json_object_get(object, name);
	char other[64];
	size_t n = 0;

	if (!value) {
		for (const char *c = name; *c && n + 3 < sizeof other; c++) {
			if (*c >= 'A' && *c <= 'Z')
				other[n++] = '_';
			other[n++] = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
		}
		other[n] = '\0';
		value = json_object_get(object, other);
	}
	return json_is_null(value) ? NULL : value;
}

static bool is_wrong(struct rpc *rpc, const char *name, const char *what)
{
	rpc_fail(rpc, RPC_INVALID_ARGUMENT, "%s is no %s", name, what);
	return false;
}

bool rpc_text(struct rpc *rpc, json_t *object, const char *name, const char **ret)
{
	json_t *value = rpc_field(object, name);

	if (value && !json_is_string(value))
		return is_wrong(rpc, name, "text");
	*ret = json_string_value(value);
	return true;
}

bool rpc_bool(struct rpc *rpc, json_t *object, const char *name, bool *ret)
{
	json_t *value = rpc_field(object, name);

	if (value && !json_is_boolean(value))
		return is_wrong(rpc, name, "true or false");
	if (value)
		*ret = json_is_true(value);
	return true;
}

bool rpc_number(struct rpc *rpc, json_t *object, const char *name, int64_t min, int64_t max,
		int64_t *ret)
{
	json_t *value = rpc_field(object, name);
	int64_t number;
	char *end;

	if (!value)
		return true;
	if (json_is_integer(value)) {
		number = json_integer_value(value);
	} else if (json_is_string(value) && json_string_length(value) > 0) {
		errno = 0;
		number = strtoll(json_string_value(value), &end, 10);
		if (*end || errno)
			return is_wrong(rpc, name, "number");
	} else {
		return is_wrong(rpc, name, "number");
	}
	if (number < min || number > max)
		return is_wrong(rpc, name, "number that makes sense");
	*ret = number;
	return true;
}

bool rpc_object(struct rpc *rpc, json_t *object, const char *name, json_t **ret)
{
	json_t *value = rpc_field(object, name);

	if (value && !json_is_object(value))
		return is_wrong(rpc, name, "object");
	*ret = value;
	return true;
}
