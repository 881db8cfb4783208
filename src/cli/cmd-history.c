/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"

#include <atoll/layer.h>
#include <time.h>

#define JSON_MAX ((size_t)256 << 20)

enum {
	OPTION_JSON,
};

static const struct option history_options[] = {
	{"json", 0, NULL, "print JSON: a list of objects", OPTION_JSON},
	OPTION_HELP_ROW,
	{0},
};

static int print_json(const struct atoll_checkpoint *list, size_t n, struct atoll_error *err)
{
	cleanup_buf struct buf out = BUF_INIT(JSON_MAX);
	struct json json = {.out = &out};

	json_open(&json, NULL, '[');
	for (size_t i = 0; i < n; i++) {
		json_open(&json, NULL, '{');
		json_str(&json, "name", list[i].name);
		json_uint(&json, "number", list[i].number);
		json_uint(&json, "time_ns", list[i].time_ns);
		json_bool(&json, "current", list[i].is_current);
		if (list[i].status >= 0)
			json_int(&json, "status", list[i].status);
		else
			json_none(&json, "status");
		json_str(&json, "command", list[i].command);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	if (buf_error(&out) < 0)
		return error_oom(err);
	puts(out.data);
	return command_flush(err);
}

static void print_list(const struct atoll_checkpoint *list, size_t n)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	for (size_t i = 0; i < n; i++) {
		const uint64_t then_s = list[i].time_ns / 1000000000U, now_s = (uint64_t)now.tv_sec;
		char age[32], status[16] = "-";

		amount_age(now_s > then_s ? now_s - then_s : 0, age, sizeof age);
		if (list[i].status >= 0)
			snprintf(status, sizeof status, "%d", list[i].status);
		printf("%c %-20s  %8s  %6s  ", list[i].is_current ? '*' : ' ', list[i].name, age,
		       status);
		if (list[i].command)
			print_escaped(stdout, list[i].command);
		putchar('\n');
	}
}

static int run_history(char **args, struct atoll_error *err)
{
	struct atoll_checkpoint *list;
	struct command_values line;
	size_t n;
	int r = command_read_values(&command_history, args, 0, 1, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = atoll_sandbox_history(line.args[0], &list, &n, err);
	if (r < 0)
		return r;
	if (line.seen & 1U << OPTION_JSON) {
		r = print_json(list, n, err);
	} else {
		print_list(list, n);
		r = command_flush(err);
	}
	atoll_history_free(list, n);
	return r;
}

static const struct command_row history_examples[] = {
	{"atoll history abc", "name, age, and status and command of the step"},
	{0},
};

const struct command command_history = {
	.name = "history",
	.usage = "[ID]",
	.summary = "list the checkpoints of a sandbox",
	.description =
		(const char *const[]){
			"Lists the checkpoints of a sandbox, the oldest first. Those of "
			"'checkpoints: every-step' are shown with the command and exit status of "
			"their step. A * marks the checkpoint that the present state is based on.",
			NULL},
	.options = history_options,
	.sections = (const struct command_section[]){{"Examples", history_examples}, {0}},
	.run = run_history,
};
