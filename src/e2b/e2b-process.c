/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.Process: list, input, signals, size
 *
 * A selector names a process by its pid inside or by its tag. A running process can be listed and
 * written to; of an ended one only the end can be read, for a while.
 */
#include "e2b/e2b-process.h"

#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "e2b/connect-call.h"
#include "e2b/connect-message.h"
#include "e2b/connect-send.h"
#include "e2b/connect.h"
#include "e2b/e2b-process-stream.h"

#include <signal.h>
#include <stdlib.h>

#define LIST_MAX (32U << 20)

struct process *e2b_process(struct rpc *rpc, json_t *request)
{
	struct process *process = NULL;
	const char *tag = NULL;
	int64_t pid = 0;
	json_t *selector;

	if (!rpc_object(rpc, request, "process", &selector) ||
	    !rpc_number(rpc, selector, "pid", 0, UINT32_MAX, &pid) ||
	    !rpc_text(rpc, selector, "tag", &tag))
		return NULL;
	if (pid > 0 && pid <= INT32_MAX)
		process = process_find_pid(rpc->box, (int32_t)pid);
	else if (tag)
		process = process_find_tag(rpc->box, tag);
	if (process && !e2b_process_is_hidden(process))
		return process;
	if (tag)
		rpc_fail(rpc, RPC_NOT_FOUND, "process with tag %s not found", tag);
	else
		rpc_fail(rpc, RPC_NOT_FOUND, "process with pid %lld not found", (long long)pid);
	return NULL;
}

/* The selected process, if it runs. NULL: the call was answered. */
static struct process *find_running(struct rpc *rpc, json_t *request)
{
	struct process *process = e2b_process(rpc, request);

	if (process && process->has_ended) {
		rpc_fail(rpc, RPC_NOT_FOUND, "process with pid %d not found", process->pid);
		return NULL;
	}
	return process;
}

/* ---- List ---- */

static void write_environment(struct json *json, char *const *environment)
{
	json_open(json, "envs", '{');
	for (; environment && *environment; environment++) {
		const char *is = strchr(*environment, '=');
		cleanup_free char *name =
			is ? strndup(*environment, (size_t)(is - *environment)) : NULL;

		if (name)
			json_str(json, name, is + 1);
	}
	json_close(json, '}');
}

static void write_process(struct json *json, const struct process *process)
{
	json_open(json, NULL, '{');
	json_open(json, "config", '{');
	json_str(json, "cmd", process->argv[0]);
	json_open(json, "args", '[');
	for (size_t i = 1; process->argv[i]; i++)
		json_str(json, NULL, process->argv[i]);
	json_close(json, ']');
	write_environment(json, process->environment);
	if (process->cwd)
		json_str(json, "cwd", process->cwd);
	json_close(json, '}');
	json_int(json, "pid", process->pid);
	if (process->tag && process->tag[0])
		json_str(json, "tag", process->tag);
	json_close(json, '}');
}

static void list(struct rpc *rpc)
{
	cleanup_buf struct buf out = BUF_INIT(LIST_MAX);
	struct json json = {&out};

	json_open(&json, NULL, '{');
	json_open(&json, "processes", '[');
	for (const struct process *p = rpc->box->processes; p; p = p->next) {
		if (!p->has_ended && p->pid > 0 && p->argv && !e2b_process_is_hidden(p))
			write_process(&json, p);
	}
	json_close(&json, ']');
	json_close(&json, '}');
	rpc_answer(rpc, &out);
}

/* ---- input ---- */

/* The bytes to write. Refuses stdin for a process with a terminal, and the other way round. */
static bool read_input(struct rpc *rpc, json_t *input, const struct process *process, char **ret,
		       size_t *ret_size)
{
	const char *text = NULL, *kind = process->has_terminal ? "pty" : "stdin";

	if (!rpc_text(rpc, input, kind, &text))
		return false;
	if (!text) {
		rpc_fail(rpc, RPC_INTERNAL, "the input is not for %s, which process %d has", kind,
			 process->pid);
		return false;
	}
	if (connect_decode(text, strlen(text), ret, ret_size) < 0) {
		rpc_fail(rpc, RPC_INVALID_ARGUMENT, "%s is not in base64", kind);
		return false;
	}
	return true;
}

/* False: the call was answered. */
static bool write_input(struct rpc *rpc, struct process *process, json_t *input)
{
	cleanup_free char *data = NULL;
	size_t size;
	int r;

	if (!read_input(rpc, input, process, &data, &size))
		return false;
	r = size > 0 ? process_write(process, data, size) : 0;
	if (r == -EAGAIN)
		rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED,
			 "process %d does not read: 16 MiB wait already", process->pid);
	else if (r < 0)
		rpc_fail(rpc, RPC_INTERNAL, "error writing to the input of process %d: %s",
			 process->pid,
			 r == -EPIPE ? "it is closed, or there is none" : strerror(-r));
	return r >= 0;
}

