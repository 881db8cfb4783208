/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The logs of boxes: creation, pause and resume, start and end of processes
 *
 * The daemon keeps the latest LOG_ENTRIES entries of each box in memory while the box exists. The
 * output of processes is not logged.
 */
#include "e2b/e2b-logs.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "e2b/e2b-process-stream.h"
#include "e2b/e2b-protocol.h"

#include <stdio.h>
#include <stdlib.h>

#define ANSWER_MAX  (4U << 20)
#define LOG_ENTRIES 128
#define LOG_COMMAND 160 /* bytes of a command line */
#define LIMIT_V1    1000

struct entry {
	int64_t time_ms;
	bool is_warning;
	char *message;
};

struct log {
	char id[BOX_ID_SIZE];
	struct entry entries[LOG_ENTRIES]; /* a ring */
	size_t first, n;
	struct log *next;
};

static struct log **find_log(struct e2b *e2b, const char *id)
{
	uint32_t hash = 2166136261U;
	struct log **link;

	for (const char *c = id; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 16777619U;
	link = &e2b->logs[hash % E2B_LOGS_BUCKETS];
	while (*link && !streq((*link)->id, id))
		link = &(*link)->next;
	return link;
}

static void free_log(struct log *log)
{
	for (size_t i = 0; i < LOG_ENTRIES; i++)
		free(log->entries[i].message);
	free(log);
}

static void remove_log(struct e2b *e2b, const char *id)
{
	struct log **link = find_log(e2b, id), *log = *link;

	if (!log)
		return;
	*link = log->next;
	free_log(log);
}

static void add(struct e2b *e2b, const struct box *box, bool is_warning, const char *message)
{
	struct log **link = find_log(e2b, box->id), *log = *link;
	struct entry *entry;

	if (!log) {
		log = *link = calloc(1, sizeof *log);
		if (!log)
			return;
		snprintf(log->id, sizeof log->id, "%s", box->id);
	}
	entry = &log->entries[(log->first + log->n) % LOG_ENTRIES];
	if (log->n == LOG_ENTRIES)
		log->first = (log->first + 1) % LOG_ENTRIES;
	else
		log->n++;
	free(entry->message);
	*entry = (struct entry){(int64_t)(clock_real_ns() / 1000000), is_warning, strdup(message)};
}

/* ---- events of boxes ---- */

static void show_command(const struct process *process, char ret[LOG_COMMAND])
{
	cleanup_buf struct buf line = BUF_INIT(64U << 10);

	for (size_t i = 0; process->argv && process->argv[i]; i++) {
		buf_add_str(&line, i > 0 ? " " : "");
		buf_add_str(&line, process->argv[i]);
	}
	str_show(line.data ? line.data : "", ret, LOG_COMMAND);
}

static void add_process(struct e2b *e2b, enum box_event event, const struct box *box,
			const struct process *process)
{
	const struct process_end *end = &process->end;
	char command[LOG_COMMAND], text[LOG_COMMAND + 300];

	if (e2b_process_is_hidden(process))
		return;
	show_command(process, command);
	if (event == PROCESS_STARTED)
		snprintf(text, sizeof text, "process %d started: %s", process->pid, command);
	else
		snprintf(text, sizeof text, "process %d ended with %s: %s", process->pid, end->text,
			 command);
	add(e2b, box, event == PROCESS_ENDED && end->cause != BOX_CAUSE_NONE, text);
}

static void on_event(struct box_listener *listener, enum box_event event, struct box *box,
		     struct process *process)
{
	struct e2b *e2b = container_of(listener, struct e2b, logs_listener);
	static const char *const messages[] = {
		[BOX_CREATED] = "sandbox created",
		[BOX_WAS_PAUSED] = "sandbox paused",
		[BOX_RESUMED] = "sandbox resumed",
	};

