/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/report-steps.h"

#include "auditcmd/describe-pieces.h"
#include "auditcmd/describe.h"
#include "auditcmd/event-values.h"
#include "auditcmd/events.h"
#include "auditcmd/report-model.h"
#include "auditcmd/report.h"
#include "base/scope.h"
#include "base/str.h"

#include <inttypes.h>
#include <string.h>

/* Steps: command, contract, mechanisms, end, used resources. */

static json_t *make_mechanisms(const json_t *object)
{
	json_t *all = json_array(), *each;
	size_t i;

	json_array_foreach(json_object_get(object, "mechanisms"), i, each)
	{
		json_array_append_new(all, json_pack("{s:o, s:o, s:o}", "clause",
						     report_text(each, "clause"), "strength",
						     report_text(each, "strength"), "mechanism",
						     report_text(each, "mechanism")));
	}
	return all;
}

static json_t *make_words(const json_t *list)
{
	json_t *all = json_array(), *each;
	size_t i;

	json_array_foreach(list, i, each)
	{
		cleanup_buf struct buf text = BUF_INIT(EVENTS_LINE_MAX * 4);

		describe_value(each, &text);
		json_array_append_new(all, report_move_text(&text));
	}
	return all;
}

int report_add_step(struct report *report, const struct event *event)
{
	static const char *const keys[] = {"cwd",  "contract", "job",	"workspace", "mode",
					   "user", "tier",     "input", "image"};
	const json_t *object = event->object;
	cleanup_buf struct buf command = BUF_INIT(EVENTS_LINE_MAX * 4);
	json_t *step;

	describe_argv(json_object_get(object, "argv"), false, &command);
	if (!report->title && command.data)
		report->title = strdup(command.data);
	step = json_pack("{s:i, s:o, s:o, s:o, s:o, s:o}", "number", (int)event->step, "time",
			 report_time(report, event->time_ns), "command", report_move_text(&command),
			 "env", make_words(json_object_get(object, "env")), "mechanisms",
			 make_mechanisms(object), "accepted",
			 make_words(json_object_get(object, "accepted")));
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		json_object_set_new(step, keys[i], report_text(object, keys[i]));
	return json_array_append_new(report->steps, step);
}

/* ---- the end ---- */

static json_t *make_amount(const char *name, const json_t *value)
{
	cleanup_buf struct buf text = BUF_INIT(256);

	if (!json_is_integer(value))
		return json_pack("n");
	if (ends_with(name, "_ms"))
		describe_ms((uint64_t)json_integer_value(value), &text);
	else if (streq(name, "memory") || streq(name, "disk") || streq(name, "output"))
		describe_size((uint64_t)json_integer_value(value), &text);
	else
		buf_addf(&text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	return report_move_text(&text);
}

static json_t *make_usage(const json_t *usage)
{
	static const char *const names[][2] = {
		{"wall_ms", "Time"},	    {"cpu_ms", "CPU time"}, {"memory", "Memory"},
		{"processes", "Processes"}, {"disk", "Disk"},	    {"files", "Files"},
		{"output", "Output"},
	};
	json_t *all = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const json_t *each = json_object_get(usage, names[i][0]);
		const json_t *used = json_object_get(each, "used"),
			     *limit = json_object_get(each, "limit");
		double share = 0;

		if (!json_is_integer(used))
			continue;
		if (json_is_integer(limit) && json_integer_value(limit) > 0)
			share = (double)json_integer_value(used) /
				(double)json_integer_value(limit);
		json_array_append_new(all,
				      json_pack("{s:s, s:o, s:o, s:f}", "name", names[i][1], "used",
						make_amount(names[i][0], used), "limit",
						make_amount(names[i][0], limit), "share", share));
	}
	return all;
}

/* Finds the step that this event ends: the latest of that number, or the latest. */
static json_t *find_step(const struct report *report, uint32_t number)
{
	for (size_t i = json_array_size(report->steps); i-- > 0;) {
		json_t *step = json_array_get(report->steps, i);

		if (event_number(step, "number", 0) == number)
			return step;
	}
	return json_array_get(report->steps, json_array_size(report->steps) - 1);
}

int report_end_step(struct report *report, const struct event *event)
{
	json_t *step = find_step(report, event->step);
	cleanup_buf struct buf words = BUF_INIT(EVENTS_LINE_MAX * 4);

	describe_end(event->object, &words);
	free(report->verdict);
	report->verdict = strdup(words.data ? words.data : "");
	report->is_good = report->words.tone == TONE_GOOD;
	if (!step)
		return 0;
	json_object_set_new(step, "end", report_move_text(&words));
	json_object_set_new(step, "good", json_boolean(report->is_good));
	json_object_set_new(step, "end_time", report_time(report, event->time_ns));
	json_object_set_new(step, "status", json_incref(json_object_get(event->object, "status")));
	return json_object_set_new(step, "usage",
				   make_usage(json_object_get(event->object, "usage")));
}
