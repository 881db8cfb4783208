/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/scope.h"
#include "base/str.h"
#include "remote/remote-http.h"
#include "remote/remote.h"
#include "ui/ui.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* ---- diff ---- */

enum {
	DIFF_STAT,
	DIFF_NAME_ONLY,
	DIFF_JSON,
};

static const struct option diff_options[] = {
	{"stat", 0, NULL, "only the number of changed lines per file", DIFF_STAT},
	{"name-only", 0, NULL, "only the names", DIFF_NAME_ONLY},
	{"json", 0, NULL, "print JSON: one object with all details", DIFF_JSON},
	OPTION_HELP_ROW,
	{0},
};

/* Prints a text from the sandbox; on a terminal escaped, line by line. */
static void print_text(FILE *out, char *text, bool is_terminal)
{
	char *next = text, *line;

	if (!is_terminal) {
		fputs(text, out);
		return;
	}
	while ((line = strsep(&next, "\n")) && next) {
		print_escaped(out, line);
		fputc('\n', out);
	}
}

static int show_text(const char *id, const char *path_inside, struct atoll_error *err)
{
	cleanup_free char *path =
		remote_path(id, "/diff", "format", "text", "path", path_inside, NULL);
	struct answer answer;
	struct pager pager;
	int r = remote_ask(&remote, "GET", path, NULL, REMOTE_AGAIN, &answer, err);

	if (r < 0)
		return r;
	if (answer.status >= 300) {
		r = remote_failure(answer.status, answer.body.data, answer.body.used, err);
	} else if (answer.body.data) {
		pager_open(&pager);
		print_text(pager.out, answer.body.data, pager.is_terminal);
		pager_close(&pager);
	}
	buf_done(&answer.body);
	return r;
}

static void print_change(const json_t *change, bool with_lines)
{
	if (with_lines && json_is_true(json_object_get(change, "binary")))
		printf("%8s %7s  ", "binary", "");
	else if (with_lines)
		printf("%7s%" PRId64 "%7s%" PRId64 "  ", "+", number_of(change, "added"), "-",
		       number_of(change, "removed"));
	if (with_lines)
		printf("%s%s ", text_of(change, "mark")[0] ? "! " : "", text_of(change, "kind"));
	print_escaped(stdout, text_of(change, "path"));
	putchar('\n');
}

