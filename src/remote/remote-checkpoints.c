/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "remote/remote-http.h"
#include "remote/remote.h"
#include "ui/ui.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- checkpoint ---- */

static const struct option no_options[] = {OPTION_HELP_ROW, {0}};

static int run_checkpoint(char **args, struct atoll_error *err)
{
	struct command_values line;
	cleanup_free char *path = NULL;
	json_t *answer, *body = NULL;
	int r = command_read_values(&remote_checkpoint, args, 1, 2, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	path = remote_path(line.args[0], "/checkpoints", NULL);
	if (line.args[1])
		body = json_pack("{s:s}", "name", line.args[1]);
	r = remote_call(&remote, "POST", path, body, 0, &answer, err);
	if (r < 0)
		return r;
	puts(text_of(answer, "name"));
	json_decref(answer);
	return command_flush(err);
}

/* ---- rollback ---- */

enum {
	ROLLBACK_QUIET,
};

static const struct option rollback_options[] = {
	{"quiet", 'q', NULL, "do not print how many processes were killed", ROLLBACK_QUIET},
	OPTION_HELP_ROW,
	{0},
};

static int run_rollback(char **args, struct atoll_error *err)
{
	struct command_values line;
	cleanup_free char *path = NULL;
	json_t *answer;
	int64_t ended;
	int r = command_read_values(&remote_rollback, args, 2, 2, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	path = remote_path(line.args[0], "/rollback", NULL);
	r = remote_call(&remote, "POST", path, json_pack("{s:s}", "checkpoint", line.args[1]),
			REMOTE_AGAIN, &answer, err);
	if (r < 0)
		return r;
	ended = number_of(answer, "endedProcesses");
	json_decref(answer);
	if (ended > 0 && !(line.seen & 1U << ROLLBACK_QUIET))
		fprintf(stderr, "atoll: %" PRId64 " process%s ended\n", ended,
			ended == 1 ? " was" : "es were");
	return 0;
}

/* ---- fork ---- */

enum {
	FORK_COUNT,
};

static const struct option fork_options[] = {
	{"count", 0, "N", "so many; 1 unless said", FORK_COUNT},
	OPTION_HELP_ROW,
	{0},
};

static int print_forks(const json_t *items, struct atoll_error *err)
{
	json_t *item, *box;
	size_t i;
	int r = 0;

	json_array_foreach(items, i, item)
	{
		box = json_object_get(item, "sandbox");
		if (json_is_object(box))
			puts(text_of(box, "id"));
		else if (r == 0)
			r = error_set(err, ATOLL_FAULT_HOST, 0, "%s",
				      text_of(json_object_get(item, "error"), "message"));
	}
	return r;
}

static int run_fork(char **args, struct atoll_error *err)
{
	struct command_values line;
	cleanup_free char *path = NULL;
	json_t *answer;
	int r = command_read_values(&remote_fork, args, 1, 2, &line, err);
	int count;

	if (r != 0)
		return r < 0 ? r : 0;
	if (line.args[1])
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"a daemon forks a sandbox as it stands: roll it back to '%s' first, "
			"or fork it and roll the fork back",
			line.args[1]);
	count = line.values[FORK_COUNT] ? atoi(line.values[FORK_COUNT]) : 1;
	path = remote_path(line.args[0], "/fork", NULL);
	r = remote_call(&remote, "POST", path, json_pack("{s:i}", "count", count), 0, &answer, err);
	if (r < 0)
		return r;
	r = print_forks(json_object_get(answer, "items"), err);
	json_decref(answer);
	fflush(stdout);
	return r < 0 ? r : command_flush(err);
}

/* ---- history ---- */

enum {
	HISTORY_JSON,
};

static const struct option history_options[] = {
	{"json", 0, NULL, "print JSON: a list of objects", HISTORY_JSON},
	OPTION_HELP_ROW,
	{0},
};

static void print_history(const json_t *items)
{
	int64_t now_ms = (int64_t)(clock_real_ns() / 1000000), then_ms;
	json_t *item;
	char age[32];
	size_t i;

	json_array_foreach(items, i, item)
	{
		then_ms = time_of(item, "madeAt");
		amount_age(now_ms > then_ms ? (uint64_t)(now_ms - then_ms) / 1000 : 0, age,
			   sizeof age);
		printf("%c %-20s  %8s  ",
		       json_is_true(json_object_get(item, "current")) ? '*' : ' ',
		       text_of(item, "name"), age);
		if (json_is_integer(json_object_get(item, "status")))
			printf("%6" PRId64 "  ", number_of(item, "status"));
		else
			printf("%6s  ", "-");
		print_escaped(stdout, text_of(item, "command"));
		putchar('\n');
	}
}

static int run_history(char **args, struct atoll_error *err)
{
	struct command_values line;
	cleanup_free char *path = NULL, *text = NULL;
	json_t *answer;
	int r = command_read_values(&remote_history, args, 1, 1, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	path = remote_path(line.args[0], "/checkpoints", NULL);
	r = remote_call(&remote, "GET", path, NULL, REMOTE_AGAIN, &answer, err);
	if (r < 0)
		return r;
	if (line.seen & 1U << HISTORY_JSON) {
		text = json_dumps(json_object_get(answer, "items"), JSON_COMPACT);
		puts(text ? text : "[]");
	} else {
		print_history(json_object_get(answer, "items"));
	}
	json_decref(answer);
	return command_flush(err);
}

const struct command remote_checkpoint = {
	.name = "checkpoint",
	.usage = "ID [NAME]",
	.summary = "keep the present state of a daemon's sandbox",
	.description = (const char *const[]){NULL},
	.options = no_options,
	.run = run_checkpoint,
};
const struct command remote_rollback = {
	.name = "rollback",
	.usage = "ID NAME",
	.summary = "return a daemon's sandbox to a checkpoint",
	.description = (const char *const[]){NULL},
	.options = rollback_options,
	.run = run_rollback,
};
const struct command remote_fork = {
	.name = "fork",
	.usage = "ID [--count N]",
	.summary = "make more sandboxes from one of a daemon",
	.description = (const char *const[]){NULL},
	.options = fork_options,
	.run = run_fork,
};
const struct command remote_history = {
	.name = "history",
	.usage = "ID [--json]",
	.summary = "list the checkpoints of a daemon's sandbox",
	.description = (const char *const[]){NULL},
	.options = history_options,
	.run = run_history,
};
