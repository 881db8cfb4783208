/* SPDX-License-Identifier: Apache-2.0 */
#include "eventlog/eventlog-event.h"

#include "base/str.h"
#include "eventlog/eventlog-count.h"
#include "eventlog/eventlog-hash.h"
#include "eventlog/eventlog-line.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Events of a step, one function per kind
 *
 * The supervisor and the holder call these functions. Events of pid 1 come by eventlog_notice(). An
 * execution waits until the hash of its file is known (eventlog-hash.c), so its line may come after
 * lines of later events; its time is that of the event.
 */

/* ---- executions ---- */

/* Executions that wait for a hash at the same time; further ones are written without. */
#define WAITING_MAX 4096

/* A copy of a notice. */
struct waiting {
	struct waiting *next;
	size_t n_texts;
	const char **texts;
	struct notice notice; /* with its texts behind it */
};

static void write_exec(struct eventlog *eventlog, const struct notice *notice,
		       const char *const *texts, size_t n_texts, const unsigned char *hash,
		       const char *why)
{
	struct json *json = eventlog_begin_event(
		eventlog, &(struct eventlog_event){.kind = "exec",
						   .time_ns = notice->time_ns,
						   .step = eventlog_step_of(eventlog, notice),
						   .object = texts[0],
						   .count = 1});

	json_int(json, "pid", notice->pid);
	json_int(json, "parent", notice->parent);
	json_strn(json, "program", notice->program,
		  strnlen(notice->program, sizeof notice->program));
	json_str(json, "path", texts[0]);
	json_open(json, "argv", '[');
	for (size_t i = 1; i < n_texts; i++)
		eventlog_add_redacted(json, NULL, texts[i], i > 1 ? texts[i - 1] : NULL);
	json_close(json, ']');
	json_uint(json, "argc", notice->value);
	if (notice->flags & NOTICE_IS_CUT || notice->value + 1 > n_texts)
		json_bool(json, "cut", true);
	eventlog_add_hash(json, "hash", hash);
	if (!hash)
		json_str(json, "why", why);
	if (notice->file.ctime_ns > eventlog->opened_ns)
		json_bool(json, "fresh", true);
	if (notice->flags & NOTICE_IS_SCRIPT)
		json_bool(json, "script", true);
	eventlog_commit(eventlog);
}

/* The texts follow the notice in one block: copy the block, and point into the copy. */
static bool queue_exec(struct eventlog *eventlog, const struct notice *notice,
		       const char *const *texts)
{
	struct waiting *entry;
	char *at;
	size_t size = sizeof *entry + notice->size, n = notice->n_texts;

	if (eventlog->n_waiting == WAITING_MAX)
		return false;
	entry = malloc(size + n * sizeof *entry->texts + sizeof(void *));
	if (!entry)
		return false;
	entry->texts =
		(const char **)(void *)((char *)entry + (size + sizeof(void *) - 1) /
								sizeof(void *) * sizeof(void *));
	entry->n_texts = n;
	memcpy(&entry->notice, notice, notice->size);
	at = entry->notice.texts;
	for (size_t i = 0; i < n; i++)
		entry->texts[i] = at + (texts[i] - notice->texts);
	entry->next = eventlog->waiting;
	eventlog->waiting = entry;
	eventlog->n_waiting++;
	return true;
}

static void handle_exec(struct eventlog *eventlog, const struct parsed_notice *parsed)
{
	const struct notice *notice = parsed->notice;
	const char *const *texts = parsed->texts;
	unsigned char hash[HASH_SIZE];
	int r;

	if (notice->n_texts < 1)
		return;
	/* pid 1 cannot read the memory of a step's process before its first execve(), and that
	 * process tries one directory of PATH after the other: write one line for all of them. */
	if (!texts[0][0] && notice->pid == eventlog->unseen_pid)
		return;
	eventlog->unseen_pid = texts[0][0] ? 0 : notice->pid;
	if (!eventlog->hashes)
		eventlog->hashes = file_hashes_new();
	r = eventlog->hashes && notice->file.ino
		    ? file_hashes_find(eventlog->hashes, &notice->file, parsed->fd, hash)
		    : -ENOENT;
	if (r == 0 && queue_exec(eventlog, notice, texts))
		return;
	write_exec(eventlog, notice, texts, notice->n_texts, r > 0 ? hash : NULL,
		   r == 0 ? "too many at a time" : "the file could not be read");
}

