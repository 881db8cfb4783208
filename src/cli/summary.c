/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/summary.h"

#include "base/json.h"
#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"
#include "cli/run-apply.h"
#include "cli/summary-layer.h"
#include "cli/summary-network.h"
#include "ui/ui.h"

#include <atoll/atoll.h>
#include <inttypes.h>

#define LINES_MAX 10
#define JSON_MAX                                                                                   \
	(1U << 20) /* enough for the maximum of denials and connections with every byte escaped */

enum unit {
	UNIT_COUNT,
	UNIT_BYTES,
	UNIT_TIME, /* milliseconds */
};

/* Limits by their key in a job file. */
static const struct limit {
	const char *key;
	const char *words;
	const char *flag;
	enum unit unit;
} limits[] = {
	{"wall", "time", "--timeout", UNIT_TIME},
	{"cpu", "CPU time", "--cpu-time", UNIT_TIME},
	{"memory", "memory", "--memory", UNIT_BYTES},
	{"pids", "process", "--pids", UNIT_COUNT},
	{"disk", "disk", "--disk", UNIT_BYTES},
	{"files", "file", "--files", UNIT_COUNT},
	{"open-files", "open file", "--open-files", UNIT_COUNT},
	{"output", "output", "--output", UNIT_BYTES},
};

static const struct limit *find_limit(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (streq(limits[i].key, key))
			return &limits[i];
	return NULL;
}

struct step {
	const char *name;
	uint64_t size;
};

/* Uses the largest unit without a fraction, so that a limit is printed as it was given. */
static void format_exactly(const struct step *steps, size_t n, uint64_t value, char *ret,
			   size_t size)
{
	size_t i = 0;

	while (i + 1 < n && (value < steps[i].size || value % steps[i].size != 0))
		i++;
	snprintf(ret, size, "%" PRIu64 "%s", value / steps[i].size, steps[i].name);
}

static void format_limit(enum unit unit, uint64_t value, char *ret, size_t size)
{
	static const struct step bytes[] = {
		{" TiB", UINT64_C(1) << 40},
		{" GiB", UINT64_C(1) << 30},
		{" MiB", UINT64_C(1) << 20},
		{" KiB", UINT64_C(1) << 10},
		{" bytes", 1},
	};
	static const struct step times[] = {
		{" h", 3600000}, {" min", 60000}, {" s", 1000}, {" ms", 1}};

	if (unit == UNIT_BYTES)
		format_exactly(bytes, ARRAY_SIZE(bytes), value, ret, size);
	else if (unit == UNIT_TIME)
		format_exactly(times, ARRAY_SIZE(times), value, ret, size);
	else
		snprintf(ret, size, "%" PRIu64, value);
}

static bool was_stopped(const struct atoll_result *result)
{
	return result->end == ATOLL_TIMED_OUT || result->end == ATOLL_OUT_OF_MEMORY ||
	       result->end == ATOLL_OVER_LIMIT;
}

/* For measured values: three digits. */
static void format_about(enum unit unit, uint64_t value, char *ret, size_t size)
{
	if (unit == UNIT_BYTES && value >= UINT64_C(1) << 30)
		snprintf(ret, size, "%.2f GiB", (double)value / (1 << 30));
	else if (unit == UNIT_BYTES && value >= 1 << 20)
		snprintf(ret, size, "%.1f MiB", (double)value / (1 << 20));
	else if (unit == UNIT_TIME && value >= 1000)
		snprintf(ret, size, "%.1f s", (double)value / 1000);
	else
		format_limit(unit, value, ret, size);
}

/* Time and output never exceed their limits. */
static void print_used(const struct atoll_result *result, const struct limit *limit, FILE *out)
{
	char value[32];

	if (result->limit_used == 0 || streq(limit->key, "wall") || streq(limit->key, "output"))
		return;
	format_about(limit->unit, result->limit_used, value, sizeof value);
	fprintf(out, "; %s %s", streq(limit->key, "memory") ? "peak" : "used", value);
}

static void print_limit(const struct atoll_result *result, FILE *out)
{
	const struct limit *limit = find_limit(result->limit);
	char value[32];

	fputs("atoll: stopped at the ", out);
	if (limit) {
		format_limit(limit->unit, result->limit_value, value, sizeof value);
		fprintf(out, "%s limit of %s (%s)", limit->words, value, limit->flag);
		print_used(result, limit, out);
		if (result->limit_note[0]) {
			fputs("; ", out);
			print_escaped(out, result->limit_note);
		}
		fputc('\n', out);
	} else {
		print_escaped(out, result->limit);
		fprintf(out, " limit of %" PRIu64 "\n", result->limit_value);
	}
}

static const char *shorten(const char *path, const char *here)
{
	if (!here || streq(here, "/") || !path_is_within(path, here) || streq(path, here))
		return path;
	return path + strlen(here) + 1;
}

