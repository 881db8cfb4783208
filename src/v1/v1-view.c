/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-view.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/str.h"
#include "v1/v1-sandbox.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>

/* Sandboxes and steps as JSON, as the schemas of openapi.json describe them. */

void v1_write_time(struct json *json, const char *key, int64_t ms)
{
	char text[32];

	if (ms <= 0 || ms == INT64_MAX) {
		json_none(json, key);
		return;
	}
	api_time(ms, text);
	json_str(json, key, text);
}

bool v1_label_is_reserved(const char *name)
{
	return starts_with(name, "atoll.");
}

void v1_write_pairs(struct json *json, const char *key, const struct box_pairs *pairs)
{
	json_open(json, key, '{');
	for (size_t i = 0; i < pairs->n; i++) {
		if (!v1_label_is_reserved(pairs->items[i].name))
			json_str(json, pairs->items[i].name, pairs->items[i].value);
	}
	json_close(json, '}');
}

const char *v1_label(const struct box *box, const char *name)
{
	for (size_t i = 0; i < box->labels.n; i++) {
		if (streq(box->labels.items[i].name, name))
			return box->labels.items[i].value;
	}
	return NULL;
}

static const char *state_name(const struct box *box)
{
	static const char *const names[] = {
		[BOX_STARTING] = "starting",
		[BOX_RUNNING] = "running",
		[BOX_PAUSED] = "paused",
		[BOX_ENDING] = "ended",
	};

	return names[box->state];
}

static void write_double(struct json *json, const char *key, double value)
{
	char text[48];

	/* Six digits; base/json.h writes no fractions. */
	snprintf(text, sizeof text, "%.6f", value >= 0 && value < 1e15 ? value : 0.0);
	json_raw(json, key, text);
}

static void write_used(struct json *json, const struct box_usage *usage)
{
	write_double(json, "cpuSeconds", usage->cpu_s);
	write_double(json, "memoryGiBSeconds", usage->gib_s);
	json_uint(json, "bytesIn", usage->bytes_in);
	json_uint(json, "bytesOut", usage->bytes_out);
	json_uint(json, "steps", usage->n_steps);
}

static size_t living_steps(const struct box *box)
{
	size_t n = 0;

	for (const struct process *at = box->processes; at; at = at->next)
		n += !at->has_ended;
	return n;
}

static void latest_sample(const struct box *box, struct box_sample *ret)
{
	/* The sample of an idle sandbox may be up to a minute old. */
	const int64_t now_ms = (int64_t)(clock_real_ns() / 1000000), minute_ms = 60000;
	struct box_sample samples[64];
	size_t n = box_samples(box, now_ms - 2 * minute_ms, now_ms, samples, ARRAY_SIZE(samples));

	if (n > 0)
		*ret = samples[n - 1];
}

static void write_box_usage(struct json *json, struct box *box)
{
	struct box_sample sample = {0};
	struct box_usage usage;

	box_usage(box, &usage);
	latest_sample(box, &sample);
	json_open(json, "usage", '{');
	write_used(json, &usage);
	write_double(json, "cpuPercent", sample.cpu_percent);
	json_uint(json, "memory", sample.memory_used);
	json_uint(json, "disk", sample.disk_used);
	/* Without a control group: the number of running steps. */
	json_uint(json, "processes", sample.processes ? sample.processes : living_steps(box));
	json_uint(json, "livingSteps", living_steps(box));
	json_close(json, '}');
}