/* The list has the latest execution first; lines are written in order. */
static struct waiting *reverse(struct waiting *list)
{
	struct waiting *reversed = NULL, *next;

	for (; list; list = next) {
		next = list->next;
		list->next = reversed;
		reversed = list;
	}
	return reversed;
}

void eventlog_write_hashed(struct eventlog *eventlog)
{
	struct waiting *list = reverse(eventlog->waiting), *next;

	eventlog->waiting = NULL;
	eventlog->n_waiting = 0;
	for (; list; list = next) {
		unsigned char hash[HASH_SIZE];
		int r = file_hashes_find(eventlog->hashes, &list->notice.file, -1, hash);

		next = list->next;
		if (r == 0) {
			list->next = eventlog->waiting;
			eventlog->waiting = list;
			eventlog->n_waiting++;
			continue;
		}
		write_exec(eventlog, &list->notice, list->texts, list->n_texts, r > 0 ? hash : NULL,
			   "the file could not be read");
		free(list);
	}
}

void eventlog_wait_for_hashes(struct eventlog *eventlog)
{
	while (eventlog->waiting && file_hashes_move(eventlog->hashes, true))
		eventlog_write_hashed(eventlog);
	/* The process that reads files has died. */
	for (struct waiting *list = reverse(eventlog->waiting), *next; list; list = next) {
		next = list->next;
		write_exec(eventlog, &list->notice, list->texts, list->n_texts, NULL,
			   "the file could not be read");
		free(list);
	}
	eventlog->waiting = NULL;
	eventlog->n_waiting = 0;
}

void eventlog_forget_waiting(struct eventlog *eventlog)
{
	for (struct waiting *next; eventlog->waiting; eventlog->waiting = next) {
		next = eventlog->waiting->next;
		free(eventlog->waiting);
	}
}

/* ---- refusals ---- */

static void write_denial(struct eventlog *eventlog, uint64_t time_ns, uint32_t step, int32_t pid,
			 const char *program, size_t program_size, const char *action,
			 const char *object, const char *rule, const char *allow, uint64_t count)
{
	struct json *json = eventlog_begin_event(
		eventlog, &(struct eventlog_event){.kind = "denial",
						   .time_ns = time_ns,
						   .step = step,
						   .rule = rule,
						   .object = object,
						   .count = count ? count : 1});

	json_int(json, "pid", pid);
	json_strn(json, "program", program, strnlen(program, program_size));
	json_str(json, "action", action);
	eventlog_add_redacted(json, "object", object, NULL);
	json_str(json, "rule", rule);
	json_str(json, "allow", allow && allow[0] ? allow : NULL);
	json_uint(json, "count", count ? count : 1);
	eventlog_commit(eventlog);
	eventlog_counts(eventlog, step)->denials += count ? count : 1;
}

void eventlog_denial(struct eventlog *eventlog, uint32_t step, const struct atoll_denial *denial)
{
	if (eventlog)
		write_denial(eventlog, 0, step, denial->pid, denial->program,
			     sizeof denial->program, denial->action, denial->path, denial->rule,
			     denial->allow, (uint64_t)denial->count);
}

/* ---- notices of pid 1 ---- */

static void write_lost(struct eventlog *eventlog, const struct notice *notice)
{
	struct json *json = eventlog_begin_event(
		eventlog, &(struct eventlog_event){.kind = "lost",
						   .time_ns = notice->time_ns,
						   .step = eventlog_step_of(eventlog, notice),
						   .count = notice->value});

	json_uint(json, "count", notice->value);
	json_str(json, "why", "they came faster than they could be told");
	eventlog_commit(eventlog);
}

void eventlog_notice(struct eventlog *eventlog, const struct parsed_notice *parsed)
{
	const struct notice *notice = parsed->notice;
	const char *const *texts = parsed->texts;

	if (!eventlog)
		return;
	switch (notice->type) {
	case NOTICE_EXEC:
		handle_exec(eventlog, parsed);
		break;
	case NOTICE_DENIAL:
		if (parsed->n_texts >= 4)
			write_denial(eventlog, notice->time_ns, eventlog_step_of(eventlog, notice),
				     notice->pid, notice->program, sizeof notice->program, texts[0],
				     texts[2], texts[1], texts[3], notice->value);
		break;
	case NOTICE_CHANGE:
		eventlog_note_change(eventlog, parsed);
		break;
	case NOTICE_LOST:
		write_lost(eventlog, notice);
		break;
	default:
		break;
	}
}