static void print_denial(const struct atoll_denial *denial, const char *here, FILE *out)
{
	static const char *const changes[] = {"create", "write", "remove", "mkdir", "rename",
					      "link",	"chmod", "chown",  NULL};
	const char *how = "not allowed";

	for (size_t i = 0; changes[i]; i++)
		if (streq(denial->action, changes[i]))
			how = "protected";
	if (streq(denial->rule, "not granted"))
		how = "outside the sandbox";
	if (streq(denial->rule, "owner"))
		how = "the owner has no id in the layer";
	fputs("  ", out);
	print_escaped(out, denial->action);
	fputc(' ', out);
	print_escaped(out, shorten(denial->path, here));
	fprintf(out, ": %s", how);
	if (!streq(denial->rule, "not granted")) {
		fputs(" (", out);
		print_escaped(out, denial->rule);
		fputc(')', out);
	}
	if (denial->count > 1)
		fprintf(out, ", %d times", denial->count);
	if (denial->allow[0]) {
		fputs("; allow with ", out);
		print_escaped(out, denial->allow);
	}
	fputc('\n', out);
}

static uint32_t n_listed_denials(const struct atoll_result *result)
{
	return result->n_denials < ATOLL_DENIALS_MAX ? result->n_denials : ATOLL_DENIALS_MAX;
}

/* One entry may have a count. */
static uint64_t count_actions(const struct atoll_result *result)
{
	uint32_t n_listed = n_listed_denials(result);
	uint64_t count = result->n_denials - n_listed;

	for (uint32_t i = 0; i < n_listed; i++)
		count += result->denials[i].count > 1 ? (uint64_t)result->denials[i].count : 1;
	return count;
}

static void print_denials(const struct atoll_result *result, const char *here, FILE *out)
{
	uint32_t shown = n_listed_denials(result);
	uint64_t count = count_actions(result);

	if (result->n_denials == 0)
		return;
	fprintf(out, "atoll: refused %" PRIu64 " action%s:\n", count, count == 1 ? "" : "s");
	if (shown > LINES_MAX)
		shown = LINES_MAX;
	for (uint32_t i = 0; i < shown; i++)
		print_denial(&result->denials[i], here, out);
	if (result->n_denials > shown)
		fprintf(out, "  and %u more\n", result->n_denials - shown);
}

static const char *flag_of(const char *by)
{
	static char text[64];

	if (!starts_with(by, "rule:"))
		return "audit.monitor";
	snprintf(text, sizeof text, "--rule %s=...", by + 5);
	return text;
}

/* The findings of event rules and the monitor, and which of them stopped the run. */
static void print_flags(const struct atoll_result *result, FILE *out)
{
	uint32_t n_listed = result->n_flags < ATOLL_FLAGS_MAX ? result->n_flags : ATOLL_FLAGS_MAX;

	if (result->end == ATOLL_STOPPED) {
		fputs("atoll: stopped by ", out);
		print_escaped(out, result->stopped_by);
		fprintf(out, " (%s)\n", flag_of(result->stopped_by));
	}
	for (uint32_t i = 0; i < n_listed && i < LINES_MAX; i++) {
		fputs("atoll: ", out);
		print_escaped(out, result->flags[i].by);
		fputs(": ", out);
		print_escaped(out, result->flags[i].why);
		fputc('\n', out);
	}
	if (result->n_flags > LINES_MAX)
		fprintf(out, "  and %u more\n", result->n_flags - LINES_MAX);
	if (result->events_note[0]) {
		fputs("atoll: events: ", out);
		print_escaped(out, result->events_note);
		fputc('\n', out);
	}
}

/* Only if the summary has mentioned something to look up in the event log. */
static void print_record(const struct atoll_result *result, FILE *out)
{
	if (!result->run[0])
		return;
	if (result->record_note[0]) {
		fputs("atoll: ", out);
		print_escaped(out, result->record_note);
		fputc('\n', out);
	}
	if (was_stopped(result) || result->end == ATOLL_STOPPED ||
	    result->end == ATOLL_UNRECORDED || result->n_flags || result->n_denials ||
	    result->n_marked || result->record_note[0])
		fprintf(out, "atoll: recorded as %s (atoll log %s)\n", result->run, result->run);
}

void summary_text(const struct atoll_result *result, const char *here, FILE *out)
{
	if (was_stopped(result))
		print_limit(result, out);
	print_flags(result, out);
	print_denials(result, here, out);
	summary_network_text(result, out);
	print_record(result, out);
}

static void write_line(struct buf *buf, FILE *out)
{
	if (buf_error(buf) == 0)
		fprintf(out, "%s\n", buf->data);
}

static void write_denial(struct json *json, const struct atoll_denial *denial)
{
	json_open(json, NULL, '{');
	json_str(json, "action", denial->action);
	json_str(json, "path", denial->path);
	json_str(json, "rule", denial->rule);
	json_str(json, "program", denial->program);
	json_int(json, "pid", denial->pid);
	json_int(json, "count", denial->count);
	json_str(json, "allow", denial->allow[0] ? denial->allow : NULL);
	json_close(json, '}');
}

