/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/report-model.h"

#include "auditcmd/describe-pieces.h"
#include "auditcmd/describe.h"
#include "auditcmd/event-values.h"
#include "auditcmd/events.h"
#include "auditcmd/processes.h"
#include "auditcmd/report-changes.h"
#include "auditcmd/report-proof.h"
#include "auditcmd/report-steps.h"
#include "auditcmd/report-tree.h"
#include "auditcmd/report.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

/* The rows of the timeline and their kinds of events. report/script.js has the same names. */
static const struct lane {
	const char *name;
	const char *kinds[8];
} lanes[] = {
	{"steps",
	 {"start", "end", "checkpoint", "rollback", "fork", "remove", "stopped", "resumed"}},
	{"programs", {"exec"}},
	{"connections", {"connection"}},
	{"changes", {"change"}},
	{"denials", {"denial", "limit"}},
	{"attention", {"flag", "approval", "outcome", "lost", "cut"}},
};

/* ---- made and freed ---- */

int report_init(struct report *report, struct atoll_error *err)
{
	report->words = (struct description)DESCRIPTION_INIT;
	report->processes = processes_new();
	report->data = json_object();
	report->denial_index = json_object();
	report->lanes = json_array();
	for (size_t i = 0; i < ARRAY_SIZE(lanes); i++)
		json_array_append_new(report->lanes, json_array());
	report->steps = json_array();
	report->events = json_array();
	report->connections = json_array();
	report->denials = json_array();
	report->changes = json_array();
	report->approvals = json_array();
	report->flags = json_array();
	report->heads = json_array();
	return report->processes && report->heads ? 0 : error_oom(err);
}

void report_done(struct report *report)
{
	json_t *const values[] = {report->data,	   report->denial_index, report->lanes,
				  report->steps,   report->events,	 report->connections,
				  report->denials, report->changes,	 report->approvals,
				  report->flags,   report->heads};

	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		json_decref(values[i]);
	processes_free(report->processes);
	description_done(&report->words);
	free(report->title);
	free(report->verdict);
}

/* ---- pieces ---- */

json_t *report_time(const struct report *report, uint64_t time_ns)
{
	const uint64_t since_ns = time_ns > report->first_ns ? time_ns - report->first_ns : 0;
	const uint64_t since_us = since_ns / 1000; /* is enough */

	return json_real((double)since_us / 1000);
}

json_t *report_move_text(struct buf *text)
{
	json_t *value = json_stringn(text->data ? text->data : "", text->used);

	text->used = 0;
	return value;
}

json_t *report_text(const json_t *object, const char *key)
{
	cleanup_buf struct buf text = BUF_INIT(EVENTS_LINE_MAX * 4);

	if (!event_has(object, key))
		return json_pack("n");
	describe_value(json_object_get(object, key), &text);
	return report_move_text(&text);
}

static json_t *number(const json_t *object, const char *key)
{
	return json_integer((json_int_t)event_number(object, key, 0));
}

static size_t kind_index(const char *kind)
{
	size_t i = 0;

	while (event_kinds[i] && !streq(event_kinds[i], kind))
		i++;
	return i;
}

/* ---- lists ---- */

/* Times are differences in microseconds, because these are short. */
static void add_time(struct report *report, const struct event *event)
{
	for (size_t i = 0; i < ARRAY_SIZE(lanes); i++)
		for (size_t j = 0; j < ARRAY_SIZE(lanes[i].kinds) && lanes[i].kinds[j]; j++)
			if (streq(lanes[i].kinds[j], event->kind)) {
				int64_t since = (int64_t)(event->time_ns - report->first_ns) / 1000;

				if (report->n_times++ >= REPORT_TIMES_MAX)
					return;
				json_array_append_new(
					json_array_get(report->lanes, i),
					json_integer(since - (int64_t)report->lane_ns[i]));
				report->lane_ns[i] = (uint64_t)since;
				return;
			}
}

static void add_line(struct report *report, const struct event *event)
{
	bool is_plain = streq(event->kind, "exec") || streq(event->kind, "change");
	cleanup_buf struct buf kind = BUF_INIT(4096);
	const char *who;

	report->n_events++;
	if (json_array_size(report->events) >= REPORT_EVENTS_MAX ||
	    (is_plain && report->n_plain >= REPORT_PLAIN_MAX))
		return;
	report->n_plain += is_plain;
	event_show(event->kind, &kind);
	who = report->words.who.data ? report->words.who.data : "";
	who += strspn(who, " ");
	json_array_append_new(report->events,
			      json_pack("[I, o, i, s, i, s, s#, s]", (json_int_t)event->seq,
					report_time(report, event->time_ns), (int)event->step,
					kind.data ? kind.data : "", (int)report->words.tone, who,
					report->words.what.data, (int)report->words.what.used,
					report->words.allow.data ? report->words.allow.data : ""));
}