/* ---- events of the supervisor and the holder ---- */

static void add_missing_connections(struct eventlog *eventlog, uint32_t step)
{
	struct json *json = eventlog_begin(eventlog, "lost", 0, step);

	/* The number is unknown. 1, because a receipt adds up these counts and must not show 0. */
	json_uint(json, "count", 1);
	json_str(json, "why",
		 "the network's process ended before it had told of all connections; more may be "
		 "missing");
	eventlog_commit(eventlog);
}

void eventlog_connection(struct eventlog *eventlog, uint32_t step,
			 const struct atoll_connection *connection)
{
	static const char *const verdicts[] = {[ATOLL_CONN_ALLOWED] = "allowed",
					       [ATOLL_CONN_REFUSED] = "refused",
					       [ATOLL_CONN_FAILED] = "failed"};
	struct json *json;

	if (eventlog && !connection)
		add_missing_connections(eventlog, step);
	if (!eventlog || !connection)
		return;
	json = eventlog_begin_event(
		eventlog,
		&(struct eventlog_event){
			.kind = "connection",
			.time_ns = connection->start_ns,
			.step = step,
			.verdict = verdicts[connection->verdict],
			.rule = connection->rule[0] ? connection->rule : connection->reason,
			.object = connection->name[0] ? connection->name : connection->address,
			.count = connection->count});
	json_int(json, "pid", connection->pid);
	json_str(json, "program", connection->program);
	json_str(json, "name", connection->name[0] ? connection->name : NULL);
	json_str(json, "address", connection->address[0] ? connection->address : NULL);
	json_uint(json, "port", connection->port);
	json_str(json, "verdict", verdicts[connection->verdict]);
	json_str(json, "rule", connection->rule[0] ? connection->rule : NULL);
	json_str(json, "reason", connection->reason[0] ? connection->reason : NULL);
	if (connection->request[0])
		eventlog_add_redacted(json, "request", connection->request, NULL);
	else
		json_none(json, "request");
	json_uint(json, "sent", connection->sent);
	json_uint(json, "received", connection->received);
	json_uint(json, "duration_ms", connection->duration_ns / 1000000);
	json_uint(json, "count", connection->count);
	eventlog_commit(eventlog);
	eventlog_counts(eventlog, step)->connections += connection->count;
}

void eventlog_approval(struct eventlog *eventlog, uint32_t step, const char *about,
		       const char *object, const char *answer, const char *scope)
{
	/* A command can cause questions about new names without end, if nobody answers or a program
	 * answers. So refusals count as events, which the log's size bounds; a permission is always
	 * written. */
	const bool is_repeated = streq(about, "network") && !streq(answer, "yes");
	struct json *json;

	if (!eventlog)
		return;
	json = is_repeated
		       ? eventlog_begin_event(eventlog, &(struct eventlog_event){.kind = "approval",
										 .step = step,
										 .rule = answer,
										 .object = object,
										 .count = 1})
		       : eventlog_begin(eventlog, "approval", 0, step);
	json_str(json, "about", about);
	json_str(json, "object", object);
	json_str(json, "answer", answer);
	eventlog_add_who(json);
	json_str(json, "scope", scope);
	eventlog_commit(eventlog);
}

void eventlog_decision(struct eventlog *eventlog, const char *about, const char *object)
{
	eventlog_approval(eventlog, 0, about, object, "yes", "once");
}

void eventlog_outcome(struct eventlog *eventlog, const struct eventlog_outcome *outcome)
{
	struct json *json;

	if (!eventlog)
		return;
	json = eventlog_begin(eventlog, "outcome", 0, 0);
	json_str(json, "about", outcome->about);
	json_str(json, "result", outcome->result);
	if (outcome->is_counted) {
		json_uint(json, "files", outcome->files);
		json_uint(json, "merged", outcome->merged);
		json_uint(json, "held", outcome->held);
		json_uint(json, "conflicts", outcome->conflicts);
	}
	json_str(json, "why", outcome->why[0] ? outcome->why : NULL);
	if (outcome->is_late)
		json_bool(json, "late", true);
	eventlog_commit(eventlog);
}