static int run_diff(char **args, struct atoll_error *err)
{
	struct command_values line;
	cleanup_free char *path = NULL, *text = NULL;
	json_t *answer, *change;
	size_t i;
	int r = command_read_values(&remote_diff, args, 1, 2, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	if (line.seen & (line.seen - 1))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--stat, --name-only and --json exclude each other");
	if (!line.seen)
		return show_text(line.args[0], line.args[1], err);
	path = remote_path(line.args[0], "/diff", "path", line.args[1], "lines",
			   line.seen & 1U << DIFF_STAT ? "true" : NULL, NULL);
	r = remote_call(&remote, "GET", path, NULL, REMOTE_AGAIN, &answer, err);
	if (r < 0)
		return r;
	if (line.seen & 1U << DIFF_JSON) {
		text = json_dumps(answer, JSON_COMPACT);
		puts(text ? text : "{}");
	} else {
		json_array_foreach(json_object_get(answer, "changes"), i, change)
			print_change(change, line.seen & 1U << DIFF_STAT);
	}
	json_decref(answer);
	return command_flush(err);
}

/* ---- apply ---- */

enum {
	APPLY_MERGE,
	APPLY_FORCE,
	APPLY_DRY_RUN,
	APPLY_JSON,
};

static const struct option apply_options[] = {
	{"merge", 0, NULL, "merge text where the host has changed as well", APPLY_MERGE},
	{"force", 0, NULL, "overwrite what conflicts", APPLY_FORCE},
	{"dry-run", 'n', NULL, "only say what would be done", APPLY_DRY_RUN},
	{"json", 0, NULL, "for programs: one object", APPLY_JSON},
	OPTION_HELP_ROW,
	{0},
};

static json_t *apply_body(const struct command_values *line)
{
	json_t *body = json_object(), *paths = json_array();

	for (int i = 1; i < line->n; i++)
		json_array_append_new(paths, json_string(line->args[i]));
	if (line->n > 1)
		json_object_set(body, "paths", paths);
	json_decref(paths);
	json_object_set_new(body, "merge", json_boolean(line->seen & 1U << APPLY_MERGE));
	json_object_set_new(body, "force", json_boolean(line->seen & 1U << APPLY_FORCE));
	json_object_set_new(body, "dry", json_boolean(line->seen & 1U << APPLY_DRY_RUN));
	return body;
}

static void print_fates(const json_t *answer)
{
	json_t *change;
	size_t i;

	json_array_foreach(json_object_get(answer, "changes"), i, change)
	{
		const char *fate = text_of(change, "fate");
		FILE *out = streq(fate, "applied") || streq(fate, "merged") ? stdout : stderr;

		fprintf(out, "%-8s  ", fate);
		print_escaped(out, text_of(change, "path"));
		if (text_of(change, "why")[0]) {
			fputs(": ", out);
			print_escaped(out, text_of(change, "why"));
		}
		fputc('\n', out);
	}
}

/* A conflict is an answer (409) with a body: print it and return a policy error. */
static int end_apply(const json_t *answer, const char *body, bool is_json, struct atoll_error *err)
{
	int64_t conflicts = number_of(answer, "conflicts");

	if (is_json)
		puts(body);
	else
		print_fates(answer);
	if (conflicts > 0)
		return error_set(err, ATOLL_FAULT_POLICY, EEXIST,
				 "%" PRId64 " conflict%s: nothing was applied", conflicts,
				 conflicts == 1 ? "" : "s");
	return command_flush(err);
}

static int run_apply(char **args, struct atoll_error *err)
{
	struct command_values line;
	cleanup_free char *path = NULL, *text = NULL;
	struct answer answer;
	json_t *body, *told;
	int r = command_read_values(&remote_apply, args, 1, 10000, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	path = remote_path(line.args[0], "/apply", NULL);
	body = apply_body(&line);
	text = json_dumps(body, JSON_COMPACT);
	json_decref(body);
	if (!path || !text)
		return error_oom(err);
	r = remote_ask(&remote, "POST", path, text, 0, &answer, err);
	if (r < 0)
		return r;
	told = json_loadb(answer.body.data ? answer.body.data : "", answer.body.used, 0, NULL);
	if (json_object_get(told, "changes"))
		r = end_apply(told, answer.body.data, line.seen & 1U << APPLY_JSON, err);
	else
		r = remote_failure(answer.status, answer.body.data, answer.body.used, err);
	json_decref(told);
	buf_done(&answer.body);
	return r;
}

/* ---- undo ---- */

enum {
	UNDO_FORCE,
};

static const struct option undo_options[] = {
	{"force", 'f', NULL, "also restore files that have changed since; their changes are lost",
	 UNDO_FORCE},
	OPTION_HELP_ROW,
	{0},
};

static int run_undo(char **args, struct atoll_error *err)
{
	struct command_values line;
	cleanup_free char *path = NULL;
	struct answer answer;
	json_t *told;
	int r = command_read_values(&remote_undo, args, 1, 1, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	path = remote_path(line.args[0], "/undo", NULL);
	if (!path)
		return error_oom(err);
	r = remote_ask(&remote, "POST", path,
		       line.seen & 1U << UNDO_FORCE ? "{\"force\":true}" : "{}", 0, &answer, err);
	if (r < 0)
		return r;
	told = json_loadb(answer.body.data ? answer.body.data : "", answer.body.used, 0, NULL);
	if (!json_object_get(told, "changes"))
		r = remote_failure(answer.status, answer.body.data, answer.body.used, err);
	else if (number_of(told, "conflicts") > 0)
		r = error_set(err, ATOLL_FAULT_POLICY, EEXIST,
			      "the host has changed since then: nothing was taken back; --force "
			      "takes its changes away");
	else
		puts("Undid the last apply.");
	json_decref(told);
	buf_done(&answer.body);
	return r < 0 ? r : command_flush(err);
}

/* ---- export, log ---- */

enum {
	EXPORT_FORMAT,
	EXPORT_OUTPUT,
};

static const struct option export_options[] = {
	{"format", 0, "WORD", "'patch', 'tar' or 'oci'; 'tar' unless said", EXPORT_FORMAT},
	{"output", 'o', "FILE", "the file to write ('-', the default: standard output)",
	 EXPORT_OUTPUT},
	OPTION_HELP_ROW,
	{0},
};

static int run_export(char **args, struct atoll_error *err)
{
	struct command_values line;
	cleanup_free char *path = NULL;
	cleanup_fd int fd = -1;
	const char *file;
	int r = command_read_values(&remote_export, args, 1, 1, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	file = line.values[EXPORT_OUTPUT];
	if (!file || streq(file, "-"))
		fd = dup(STDOUT_FILENO);
	else
		fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "make '%s'", file);
	path = remote_path(line.args[0], "/export", "format", line.values[EXPORT_FORMAT], NULL);
	r = remote_copy(&remote, path, fd, err);
	if (r < 0 && file && !streq(file, "-"))
		unlink(file);
	return r;
}

enum {
	LOG_KIND,
	LOG_STEP,
	LOG_SINCE,
	LOG_JSON,
};

static const struct option log_options[] = {
	{"kind", 0, "KIND[,KIND]", "only events of these kinds", LOG_KIND},
	{"step", 0, "N", "only the Nth command", LOG_STEP},
	{"since", 0, "TIME", "only what happened since then", LOG_SINCE},
	{"json", 0, NULL, "accepted: lines are always as they are in the log", LOG_JSON},
	OPTION_HELP_ROW,
	{0},
};

static int run_log(char **args, struct atoll_error *err)
{
	struct command_values line;
	cleanup_free char *path = NULL;
	int r = command_read_values(&remote_log, args, 1, 1, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	path = remote_path(line.args[0], "/log", "kind", line.values[LOG_KIND], "step",
			   line.values[LOG_STEP], "since", line.values[LOG_SINCE], NULL);
	return remote_copy(&remote, path, STDOUT_FILENO, err);
}

const struct command remote_diff = {
	.name = "diff",
	.usage = "ID [PATH] [--stat|--name-only|--json]",
	.summary = "show what a daemon's sandbox has changed",
	.description = (const char *const[]){NULL},
	.options = diff_options,
	.run = run_diff,
};
const struct command remote_apply = {
	.name = "apply",
	.usage = "ID [PATH...] [--merge] [--force] [--dry-run]",
	.summary = "put its changes onto the daemon's machine",
	.description = (const char *const[]){NULL},
	.options = apply_options,
	.run = run_apply,
};
const struct command remote_undo = {
	.name = "undo",
	.usage = "ID [--force]",
	.summary = "take the latest apply back",
	.description = (const char *const[]){NULL},
	.options = undo_options,
	.run = run_undo,
};
const struct command remote_export = {
	.name = "export",
	.usage = "ID [--format WORD] [-o FILE]",
	.summary = "carry its changes away",
	.description = (const char *const[]){NULL},
	.options = export_options,
	.run = run_export,
};
const struct command remote_log = {
	.name = "log",
	.usage = "ID [--kind K[,K]] [--step N]",
	.summary = "what happened in a daemon's sandbox",
	.description = (const char *const[]){NULL},
	.options = log_options,
	.run = run_log,
};
