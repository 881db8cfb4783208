/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a call: messages, the end, errors. Called by the methods and by connect-call.c. */
#include "e2b/connect-send.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"
#include "e2b/connect-call.h"
#include "e2b/connect.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void begin_stream(struct rpc *rpc)
{
	if (rpc->has_begun)
		return;
	rpc->has_begun = true;
	rpc->call->status = 200;
	exchange_begin(rpc->call->exchange, 200, CONNECT_STREAM, UINT64_MAX);
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
	char *at;

	rpc->sent_ns = clock_monotonic_ns();
	begin_stream(rpc);
	if (!whole) {
		exchange_cut(rpc->call->exchange);
		return;
	}
	connect_head(0, length, whole);
	at = whole + CONNECT_HEAD;
	memcpy(at, before, n_before);
	EVP_EncodeBlock((unsigned char *)at + n_before, bytes, (int)size);
	memcpy(at + n_before + n, behind, n_behind);
	exchange_send(rpc->call->exchange, whole, CONNECT_HEAD + length);
}

static void finish_stream(struct rpc *rpc, const char *last, size_t size)
{
	struct exchange *exchange = rpc->call->exchange;

	rpc->has_ended = true;
	rpc_ref(rpc);
	send_envelope(rpc, CONNECT_LAST, last, size);
	if (rpc->call) {
		rpc_leave(rpc);
		exchange_end(exchange);
	}
	rpc_unref(rpc);
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