void eventlog_stop(struct eventlog *eventlog, uint32_t step, bool is_stopped, const char *why)
{
	struct json *json;

	if (!eventlog)
		return;
	json = eventlog_begin(eventlog, is_stopped ? "stopped" : "resumed", 0, step);
	json_str(json, "why", why);
	eventlog_commit(eventlog);
}

void eventlog_layer_change(struct eventlog *eventlog, const char *kind, const char *name,
			   uint64_t ended, const char *child)
{
	struct json *json;

	if (!eventlog)
		return;
	json = eventlog_begin(eventlog, kind, 0, 0);
	if (name)
		json_str(json, "name", name);
	if (ended != UINT64_MAX)
		json_uint(json, "ended", ended);
	if (child)
		json_str(json, "child", child);
	eventlog_add_who(json);
	eventlog_commit(eventlog);
}

/* ---- the end ---- */

static void add_usage(struct json *json, const struct atoll_result *result)
{
	static const char *const keys[ATOLL_RESOURCE_COUNT] = {
		[ATOLL_WALL] = "wall_ms",	 [ATOLL_CPU] = "cpu_ms", [ATOLL_MEMORY] = "memory",
		[ATOLL_PROCESSES] = "processes", [ATOLL_DISK] = "disk",	 [ATOLL_FILES] = "files",
		[ATOLL_OUTPUT] = "output",
	};

	json_open(json, "usage", '{');
	for (int i = 0; i < ATOLL_RESOURCE_COUNT; i++) {
		json_open(json, keys[i], '{');
		json_uint(json, "used", result->usage[i].used);
		if (result->usage[i].limit == ATOLL_UNLIMITED)
			json_none(json, "limit");
		else
			json_uint(json, "limit", result->usage[i].limit);
		json_close(json, '}');
	}
	json_close(json, '}');
}

static void write_limit(struct eventlog *eventlog, uint32_t step, const struct atoll_result *result)
{
	struct json *json = eventlog_begin(eventlog, "limit", 0, step);

	json_str(json, "limit", result->limit);
	json_uint(json, "value", result->limit_value);
	json_uint(json, "used", result->limit_used);
	json_str(json, "note", result->limit_note[0] ? result->limit_note : NULL);
	eventlog_commit(eventlog);
}

void eventlog_end(struct eventlog *eventlog, uint32_t step, const struct atoll_result *result,
		  const char *note)
{
	static const char *const ends[] = {
		[ATOLL_EXITED] = "exited",	   [ATOLL_SIGNALED] = "signaled",
		[ATOLL_TIMED_OUT] = "timed-out",   [ATOLL_OUT_OF_MEMORY] = "out-of-memory",
		[ATOLL_OVER_LIMIT] = "over-limit", [ATOLL_NOT_STARTED] = "not-started",
		[ATOLL_STOPPED] = "stopped",	   [ATOLL_UNRECORDED] = "unrecorded",
	};
	const struct eventlog_counts *counts;
	struct json *json;

	if (!eventlog)
		return;
	eventlog_wait_for_hashes(eventlog);
	eventlog_write_counted(eventlog, step);
	eventlog->has_events = false;
	if (result->limit[0])
		write_limit(eventlog, step, result);
	counts = eventlog_counts(eventlog, step);
	json = eventlog_begin(eventlog, "end", 0, step);
	json_str(json, "end", ends[result->end]);
	json_int(json, "code", result->code);
	json_int(json, "status", atoll_result_status(result));
	json_uint(json, "wall_ms", result->wall_ns / 1000000);
	add_usage(json, result);
	json_open(json, "changes", '{');
	json_uint(json, "added", result->n_added);
	json_uint(json, "changed", result->n_changed);
	json_uint(json, "deleted", result->n_deleted);
	json_uint(json, "marked", result->n_marked);
	json_close(json, '}');
	json_uint(json, "denials", counts->denials);
	json_uint(json, "connections", counts->connections);
	if (note && note[0])
		json_str(json, "note", note);
	eventlog_commit(eventlog);
}
