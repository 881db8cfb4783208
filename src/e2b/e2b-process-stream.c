/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.Process: Start and Connect
 *
 * A stream is a reader of the process's output. The process goes on when its stream breaks; output
 * of that time is not sent to later streams.
 *
 * A client that reads slowly makes the process wait, like a pipe: when half of the window is
 * unread, its output waits. A client that reads nothing for STALLED_NS does not hold the process
 * any more; if output is overwritten before the client has read it, the stream ends with
 * resource_exhausted. So a stream has every byte, or an error.
 */
#include "e2b/e2b-process-stream.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "e2b/connect-call.h"
#include "e2b/connect-message.h"
#include "e2b/connect-send.h"
#include "e2b/connect.h"
#include "e2b/e2b-pairs.h"
#include "e2b/e2b-process.h"
#include "httpd/httpd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_MAX  (24U << 10)
#define STALLED_NS (30 * INT64_C(1000000000))
#define ENVS_MAX   4096

struct stream {
	struct rpc *rpc;
	struct process_reader reader;
	struct loop_timer stalled; /* fires if the client reads nothing */
	bool is_terminal;
	bool waits;   /* for the connection to drain */
	bool is_lost; /* output was overwritten before it was sent */
};

bool e2b_process_is_hidden(const struct process *process)
{
	return process->tag && starts_with(process->tag, "atoll:");
}

/* ---- messages ---- */

static void send_start(struct rpc *rpc, const struct process *process)
{
	char text[64];
	int n = snprintf(text, sizeof text, "{\"event\":{\"start\":{\"pid\":%d}}}", process->pid);

	rpc_send(rpc, text, (size_t)n);
}

/* The deadline of Start is also the time-out of the process; either may fire first. */
static bool is_deadline(const struct rpc *rpc, const struct process *process)
{
	return process->end.cause == BOX_CAUSE_TIME_OUT && rpc->timeout_ms > 0 &&
	       rpc->method->handle == e2b_process_start;
}

static void send_end(struct rpc *rpc, const struct process *process)
{
	const struct process_end *end = &process->end;
	bool is_fine = end->has_exited && end->code == 0 && end->cause == BOX_CAUSE_NONE;
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct json json = {&out};

	json_open(&json, NULL, '{');
	json_open(&json, "event", '{');
	json_open(&json, "end", '{');
	json_int(&json, "exitCode", end->has_exited ? end->code : -1);
	json_bool(&json, "exited", end->has_exited);
	json_str(&json, "status", end->text);
	if (!is_fine)
		json_str(&json, "error", end->text);
	json_close(&json, '}');
	json_close(&json, '}');
	json_close(&json, '}');
	rpc_send(rpc, out.data, out.used);
	if (!rpc_is_over(rpc))
		rpc_end(rpc);
}

static void send_data(struct stream *stream, enum process_stream which, const void *data,
		      size_t size)
{
	rpc_send_bytes(stream->rpc,
		       stream->is_terminal    ? "{\"event\":{\"data\":{\"pty\":\""
		       : which == PROCESS_OUT ? "{\"event\":{\"data\":{\"stdout\":\""
					      : "{\"event\":{\"data\":{\"stderr\":\"",
		       data, size, "\"}}}");
}

/* ---- copying output ---- */

static void on_drained(struct exchange *exchange, void *own)
{
	struct rpc *rpc = own;
	struct stream *stream = rpc->own;

	(void)exchange;
	if (rpc_is_over(rpc) || !stream)
		return;
	stream->waits = false;
	process_set_holds(&stream->reader, true);
	loop_disarm(rpc_loop(rpc), &stream->stalled);
	process_wake(&stream->reader);
}

/* The reader stops holding the process, and has to be told when output was overwritten. */
static void on_stalled(struct loop_timer *timer)
{
	struct stream *stream = container_of(timer, struct stream, stalled);

	process_set_holds(&stream->reader, false);
	process_wake(&stream->reader);
}

static void wait_for_client(struct stream *stream)
{
	struct rpc *rpc = stream->rpc;

	if (stream->waits)
		return;
	stream->waits = true;
	process_idle(&stream->reader);
	loop_arm(rpc_loop(rpc), &stream->stalled, clock_monotonic_ns() + STALLED_NS);
	exchange_on_drained(rpc->call->exchange, on_drained, rpc);
}