void v1_write_box(struct json *json, const char *key, struct box *box, bool with_usage)
{
	json_open(json, key, '{');
	json_str(json, "id", box->id);
	json_str(json, "record", box->sandbox);
	json_str(json, "state", state_name(box));
	json_str(json, "template", box->template_id[0] ? box->template_id : NULL);
	json_str(json, "alias", box->alias[0] ? box->alias : NULL);
	v1_write_pairs(json, "labels", &box->labels);
	v1_write_pairs(json, "metadata", &box->metadata);
	v1_write_time(json, "startedAt", box->start_ms);
	v1_write_time(json, "endsAt", box->state == BOX_PAUSED ? 0 : box->end_ms);
	json_str(json, "onTimeout", box->pauses_at_end ? "pause" : "delete");
	json_bool(json, "keepsMemory", box->state == BOX_PAUSED && box->keeps_memory);
	json_bool(json, "internet", box->has_internet);
	json_uint(json, "cpus", box->cpus);
	json_uint(json, "memoryMiB", box->memory_mib);
	json_uint(json, "diskMiB", box->disk_mib);
	json_bool(json, "isJob", v1_label(box, V1_LABEL_JOB) != NULL);
	if (with_usage)
		write_box_usage(json, box);
	json_close(json, '}');
}

void v1_answer_box(struct api_call *call, unsigned status, struct box *box)
{
	cleanup_buf struct buf out = BUF_INIT(4 << 20);
	struct json json = {.out = &out};

	v1_write_box(&json, NULL, box, true);
	api_answer(call, status, &out);
}

/* ---- usage of a tenant ---- */

static void write_quota(struct json *json, const char *key, uint64_t used, uint64_t most)
{
	json_open(json, key, '{');
	json_uint(json, "used", used);
	if (most == UINT64_MAX)
		json_none(json, "limit");
	else
		json_uint(json, "limit", most);
	json_close(json, '}');
}

void v1_usage(struct api_call *call)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 20);
	struct json json = {.out = &out};
	const struct tenant *tenant = call->tenant;
	struct box_usage usage;

	tenant_usage(tenant, &usage);
	json_open(&json, NULL, '{');
	json_str(&json, "tenant", tenant->name);
	write_used(&json, &usage);
	write_quota(&json, "sandboxes", tenant->n_boxes, tenant->max_boxes);
	write_quota(&json, "memoryMiB", tenant->memory_mib, tenant->max_memory_mib);
	write_quota(&json, "diskMiB", tenant->disk_mib, tenant->max_disk_mib);
	write_quota(&json, "cpus", tenant->cpus, tenant->max_cpus);
	json_close(&json, '}');
	api_answer(call, 200, &out);
}

/* ---- steps ---- */

void v1_write_base64(struct json *json, const char *key, const void *data, size_t size)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *in = data;
	char out[4096 + 4];
	size_t n = 0;

	json_raw(json, key, "\"");
	for (size_t i = 0; i < size; i += 3) {
		uint32_t bits = (uint32_t)in[i] << 16;

		bits |= i + 1 < size ? (uint32_t)in[i + 1] << 8 : 0;
		bits |= i + 2 < size ? in[i + 2] : 0;
		out[n++] = digits[bits >> 18];
		out[n++] = digits[bits >> 12 & 63];
		out[n++] = i + 1 < size ? digits[bits >> 6 & 63] : '=';
		out[n++] = i + 2 < size ? digits[bits & 63] : '=';
		if (n >= 4096) {
			buf_add(json->out, out, n);
			n = 0;
		}
	}
	buf_add(json->out, out, n);
	buf_add_char(json->out, '"');
}

static void write_end(struct json *json, const struct process_end *end)
{
	json_open(json, "result", '{');
	if (end->has_exited) {
		json_int(json, "exitCode", end->code);
		json_none(json, "signal");
	} else {
		json_none(json, "exitCode");
		json_str(json, "signal", v1_signal_name(end->code));
	}
	json_str(json, "cause", end->cause == BOX_CAUSE_NONE ? NULL : box_cause_name(end->cause));
	json_str(json, "message", end->text);
	json_uint(json, "cpuMs", end->cpu_ms);
	json_uint(json, "memoryPeak", end->memory_peak);
	json_close(json, '}');
}