static void write_flags(struct json *json, const struct atoll_result *result)
{
	json_str(json, "stopped_by", result->end == ATOLL_STOPPED ? result->stopped_by : NULL);
	json_uint(json, "n_flags", result->n_flags);
	json_open(json, "flags", '[');
	for (uint32_t i = 0; i < result->n_flags && i < ATOLL_FLAGS_MAX; i++) {
		const struct atoll_flag *flag = &result->flags[i];

		json_open(json, NULL, '{');
		json_str(json, "by", flag->by);
		json_str(json, "verdict", flag->verdict);
		json_str(json, "why", flag->why);
		if (flag->seq == UINT64_MAX)
			json_none(json, "about");
		else
			json_uint(json, "about", flag->seq);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_str(json, "events_note", result->events_note[0] ? result->events_note : NULL);
}

/* The used resources, by the keys of their limits in a job file, in the same units. */
static void write_usage(struct json *json, const struct atoll_result *result)
{
	static const char *const keys[ATOLL_RESOURCE_COUNT] = {
		[ATOLL_WALL] = "wall",	    [ATOLL_CPU] = "cpu",   [ATOLL_MEMORY] = "memory",
		[ATOLL_PROCESSES] = "pids", [ATOLL_DISK] = "disk", [ATOLL_FILES] = "files",
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

static void write_applied(struct json *json, const struct apply_outcome *applied)
{
	if (!applied->was_tried) {
		json_none(json, "applied");
		return;
	}
	json_open(json, "applied", '{');
	json_uint(json, "changes", applied->report.n_applied);
	json_uint(json, "held", applied->report.n_held);
	json_uint(json, "conflicts", applied->report.n_conflicts);
	json_str(json, "problem", applied->has_failed ? applied->problem.text : NULL);
	json_close(json, '}');
}

static const char *end_word(enum atoll_end end)
{
	static const char *const words[] = {
		[ATOLL_EXITED] = "exited",	   [ATOLL_SIGNALED] = "signaled",
		[ATOLL_TIMED_OUT] = "timed-out",   [ATOLL_OUT_OF_MEMORY] = "out-of-memory",
		[ATOLL_OVER_LIMIT] = "over-limit", [ATOLL_NOT_STARTED] = "not-started",
		[ATOLL_STOPPED] = "stopped",	   [ATOLL_UNRECORDED] = "unrecorded",
	};

	return words[end];
}

void summary_json(const struct atoll_result *result, const char *digest, FILE *out)
{
	summary_json_applied(result, digest, &(struct apply_outcome){0}, out);
}

void summary_json_applied(const struct atoll_result *result, const char *digest,
			  const struct apply_outcome *applied, FILE *out)
{
	cleanup_buf struct buf buf = BUF_INIT(JSON_MAX);
	struct json json = {.out = &buf};

	json_open(&json, NULL, '{');
	json_int(&json, "status", atoll_result_status(result));
	json_str(&json, "end", end_word(result->end));
	json_int(&json, "code", result->code);
	json_str(&json, "limit", was_stopped(result) ? result->limit : NULL);
	if (was_stopped(result)) {
		json_uint(&json, "limit_value", result->limit_value);
		json_uint(&json, "limit_used", result->limit_used);
		json_str(&json, "limit_note", result->limit_note[0] ? result->limit_note : NULL);
	}
	json_uint(&json, "wall_ns", result->wall_ns);
	json_uint(&json, "cpu_ns", result->cpu_ns);
	json_uint(&json, "peak_memory", result->peak_memory);
	json_uint(&json, "output_bytes", result->output_bytes);
	write_usage(&json, result);
	json_str(&json, "contract", digest);
	json_str(&json, "run", result->run[0] ? result->run : NULL);
	json_str(&json, "record_note", result->record_note[0] ? result->record_note : NULL);
	write_flags(&json, result);
	json_uint(&json, "n_denials", result->n_denials);
	json_open(&json, "denials", '[');
	for (uint32_t i = 0; i < n_listed_denials(result); i++)
		write_denial(&json, &result->denials[i]);
	json_close(&json, ']');
	summary_network_json(result, &json);
	summary_layer_json(result, &json);
	write_applied(&json, applied);
	json_close(&json, '}');
	write_line(&buf, out);
}

static const char *fault_word(enum atoll_fault fault)
{
	static const char *const words[] = {
		[ATOLL_FAULT_NONE] = "none",	 [ATOLL_FAULT_REQUEST] = "request",
		[ATOLL_FAULT_POLICY] = "policy", [ATOLL_FAULT_HOST] = "host",
		[ATOLL_FAULT_JOB] = "job",	 [ATOLL_FAULT_BUG] = "bug",
	};

	return words[fault];
}

void summary_json_failure(const struct atoll_error *failure, FILE *out)
{
	cleanup_buf struct buf buf = BUF_INIT(JSON_MAX);
	struct json json = {.out = &buf};

	json_open(&json, NULL, '{');
	json_int(&json, "status", atoll_error_status(failure));
	json_open(&json, "error", '{');
	json_str(&json, "fault", fault_word(failure->fault));
	json_int(&json, "errno", failure->errnum);
	json_str(&json, "text", failure->text);
	json_close(&json, '}');
	json_close(&json, '}');
	write_line(&buf, out);
}