static bool is_lost(const struct stream *stream)
{
	const struct process_reader *reader = &stream->reader;

	return stream->is_lost ||
	       process_first(reader->process, PROCESS_OUT) > reader->at[PROCESS_OUT] ||
	       process_first(reader->process, PROCESS_ERR) > reader->at[PROCESS_ERR];
}

/* Sends a piece of each stream. Returns the number of bytes; 0: there is no output. */
static size_t pump_once(struct stream *stream, size_t room)
{
	char data[PIECE_MAX];
	size_t all = 0;

	for (enum process_stream which = 0; which < PROCESS_STREAMS; which++) {
		uint64_t at = stream->reader.at[which];
		size_t n = process_read(&stream->reader, which, data,
					room < sizeof data ? room : sizeof data);

		/* Output was overwritten between the two reads. */
		stream->is_lost = stream->is_lost || stream->reader.at[which] - at != n;
		if (n > 0 && !stream->is_lost)
			send_data(stream, which, data, n);
		all += n;
		if (rpc_is_over(stream->rpc))
			break;
	}
	return all;
}

static void pump_held(struct stream *stream)
{
	struct rpc *rpc = stream->rpc;
	size_t room = stream_room_base64(rpc->call), n = 0;

	if (room > 0 && !is_lost(stream))
		n = pump_once(stream, room);
	if (rpc_is_over(rpc))
		return;
	if (is_lost(stream))
		rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED,
			 "output was lost: the stream was not read for %d seconds, and the "
			 "latest %u MiB are kept",
			 (int)(STALLED_NS / INT64_C(1000000000)), PROCESS_WINDOW >> 20);
	else if (stream_room_base64(rpc->call) == 0)
		wait_for_client(stream);
	else if (n > 0)
		process_go_on(&stream->reader);
	else if (!process_is_read(&stream->reader))
		return;
	else if (is_deadline(rpc, stream->reader.process))
		rpc_fail(rpc, RPC_DEADLINE_EXCEEDED, "the process's time of %llu ms is over",
			 (unsigned long long)rpc->timeout_ms);
	else
		send_end(rpc, stream->reader.process);
}

static void pump(struct stream *stream)
{
	struct rpc *rpc = rpc_ref(stream->rpc);

	/* A stream that waits is only called when output was overwritten. */
	if (stream->reader.process && (!stream->waits || is_lost(stream)))
		pump_held(stream);
	rpc_unref(rpc);
}

static void on_ready(struct process_reader *reader)
{
	pump(container_of(reader, struct stream, reader));
}

/* ---- start and end of a stream ---- */

static void stream_over(struct rpc *rpc)
{
	struct stream *stream = rpc->own;

	rpc->own = NULL;
	loop_disarm(rpc_loop(rpc), &stream->stalled);
	process_detach(&stream->reader);
	free(stream);
}

static void attach(struct rpc *rpc, struct process *process, const uint64_t at[PROCESS_STREAMS])
{
	struct stream *stream;

	if (!stream_open(rpc->call)) {
		rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED,
			 "this tenant has as many streams as it may have");
		return;
	}
	stream = calloc(1, sizeof *stream);
	if (!stream) {
		rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	stream->rpc = rpc;
	stream->is_terminal = process->has_terminal;
	stream->stalled.fire = on_stalled;
	stream->reader.ready = on_ready;
	stream->reader.holds = true;
	rpc->own = stream;
	rpc->over = stream_over;
	process_attach(process, &stream->reader, at);
	send_start(rpc, process);
	if (!rpc_is_over(rpc))
		process_go_on(&stream->reader);
}

void e2b_process_connect(struct rpc *rpc)
{
	struct process *process = e2b_process(rpc, rpc->request);

	if (!process)
		return;
	attach(rpc, process,
	       (uint64_t[]){process_size(process, PROCESS_OUT),
			    process_size(process, PROCESS_ERR)});
}

/* ---- Start ---- */