/* From the first byte, if the output is short enough for the object. */
static void write_stream(struct json *json, struct process *process, enum process_stream stream,
			 bool with_data)
{
	uint64_t at[PROCESS_STREAMS] = {UINT64_MAX, UINT64_MAX};
	struct process_reader reader = {0};
	uint64_t first = process_first(process, stream), size = process_size(process, stream);
	cleanup_free char *data = NULL;
	size_t n = 0, got;

	json_open(json, stream == PROCESS_OUT ? "out" : "err", '{');
	json_uint(json, "first", first);
	json_uint(json, "size", size);
	if (with_data && size > first)
		data = malloc(V1_INLINE);
	if (data) {
		at[stream] = first;
		process_attach(process, &reader, at);
		while (n < V1_INLINE &&
		       (got = process_read(&reader, stream, data + n, V1_INLINE - n)) > 0)
			n += got;
		process_detach(&reader);
	}
	if (with_data)
		v1_write_base64(json, "data", data, n);
	json_close(json, '}');
}

void v1_write_step(struct json *json, const char *key, struct process *process, bool with_data)
{
	v1_write_step_as(json, key, process, process->has_ended ? &process->end : NULL,
			 process->end_ms, with_data);
}

void v1_write_step_as(struct json *json, const char *key, struct process *process,
		      const struct process_end *end, int64_t end_ms, bool with_data)
{
	json_open(json, key, '{');
	json_uint(json, "number", process->number);
	json_str(json, "sandbox", process->box->id);
	json_str(json, "state", end ? "ended" : "running");
	json_str(json, "requestId", process->key && process->key[0] ? process->key : NULL);
	json_open(json, "command", '[');
	for (char **word = process->argv; word && *word; word++)
		json_str(json, NULL, *word);
	json_close(json, ']');
	json_str(json, "cwd", process->cwd);
	json_str(json, "user", process->user);
	json_int(json, "pid", process->pid);
	json_bool(json, "terminal", process->has_terminal);
	json_bool(json, "stdin", process->has_stdin);
	json_open(json, "input", '{');
	json_uint(json, "taken", process_input_taken(process));
	json_bool(json, "closed", end || process_input_is_closed(process));
	json_close(json, '}');
	v1_write_time(json, "startedAt", process->start_ms);
	v1_write_time(json, "endedAt", end ? end_ms : 0);
	if (end)
		write_end(json, end);
	else
		json_none(json, "result");
	write_stream(json, process, PROCESS_OUT, with_data);
	write_stream(json, process, PROCESS_ERR, with_data);
	json_close(json, '}');
}

/* ---- signals ---- */

static const struct {
	const char *name;
	int number;
} signals[] = {
	{"SIGHUP", SIGHUP},   {"SIGINT", SIGINT},     {"SIGQUIT", SIGQUIT},
	{"SIGILL", SIGILL},   {"SIGTRAP", SIGTRAP},   {"SIGABRT", SIGABRT},
	{"SIGBUS", SIGBUS},   {"SIGFPE", SIGFPE},     {"SIGKILL", SIGKILL},
	{"SIGUSR1", SIGUSR1}, {"SIGSEGV", SIGSEGV},   {"SIGUSR2", SIGUSR2},
	{"SIGPIPE", SIGPIPE}, {"SIGALRM", SIGALRM},   {"SIGTERM", SIGTERM},
	{"SIGCONT", SIGCONT}, {"SIGSTOP", SIGSTOP},   {"SIGTSTP", SIGTSTP},
	{"SIGTTIN", SIGTTIN}, {"SIGTTOU", SIGTTOU},   {"SIGURG", SIGURG},
	{"SIGXCPU", SIGXCPU}, {"SIGXFSZ", SIGXFSZ},   {"SIGVTALRM", SIGVTALRM},
	{"SIGPROF", SIGPROF}, {"SIGWINCH", SIGWINCH}, {"SIGIO", SIGIO},
	{"SIGPWR", SIGPWR},   {"SIGSYS", SIGSYS},
};

int v1_signal_number(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		if (streq(name, signals[i].name) || streq(name, signals[i].name + 3))
			return signals[i].number;
	}
	return 0;
}

const char *v1_signal_name(int number)
{
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		if (signals[i].number == number)
			return signals[i].name;
	}
	return "SIGRTMIN";
}