static void add_connection(struct report *report, const struct event *event)
{
	const json_t *object = event->object;
	cleanup_buf struct buf target = BUF_INIT(EVENTS_LINE_MAX * 4);

	report->n_connections++;
	if (json_array_size(report->connections) >= REPORT_CONNECTIONS_MAX)
		return;
	describe_target(object, &target);
	json_array_append_new(
		report->connections,
		json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "time",
			  report_time(report, event->time_ns), "pid", number(object, "pid"),
			  "program", report_text(object, "program"), "target",
			  report_move_text(&target), "verdict", report_text(object, "verdict"),
			  "rule", report_text(object, "rule"), "reason",
			  report_text(object, "reason"), "request", report_text(object, "request"),
			  "sent", number(object, "sent"), "received", number(object, "received"),
			  "duration", number(object, "duration_ms"), "count",
			  json_integer((json_int_t)event_number(object, "count", 1))));
}

/* The object of a denial; for a connection its target. */
static json_t *make_object(const struct event *event)
{
	cleanup_buf struct buf target = BUF_INIT(EVENTS_LINE_MAX * 4);

	if (!streq(event->kind, "connection"))
		return report_text(event->object, "object");
	describe_target(event->object, &target);
	return report_move_text(&target);
}

static json_t *new_denial(const struct report *report, const struct event *event, json_t *object)
{
	bool is_connection = streq(event->kind, "connection");

	return json_pack("{s:s, s:o, s:I, s:s, s:s, s:s, s:o, s:O, s:o}", "kind", event->kind,
			 "time", report_time(report, event->time_ns), "count",
			 (json_int_t)event_number(event->object, "count", 1), "text",
			 report->words.what.data, "who", report->words.who.data, "allow",
			 report->words.allow.data, "action",
			 is_connection ? json_string("connect")
				       : report_text(event->object, "action"),
			 "object", object, "rule",
			 report_text(event->object,
				     is_connection && event_has(event->object, "reason") ? "reason"
											 : "rule"));
}

/* Equal denials become one row with a count. */
static void add_denial(struct report *report, const struct event *event)
{
	cleanup_buf struct buf key = BUF_INIT(EVENTS_LINE_MAX * 8);
	const char *action = event_text(event->object, "action");
	json_t *object = make_object(event), *entry = NULL;

	buf_addf(&key, "%s|%s|%s|%s", event->kind, action ? action : "",
		 json_is_string(object) ? json_string_value(object) : report->words.what.data,
		 report->words.allow.data);
	if (key.data)
		entry = json_object_get(report->denial_index, key.data);
	if (entry) {
		json_t *known = json_object_get(entry, "count");

		json_integer_set(known,
				 json_integer_value(known) +
					 (json_int_t)event_number(event->object, "count", 1));
	} else if (key.data && json_array_size(report->denials) < REPORT_DENIALS_MAX) {
		entry = new_denial(report, event, object);
		json_array_append(report->denials, entry);
		json_object_set_new(report->denial_index, key.data, entry);
	} else {
		report->n_denials_left++;
	}
	json_decref(object);
}

static void add_change(struct report *report, const struct event *event)
{
	const json_t *object = event->object;

	report->n_changes++;
	if (json_array_size(report->changes) >= REPORT_CHANGES_MAX)
		return;
	json_array_append_new(
		report->changes,
		json_pack("{s:o, s:O?, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "path",
			  report_text(object, "path"), "name", json_object_get(object, "path"),
			  "from", report_text(object, "from"), "change",
			  report_text(object, "change"), "type", report_text(object, "type"),
			  "mode", report_text(object, "mode"), "size",
			  json_object_get(object, "size") ? number(object, "size") : json_pack("n"),
			  "before", report_text(object, "before"), "after",
			  report_text(object, "after"), "mark", report_text(object, "mark")));
}

static void add_note(struct report *report, json_t *list, const struct event *event)
{
	if (json_array_size(list) >= REPORT_DENIALS_MAX)
		return;
	json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:I}", "time",
					      report_time(report, event->time_ns), "kind",
					      event->kind, "text", report->words.what.data, "seq",
					      (json_int_t)event->seq));
}

static void add_open(struct report *report, const json_t *object)
{
	static const char *const keys[] = {"atoll", "store", "key", "boot", "what"};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		json_object_set_new(report->data, keys[i], report_text(object, keys[i]));
}

/* ---- the whole ---- */

