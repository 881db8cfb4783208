/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "eventlog/eventlog-inner.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- executions ---- */

/* So many may wait for their file's hash; then they are told without. */
#define WAITING_MAX 4096

/* A notice as it came. */
struct waiting {
	struct waiting *next;
	size_t n_texts;
	const char **texts;
	struct notice notice; /* with its texts behind it */
};

static void tell_exec(struct eventlog *recorder, const struct notice *notice,
		      const char *const *texts, size_t n_texts, const unsigned char *hash,
		      const char *why)
{
	struct json *json = eventlog_begin_event(
		recorder, &(struct eventlog_event){.kind = "exec",
						   .time_ns = notice->time_ns,
						   .step = eventlog_step_of(recorder, notice),
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
	if (notice->file.ctime_ns > recorder->opened_ns)
		json_bool(json, "fresh", true);
	if (notice->flags & NOTICE_IS_SCRIPT)
		json_bool(json, "script", true);
	eventlog_commit(recorder);
}

/* The texts lie behind the notice one after the other: one copy, and pointers into it. */
static bool keep_waiting(struct eventlog *recorder, const struct notice *notice,
			 const char *const *texts)
{
	struct waiting *kept;
	char *at;
	size_t size = sizeof *kept + notice->size, n = notice->n_texts;

	if (recorder->n_waiting == WAITING_MAX)
		return false;
	kept = malloc(size + n * sizeof *kept->texts + sizeof(void *));
	if (!kept)
		return false;
	kept->texts =
		(const char **)(void *)((char *)kept + (size + sizeof(void *) - 1) /
							       sizeof(void *) * sizeof(void *));
	kept->n_texts = n;
	memcpy(&kept->notice, notice, notice->size);
	at = kept->notice.texts;
	for (size_t i = 0; i < n; i++)
		kept->texts[i] = at + (texts[i] - notice->texts);
	kept->next = recorder->waiting;
	recorder->waiting = kept;
	recorder->n_waiting++;
	return true;
}

static void take_exec(struct eventlog *recorder, const struct notices_told *told)
{
	const struct notice *notice = told->notice;
	const char *const *texts = told->texts;
	unsigned char hash[HASH_SIZE];
	int r;

	if (notice->n_texts < 1)
		return;
	/* Before its first program a step's process cannot be looked into, and it tries one
	 * directory of PATH after the other: that is one line. */
	if (!texts[0][0] && notice->pid == recorder->unseen_pid)
		return;
	recorder->unseen_pid = texts[0][0] ? 0 : notice->pid;
	if (!recorder->hashes)
		recorder->hashes = file_hashes_new();
	r = recorder->hashes && notice->file.ino
		    ? file_hashes_find(recorder->hashes, &notice->file, told->fd, hash)
		    : -ENOENT;
	if (r == 0 && keep_waiting(recorder, notice, texts))
		return;
	tell_exec(recorder, notice, texts, notice->n_texts, r > 0 ? hash : NULL,
		  r == 0 ? "too many at a time" : "the file could not be read");
}

/* In the order in which they came: the list has the latest first. */
static struct waiting *reverse(struct waiting *list)
{
	struct waiting *turned = NULL, *next;

	for (; list; list = next) {
		next = list->next;
		list->next = turned;
		turned = list;
	}
	return turned;
}

void eventlog_write_hashed(struct eventlog *recorder)
{
	struct waiting *list = reverse(recorder->waiting), *next;

	recorder->waiting = NULL;
	recorder->n_waiting = 0;
	for (; list; list = next) {
		unsigned char hash[HASH_SIZE];
		int r = file_hashes_find(recorder->hashes, &list->notice.file, -1, hash);

		next = list->next;
		if (r == 0) {
			list->next = recorder->waiting;
			recorder->waiting = list;
			recorder->n_waiting++;
			continue;
		}
		tell_exec(recorder, &list->notice, list->texts, list->n_texts, r > 0 ? hash : NULL,
			  "the file could not be read");
		free(list);
	}
}

void eventlog_wait_for_hashes(struct eventlog *recorder)
{
	while (recorder->waiting && file_hashes_move(recorder->hashes, true))
		eventlog_write_hashed(recorder);
	/* Whoever read them is gone. */
	for (struct waiting *list = reverse(recorder->waiting), *next; list; list = next) {
		next = list->next;
		tell_exec(recorder, &list->notice, list->texts, list->n_texts, NULL,
			  "the file could not be read");
		free(list);
	}
	recorder->waiting = NULL;
	recorder->n_waiting = 0;
}

void eventlog_forget_waiting(struct eventlog *recorder)
{
	for (struct waiting *next; recorder->waiting; recorder->waiting = next) {
		next = recorder->waiting->next;
		free(recorder->waiting);
	}
}

/* ---- refusals ---- */

static void tell_denial(struct eventlog *recorder, uint64_t time_ns, uint32_t step, int32_t pid,
			const char *program, size_t program_size, const char *action,
			const char *object, const char *rule, const char *allow, uint64_t count)
{
	struct json *json = eventlog_begin_event(
		recorder, &(struct eventlog_event){.kind = "denial",
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
	eventlog_commit(recorder);
	eventlog_counts(recorder, step)->denials += count ? count : 1;
}

void eventlog_denial(struct eventlog *recorder, uint32_t step, const struct atoll_denial *denial)
{
	if (recorder)
		tell_denial(recorder, 0, step, denial->pid, denial->program, sizeof denial->program,
			    denial->action, denial->path, denial->rule, denial->allow,
			    (uint64_t)denial->count);
}

/* ---- what the first process tells ---- */

static void tell_lost(struct eventlog *recorder, const struct notice *notice)
{
	struct json *json = eventlog_begin_event(
		recorder, &(struct eventlog_event){.kind = "lost",
						   .time_ns = notice->time_ns,
						   .step = eventlog_step_of(recorder, notice),
						   .count = notice->value});

	json_uint(json, "count", notice->value);
	json_str(json, "why", "they came faster than they could be told");
	eventlog_commit(recorder);
}

void eventlog_notice(struct eventlog *recorder, const struct notices_told *told)
{
	const struct notice *notice = told->notice;
	const char *const *texts = told->texts;

	if (!recorder)
		return;
	switch (notice->type) {
	case NOTICE_EXEC:
		take_exec(recorder, told);
		break;
	case NOTICE_DENIAL:
		if (told->n_texts >= 4)
			tell_denial(recorder, notice->time_ns, eventlog_step_of(recorder, notice),
				    notice->pid, notice->program, sizeof notice->program, texts[0],
				    texts[2], texts[1], texts[3], notice->value);
		break;
	case NOTICE_CHANGE:
		eventlog_note_change(recorder, told);
		break;
	case NOTICE_LOST:
		tell_lost(recorder, notice);
		break;
	default:
		break;
	}
}

/* ---- what the supervisor knows ---- */

static void add_missing_connections(struct eventlog *recorder, uint32_t step)
{
	struct json *json = eventlog_begin(recorder, "lost", 0, step);

	/* At least; a receipt adds these up, and must not say none. */
	json_uint(json, "count", 1);
	json_str(json, "why",
		 "the network's process ended before it had told of all connections; more may be "
		 "missing");
	eventlog_commit(recorder);
}

void eventlog_connection(struct eventlog *recorder, uint32_t step,
			 const struct atoll_connection *connection)
{
	static const char *const verdicts[] = {[ATOLL_CONN_ALLOWED] = "allowed",
					       [ATOLL_CONN_REFUSED] = "refused",
					       [ATOLL_CONN_FAILED] = "failed"};
	struct json *json;

	if (recorder && !connection)
		add_missing_connections(recorder, step);
	if (!recorder || !connection)
		return;
	json = eventlog_begin_event(
		recorder,
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
	eventlog_commit(recorder);
	eventlog_counts(recorder, step)->connections += connection->count;
}

void eventlog_approval(struct eventlog *recorder, uint32_t step, const char *about,
		       const char *object, const char *answer, const char *scope)
{
	/* A program inside may ask about new names without end where nobody is there to answer, or
	 * a program answers. What was allowed is written whatever the log's size. */
	const bool is_repeated = streq(about, "network") && !streq(answer, "yes");
	struct json *json;

	if (!recorder)
		return;
	json = is_repeated
		       ? eventlog_begin_event(recorder, &(struct eventlog_event){.kind = "approval",
										 .step = step,
										 .rule = answer,
										 .object = object,
										 .count = 1})
		       : eventlog_begin(recorder, "approval", 0, step);
	json_str(json, "about", about);
	json_str(json, "object", object);
	json_str(json, "answer", answer);
	eventlog_add_who(json);
	json_str(json, "scope", scope);
	eventlog_commit(recorder);
}

void eventlog_decision(struct eventlog *recorder, const char *about, const char *object)
{
	eventlog_approval(recorder, 0, about, object, "yes", "once");
}

void eventlog_outcome(struct eventlog *recorder, const struct eventlog_outcome *outcome)
{
	struct json *json;

	if (!recorder)
		return;
	json = eventlog_begin(recorder, "outcome", 0, 0);
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
	eventlog_commit(recorder);
}

void eventlog_stop(struct eventlog *recorder, uint32_t step, bool is_stopped, const char *why)
{
	struct json *json;

	if (!recorder)
		return;
	json = eventlog_begin(recorder, is_stopped ? "stopped" : "resumed", 0, step);
	json_str(json, "why", why);
	eventlog_commit(recorder);
}

void eventlog_layer_change(struct eventlog *recorder, const char *kind, const char *name,
			   uint64_t ended, const char *child)
{
	struct json *json;

	if (!recorder)
		return;
	json = eventlog_begin(recorder, kind, 0, 0);
	if (name)
		json_str(json, "name", name);
	if (ended != UINT64_MAX)
		json_uint(json, "ended", ended);
	if (child)
		json_str(json, "child", child);
	eventlog_add_who(json);
	eventlog_commit(recorder);
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

static void tell_limit(struct eventlog *recorder, uint32_t step, const struct atoll_result *result)
{
	struct json *json = eventlog_begin(recorder, "limit", 0, step);

	json_str(json, "limit", result->limit);
	json_uint(json, "value", result->limit_value);
	json_uint(json, "used", result->limit_used);
	json_str(json, "note", result->limit_note[0] ? result->limit_note : NULL);
	eventlog_commit(recorder);
}

void eventlog_end(struct eventlog *recorder, uint32_t step, const struct atoll_result *result,
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

	if (!recorder)
		return;
	eventlog_wait_for_hashes(recorder);
	eventlog_write_counted(recorder, step);
	recorder->has_events = false;
	if (result->limit[0])
		tell_limit(recorder, step, result);
	counts = eventlog_counts(recorder, step);
	json = eventlog_begin(recorder, "end", 0, step);
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
	eventlog_commit(recorder);
}