static void on_started(struct process *process, const struct atoll_error *err, void *data)
{
	struct rpc *rpc = data;

	/* The client may have gone; the process goes on. */
	if (rpc_is_over(rpc))
		;
	else if (process)
		attach(rpc, process, (uint64_t[PROCESS_STREAMS]){0});
	else if (err->errnum == ENOENT)
		rpc_fail(rpc, RPC_UNAUTHENTICATED, "invalid username: '%s'",
			 rpc->user ? rpc->user : "user");
	else if (err->errnum == EBUSY) /* the limit of processes */
		rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED, "%s", err->text);
	else
		rpc_fail_error(rpc, err);
	rpc_unref(rpc);
}

static bool read_words(struct rpc *rpc, json_t *config, const char **words)
{
	json_t *args = rpc_field(config, "args"), *word;
	size_t i;

	if (!rpc_text(rpc, config, "cmd", &words[0]))
		return false;
	if (!words[0] || !words[0][0]) {
		rpc_fail(rpc, RPC_INVALID_ARGUMENT, "there is no cmd");
		return false;
	}
	json_array_foreach(args, i, word)
	{
		words[1 + i] = json_string_value(word);
		if (!words[1 + i]) {
			rpc_fail(rpc, RPC_INVALID_ARGUMENT, "args[%zu] is no text", i);
			return false;
		}
	}
	return true;
}

static bool read_environment(struct rpc *rpc, json_t *config, struct box_pairs *ret)
{
	json_t *envs;

	if (!rpc_object(rpc, config, "envs", &envs))
		return false;
	if (json_object_size(envs) > ENVS_MAX || !e2b_read_pairs(envs, ret)) {
		rpc_fail(rpc, RPC_INVALID_ARGUMENT, "envs are not at most %d texts by their names",
			 ENVS_MAX);
		return false;
	}
	for (size_t i = 0; i < ret->n; i++) {
		if (!ret->items[i].name[0] || strchr(ret->items[i].name, '=')) {
			rpc_fail(rpc, RPC_INVALID_ARGUMENT, "'%s' is no name of a variable",
				 ret->items[i].name);
			return false;
		}
	}
	return true;
}

/* A relative path is relative to the user's home already. */
static bool read_directory(struct rpc *rpc, json_t *config, const char **ret)
{
	const char *cwd;

	if (!rpc_text(rpc, config, "cwd", &cwd))
		return false;
	if (cwd && cwd[0] == '~') {
		if (cwd[1] && cwd[1] != '/') {
			rpc_fail(rpc, RPC_INVALID_ARGUMENT,
				 "cwd '%s': of '~' only the own home is supported", cwd);
			return false;
		}
		cwd += 1 + strspn(cwd + 1, "/");
		cwd = cwd[0] ? cwd : ".";
	}
	*ret = cwd && cwd[0] ? cwd : NULL;
	return true;
}

static bool read_options(struct rpc *rpc, json_t *config, struct process_request *request)
{
	json_t *pty;

	request->has_stdin = true;
	if (!read_directory(rpc, config, &request->cwd) ||
	    !rpc_text(rpc, rpc->request, "tag", &request->tag) ||
	    !rpc_bool(rpc, rpc->request, "stdin", &request->has_stdin) ||
	    !rpc_object(rpc, rpc->request, "pty", &pty))
		return false;
	if (request->tag && e2b_process_is_hidden(&(struct process){.tag = (char *)request->tag})) {
		rpc_fail(rpc, RPC_INVALID_ARGUMENT, "a tag cannot begin with atoll:");
		return false;
	}
	request->has_terminal = pty != NULL;
	request->timeout_ms = rpc->timeout_ms;
	request->user = rpc->user;
	request->trace = rpc->call ? rpc->call->trace : NULL;
	return !pty || e2b_terminal_size(rpc, pty, &request->columns, &request->rows);
}

void e2b_process_start(struct rpc *rpc)
{
	struct process_request request = {0};
	cleanup_free const char **words = NULL;
	json_t *config;

	if (!rpc_object(rpc, rpc->request, "process", &config))
		return;
	words = calloc(json_array_size(rpc_field(config, "args")) + 2, sizeof *words);
	if (!words) {
		rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	if (read_words(rpc, config, words) && read_environment(rpc, config, &request.environment) &&
	    read_options(rpc, config, &request)) {
		request.argv = (char *const *)words;
		process_start(rpc->box, &request, on_started, rpc_ref(rpc));
	}
	e2b_free_pairs(&request.environment);
}