static int add_by_kind(struct report *report, const struct event *event)
{
	if (streq(event->kind, "open"))
		add_open(report, event->object);
	else if (streq(event->kind, "start"))
		return report_add_step(report, event);
	else if (streq(event->kind, "end"))
		return report_end_step(report, event);
	else if (streq(event->kind, "connection"))
		add_connection(report, event);
	else if (streq(event->kind, "change"))
		add_change(report, event);
	else if (streq(event->kind, "approval") || streq(event->kind, "outcome"))
		add_note(report, report->approvals, event);
	else if (streq(event->kind, "flag") || streq(event->kind, "lost") ||
		 streq(event->kind, "cut"))
		add_note(report, report->flags, event);
	else if (streq(event->kind, "head"))
		json_object_set(report->data, "head", event->object);
	return 0;
}

int report_add(struct report *report, const struct event *event, struct atoll_error *err)
{
	size_t kind = kind_index(event->kind);
	const char *run = event_text(event->object, "run");

	if (!report->first_ns)
		report->first_ns = event->time_ns;
	if (event->time_ns > report->last_ns)
		report->last_ns = event->time_ns;
	/* Show only a valid id. */
	if (!report->run[0] && run &&
	    strspn(run, "abcdefghijklmnopqrstuvwxyz0123456789") == strlen(run))
		snprintf(report->run, sizeof report->run, "%s", run);
	report->totals[kind < ARRAY_SIZE(report->totals) ? kind : ARRAY_SIZE(report->totals) - 1]++;
	describe(event, &report->words);
	if (buf_error(&report->words.what) < 0 || processes_add(report->processes, event) < 0)
		return error_oom(err);
	add_time(report, event);
	add_line(report, event);
	if (event_is_denial(event))
		add_denial(report, event);
	return add_by_kind(report, event) < 0 ? error_oom(err) : 0;
}

static json_t *make_lanes(const struct report *report)
{
	json_t *all = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(lanes); i++)
		json_array_append_new(all, json_pack("{s:s, s:O}", "name", lanes[i].name, "times",
						     json_array_get(report->lanes, i)));
	return all;
}

static json_t *make_totals(const struct report *report)
{
	json_t *all = json_object();
	size_t i;

	for (i = 0; event_kinds[i]; i++)
		if (report->totals[i])
			json_object_set_new(all, event_kinds[i],
					    json_integer((json_int_t)report->totals[i]));
	if (report->totals[i])
		json_object_set_new(all, "other", json_integer((json_int_t)report->totals[i]));
	return all;
}

static json_t *make_time(uint64_t ns)
{
	time_t then = (time_t)(ns / 1000000000U);
	char text[40];
	struct tm tm;

	gmtime_r(&then, &tm);
	strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
	return json_sprintf("%s.%03uZ", text, (unsigned)(ns / 1000000 % 1000));
}

/* The report of a sandbox has the command of its first step as title. */
static int make_title(struct report *report)
{
	size_t n = json_array_size(report->steps);
	char *title;

	if (n < 2 || !report->title)
		return 0;
	if (asprintf(&title, "%s (and %zu more step%s)", report->title, n - 1, n == 2 ? "" : "s") <
	    0)
		return -1;
	free(report->title);
	report->title = title;
	return 0;
}

static int set(struct report *report, const char *key, json_t *value)
{
	return json_object_set_new(report->data, key, value);
}

int report_finish(struct report *report, const struct events *events, struct atoll_error *err)
{
	struct timespec now;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &now);
	processes_finish(report->processes);
	r |= make_title(report);
	r |= set(report, "version", json_integer(1));
	r |= set(report, "run", json_string(report->run[0] ? report->run : "?"));
	r |= set(report, "made", make_time((uint64_t)now.tv_sec * 1000000000U));
	r |= set(report, "begin", make_time(report->first_ns));
	r |= set(report, "span", report_time(report, report->last_ns));
	r |= set(report, "steps", json_incref(report->steps));
	r |= set(report, "totals", make_totals(report));
	r |= set(report, "lanes", make_lanes(report));
	r |= set(report, "events", json_incref(report->events));
	r |= set(report, "n_events", json_integer((json_int_t)report->n_events));
	r |= set(report, "connections", json_incref(report->connections));
	r |= set(report, "n_connections", json_integer((json_int_t)report->n_connections));
	r |= set(report, "denials", json_incref(report->denials));
	r |= set(report, "denials_left", json_integer((json_int_t)report->n_denials_left));
	r |= set(report, "approvals", json_incref(report->approvals));
	r |= set(report, "flags", json_incref(report->flags));
	r |= set(report, "diffs", report_diffs(report, events));
	r |= set(report, "changes", json_incref(report->changes));
	r |= set(report, "n_changes", json_integer((json_int_t)report->n_changes));
	r |= set(report, "tree", report_tree(report));
	r |= set(report, "proof", report_proof(report, events));
	return r == 0 ? 0 : error_oom(err);
}