static void send_input(struct rpc *rpc)
{
	struct process *process = find_running(rpc, rpc->request);
	json_t *input;

	if (process && rpc_object(rpc, rpc->request, "input", &input) &&
	    write_input(rpc, process, input))
		rpc_answer_empty(rpc);
}

/* The first message of an input stream selects the process. It is looked up again for each message,
 * because it may have ended. */
static void stream_input(struct rpc *rpc)
{
	json_t *start, *data, *input;
	struct process *process;

	if (!rpc_object(rpc, rpc->request, "start", &start) ||
	    !rpc_object(rpc, rpc->request, "data", &data))
		return;
	if (start) {
		process = find_running(rpc, start);
		if (process)
			rpc->own = (void *)(uintptr_t)process->number;
		return;
	}
	if (!data)
		return; /* a keepalive */
	process = rpc->own ? process_find_number(rpc->box, (uintptr_t)rpc->own) : NULL;
	if (!process || process->has_ended)
		rpc_fail(rpc, rpc->own ? RPC_NOT_FOUND : RPC_INVALID_ARGUMENT, "%s",
			 rpc->own ? "the process has ended" : "the first message has no start");
	else if (rpc_object(rpc, data, "input", &input))
		write_input(rpc, process, input);
}

static void close_stdin(struct rpc *rpc)
{
	struct process *process = find_running(rpc, rpc->request);
	int r;

	if (!process)
		return;
	r = process_close_stdin(process);
	if (r == 0)
		rpc_answer_empty(rpc);
	else
		rpc_fail(rpc, RPC_UNKNOWN, "%s",
			 r == -ENOTTY ? "a terminal's input cannot be closed; send Ctrl+D"
				      : strerror(-r));
}

/* ---- signals, and the size of a terminal ---- */

static int signal_of(json_t *value)
{
	const char *name = json_string_value(value);

	if (json_is_integer(value) &&
	    (json_integer_value(value) == 9 || json_integer_value(value) == 15))
		return (int)json_integer_value(value);
	if (name && streq(name, "SIGNAL_SIGKILL"))
		return SIGKILL;
	return name && streq(name, "SIGNAL_SIGTERM") ? SIGTERM : 0;
}

static void send_signal(struct rpc *rpc)
{
	struct process *process = find_running(rpc, rpc->request);
	int number = signal_of(rpc_field(rpc->request, "signal")), r;

	if (!process)
		return;
	if (number == 0) {
		rpc_fail(rpc, RPC_UNIMPLEMENTED,
			 "only SIGNAL_SIGKILL and SIGNAL_SIGTERM can be sent");
		return;
	}
	r = process_signal(process, number);
	if (r == -ESRCH)
		rpc_fail(rpc, RPC_NOT_FOUND, "process with pid %d not found", process->pid);
	else if (r < 0)
		rpc_fail(rpc, RPC_INTERNAL, "error sending signal: %s", strerror(-r));
	else
		rpc_answer_empty(rpc);
}

bool e2b_terminal_size(struct rpc *rpc, json_t *pty, uint16_t *columns, uint16_t *rows)
{
	int64_t wide = 80, high = 24;
	json_t *size;

	if (!rpc_object(rpc, pty, "size", &size) ||
	    !rpc_number(rpc, size, "cols", 0, UINT16_MAX, &wide) ||
	    !rpc_number(rpc, size, "rows", 0, UINT16_MAX, &high))
		return false;
	*columns = (uint16_t)wide;
	*rows = (uint16_t)high;
	return true;
}

static void update(struct rpc *rpc)
{
	struct process *process = find_running(rpc, rpc->request);
	uint16_t columns, rows;
	json_t *pty;
	int r = 0;

	if (!process || !rpc_object(rpc, rpc->request, "pty", &pty))
		return;
	if (pty && !e2b_terminal_size(rpc, pty, &columns, &rows))
		return;
	if (pty)
		r = process_resize(process, columns, rows);
	if (r < 0)
		rpc_fail(rpc, RPC_INTERNAL, "error resizing: %s",
			 r == -ENOTTY ? "the process has no terminal" : strerror(-r));
	else
		rpc_answer_empty(rpc);
}

#define KEEPALIVE "{\"event\":{\"keepalive\":{}}}"

const struct rpc_method e2b_process_methods[] = {
	{"process.Process/Start", RPC_SERVER_STREAM, e2b_process_start, NULL, KEEPALIVE},
	{"process.Process/Connect", RPC_SERVER_STREAM, e2b_process_connect, NULL, KEEPALIVE},
	{"process.Process/List", RPC_UNARY, list},
	{"process.Process/SendInput", RPC_UNARY, send_input},
	{"process.Process/CloseStdin", RPC_UNARY, close_stdin},
	{"process.Process/SendSignal", RPC_UNARY, send_signal},
	{"process.Process/Update", RPC_UNARY, update},
	{"process.Process/StreamInput", RPC_CLIENT_STREAM, stream_input, rpc_answer_empty},
	{0},
};