	if (event == BOX_ENDED)
		remove_log(e2b, box->id);
	else if (process)
		add_process(e2b, event, box, process);
	else if (event < ARRAY_SIZE(messages))
		add(e2b, box, false, messages[event]);
}

void e2b_logs_listen(struct e2b *e2b, struct daemon *daemon)
{
	if (e2b->logs_listener.daemon)
		return;
	e2b->logs_listener =
		(struct box_listener){.daemon = daemon, .told = on_event, .wants_processes = true};
	box_listen(&e2b->logs_listener);
}

void e2b_logs_done(struct e2b *e2b)
{
	if (e2b->logs_listener.daemon)
		box_unlisten(&e2b->logs_listener);
	for (size_t i = 0; i < E2B_LOGS_BUCKETS; i++) {
		for (struct log *log = e2b->logs[i], *next; log; log = next) {
			next = log->next;
			free_log(log);
		}
		e2b->logs[i] = NULL;
	}
}

/* ---- requests ---- */

struct question {
	int64_t from_ms, to_ms;
	size_t limit;
	bool is_backward;
	const char *level, *search;
};

static bool fits(const struct question *question, const struct entry *entry)
{
	return entry->message && entry->time_ms >= question->from_ms &&
	       entry->time_ms <= question->to_ms &&
	       (!question->search || strstr(entry->message, question->search)) &&
	       (!question->level || streq(question->level, "debug") ||
		streq(question->level, "info") ||
		(entry->is_warning && streq(question->level, "warn")));
}

static void write_entry(struct json *json, const struct entry *entry, bool is_plain)
{
	char time[32];

	api_time(entry->time_ms, time);
	json_open(json, NULL, '{');
	json_str(json, "timestamp", time);
	if (is_plain) {
		json_str(json, "line", entry->message);
	} else {
		json_str(json, "level", entry->is_warning ? "warn" : "info");
		json_str(json, "message", entry->message);
		json_open(json, "fields", '{');
		json_close(json, '}');
	}
	json_close(json, '}');
}

static void write_entries(struct json *json, const char *key, const struct log *log,
			  const struct question *question, bool is_plain)
{
	size_t n = 0;

	json_open(json, key, '[');
	for (size_t i = 0; log && i < log->n && n < question->limit; i++) {
		size_t at = question->is_backward ? log->n - 1 - i : i;
		const struct entry *entry = &log->entries[(log->first + at) % LOG_ENTRIES];

		if (!fits(question, entry))
			continue;
		write_entry(json, entry, is_plain);
		n++;
	}
	json_close(json, ']');
}

static bool read_number(struct api_call *call, const char *name, int64_t *ret)
{
	const char *text = exchange_query(call->exchange, name);
	char *end;

	if (!text)
		return true;
	*ret = strtoll(text, &end, 10);
	if (*text && !*end && *ret >= 0)
		return true;
	api_refuse(call, 400, "%s: is no number", name);
	return false;
}

void e2b_logs_v1(struct api_call *call)
{
	struct question question = {.to_ms = INT64_MAX};
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct box *box = api_box(call);
	struct json json = {&out};
	int64_t limit = LIMIT_V1;
	const struct log *log;

	if (!box || !read_number(call, "start", &question.from_ms) ||
	    !read_number(call, "limit", &limit))
		return;
	log = *find_log(e2b_of(call), box->id);
	question.limit = (size_t)limit;
	json_open(&json, NULL, '{');
	write_entries(&json, "logs", log, &question, true);
	write_entries(&json, "logEntries", log, &question, false);
	json_close(&json, '}');
	api_answer(call, 200, &out);
}

void e2b_logs(struct api_call *call)
{
	struct question question = {.to_ms = INT64_MAX};
	const char *direction = exchange_query(call->exchange, "direction");
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct box *box = api_box(call);
	struct json json = {&out};
	int64_t limit = LIMIT_V1, cursor = -1;
	const struct log *log;

	if (!box || !read_number(call, "cursor", &cursor) || !read_number(call, "limit", &limit))
		return;
	log = *find_log(e2b_of(call), box->id);
	question.limit = (size_t)limit;
	question.is_backward = direction && streq(direction, "backward");
	question.level = exchange_query(call->exchange, "level");
	question.search = exchange_query(call->exchange, "search");
	if (cursor >= 0 && question.is_backward)
		question.to_ms = cursor;
	else if (cursor >= 0)
		question.from_ms = cursor;
	json_open(&json, NULL, '{');
	write_entries(&json, "logs", log, &question, false);
	json_close(&json, '}');
	api_answer(call, 200, &out);
}
