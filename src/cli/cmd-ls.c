/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"
#include "cli/cli.h"

#include <atoll/layer.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <time.h>

enum {
	OPTION_ALL,
	OPTION_JSON,
};

#define JSON_MAX ((size_t)256 << 20)

static const struct option ls_options[] = {
	{"all", 'a', NULL, "also those of other directories", OPTION_ALL},
	{"json", 0, NULL, "print JSON: a list of objects, with the disk usage of each",
	 OPTION_JSON},
	OPTION_HELP_ROW,
	{0},
};

static const char *state_word(enum atoll_record_state state)
{
	static const char *const words[] = {
		[ATOLL_RECORD_LIVE] = "live",
		[ATOLL_RECORD_KEPT] = "kept",
		[ATOLL_RECORD_APPLIED] = "applied",
		[ATOLL_RECORD_BROKEN] = "broken",
	};

	return words[state];
}

/* Is the workspace this directory, or above or below it? */
static bool is_near(const struct atoll_record *record, const char *here)
{
	return path_is_within(here, record->workspace) || path_is_within(record->workspace, here);
}

/* ---- for people ---- */

static void print_what(const struct atoll_record *record)
{
	if (record->kind == ATOLL_RECORD_SANDBOX) {
		fputs("sandbox", stdout);
		if (record->name[0])
			printf(" %s", record->name);
		printf(", %" PRIu64 " checkpoint%s", record->n_checkpoints,
		       record->n_checkpoints == 1 ? "" : "s");
		fputs(record->command && record->command[0] ? ": " : "", stdout);
	}
	if (record->command)
		print_escaped(stdout, record->command);
}

static void print_record(const struct atoll_record *record, uint64_t now_ns, bool with_place)
{
	uint64_t then_ns = record->end_ns ? record->end_ns : record->start_ns;
	char age[32], status[16] = "-";

	amount_age(now_ns > then_ns ? (now_ns - then_ns) / 1000000000U : 0, age, sizeof age);
	if (record->status >= 0)
		snprintf(status, sizeof status, "%d", record->status);
	printf("%-8s  %-7s  %8s  %6s  ", record->id, state_word(record->state), age, status);
	print_what(record);
	fputc('\n', stdout);
	if (with_place) {
		printf("%37s", "in ");
		print_escaped(stdout, record->workspace);
		fputc('\n', stdout);
	}
}

static void print_text(const struct atoll_record *list, size_t n, const char *here)
{
	size_t n_shown = 0;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	for (size_t i = 0; i < n; i++) {
		if (here && !is_near(&list[i], here))
			continue;
		if (n_shown++ == 0)
			printf("%-8s  %-7s  %8s  %6s  %s\n", "ID", "STATE", "AGE", "STATUS",
			       "WHAT");
		print_record(&list[i], (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec,
			     !here);
	}
	if (n_shown == 0 && n > 0)
		printf("no records of this directory; %zu of other directories: atoll ls --all\n",
		       n);
	else if (n_shown == 0)
		puts("no records");
}

/* ---- for programs ---- */

static void write_record(struct json *json, const struct atoll_record *record)
{
	json_open(json, NULL, '{');
	json_str(json, "id", record->id);
	json_str(json, "kind", record->kind == ATOLL_RECORD_SANDBOX ? "sandbox" : "run");
	json_str(json, "state", state_word(record->state));
	json_str(json, "name", record->name[0] ? record->name : NULL);
	json_str(json, "parent", record->parent[0] ? record->parent : NULL);
	json_str(json, "workspace", record->workspace);
	json_str(json, "command", record->command);
	if (record->status >= 0)
		json_int(json, "status", record->status);
	else
		json_none(json, "status");
	json_uint(json, "start_ns", record->start_ns);
	json_uint(json, "end_ns", record->end_ns);
	json_uint(json, "bytes", record->bytes);
	json_uint(json, "checkpoints", record->n_checkpoints);
	json_bool(json, "memory", record->is_memory);
	json_str(json, "contract", record->digest[0] ? record->digest : NULL);
	json_close(json, '}');
}

static int print_json(const struct atoll_record *list, size_t n, const char *here,
		      struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(JSON_MAX);
	struct json json = {.out = &text};

	json_open(&json, NULL, '[');
	for (size_t i = 0; i < n; i++) {
		if (!here || is_near(&list[i], here))
			write_record(&json, &list[i]);
	}
	json_close(&json, ']');
	if (buf_error(&text) < 0)
		return error_oom(err);
	puts(text.data);
	return 0;
}

static int run_ls(char **args, struct atoll_error *err)
{
	struct atoll_record *list;
	struct command_line line;
	char here[PATH_MAX];
	bool is_json, is_all;
	size_t n;
	int r = command_read_switches(&command_ls, args, 0, 0, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	is_json = line.seen & 1U << OPTION_JSON;
	is_all = line.seen & 1U << OPTION_ALL;
	if (!is_all && !getcwd(here, sizeof here))
		return error_set(err, ATOLL_FAULT_HOST, errno, "find the current directory");
	r = atoll_records_list(is_json, &list, &n, err);
	if (r < 0)
		return r;
	if (is_json)
		r = print_json(list, n, is_all ? NULL : here, err);
	else
		print_text(list, n, is_all ? NULL : here);
	atoll_records_free(list, n);
	return r < 0 ? r : command_flush(err);
}

static const struct command_row ls_states[] = {
	{"live", "the command, or a process of the sandbox, is running"},
	{"kept", "the run has ended, or the sandbox is idle; the changes are not applied"},
	{"applied", "all changes that are not held back are applied"},
	{"broken", "an apply or undo was interrupted; the next one finishes it"},
	{0},
};

const struct command command_ls = {
	.name = "ls",
	.usage = "[--all] [--json]",
	.summary = "list runs with changes, and sandboxes",
	.description =
		(const char *const[]){
			"Lists the records of runs in mode 'layer' and of sandboxes, the latest "
			"first: those whose workspace is this directory, or above or below it.",
			"A run that changed nothing has no record. Records are in "
			"$XDG_STATE_HOME/atoll (~/.local/state/atoll); 'atoll help gc' says how "
			"long they stay.",
			NULL},
	.options = ls_options,
	.sections = (const struct command_section[]){{"States", ls_states}, {0}},
	.run = run_ls,
};
