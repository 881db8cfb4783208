/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "cli/apply-list.h"
#include "cli/cli.h"
#include "cli/pick.h"

#include <atoll/layer.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

enum {
	OPTION_RUN,
	OPTION_MERGE,
	OPTION_FORCE,
	OPTION_PICK,
	OPTION_DRY_RUN,
	OPTION_JSON,
};

static const struct option apply_options[] = {
	{"run", 0, "RUN", "the run or sandbox, if its id could be mistaken for a path", OPTION_RUN},
	{"merge", 'm', NULL, "merge text files that the host has changed as well", OPTION_MERGE},
	{"force", 'f', NULL, "overwrite changes of the host; 'atoll undo' restores them",
	 OPTION_FORCE},
	{"pick", 'p', NULL, "choose the files at the terminal", OPTION_PICK},
	{"dry-run", 'n', NULL, "only print what would be applied", OPTION_DRY_RUN},
	{"json", 0, NULL, "print JSON: one object on one line", OPTION_JSON},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row apply_examples[] = {
	{"atoll apply", "all changes of the latest run here, except for marked files"},
	{"atoll apply src/ README.md", "only these"},
	{"atoll apply .git/hooks/pre-commit", "a marked file, because it is named"},
	{"atoll apply --merge", "merge with changes of the host"},
	{0},
};

struct apply_request {
	const char *run;
	char **paths; /* into the arguments; NULL-terminated */
	size_t n_paths;
	unsigned seen;
};

static bool has(const struct apply_request *request, int option)
{
	return request->seen & 1U << option;
}

/* Options may stand anywhere; all arguments after "--" are paths. */
static int read_request(char **args, struct apply_request *ret, bool *ret_first_is_path,
			struct atoll_error *err)
{
	struct options options = {command_apply.name, apply_options, args};
	const struct option *option;
	const char *value;
	size_t n = 0;
	int r;

	ret->paths = args;
	for (;;) {
		while ((r = options_next(&options, &option, &value, err)) > 0) {
			ret->seen |= 1U << option->id;
			if (option->id == OPTION_RUN)
				ret->run = value;
		}
		if (r < 0)
			return r;
		if (options.next > args && streq(options.next[-1], "--")) {
			*ret_first_is_path = n == 0;
			break;
		}
		if (!*options.next)
			break;
		args[n++] = *options.next++;
	}
	while (*options.next)
		args[n++] = *options.next++;
	args[n] = NULL;
	ret->n_paths = n;
	return 0;
}

/* Is `word` the id or name of a record, or the beginning of an id? A beginning must have at
 * least 4 characters, so that a file name is seldom mistaken for it. */
static bool names_record(const struct atoll_record *record, const char *word, bool *ret_whole)
{
	*ret_whole = streq(record->id, word) || (record->name[0] && streq(record->name, word));
	return *ret_whole || (strlen(word) >= 4 && starts_with(record->id, word));
}

/* Uses the first path as the run if it names one. */
static int find_run(struct apply_request *request, struct atoll_error *err)
{
	struct atoll_record *records;
	bool is_run = false, is_whole = false;
	struct stat st;
	size_t n;
	int r;

	if (request->run || request->n_paths == 0)
		return 0;
	r = atoll_records_list(false, &records, &n, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n && !is_whole; i++)
		is_run |= names_record(&records[i], request->paths[0], &is_whole);
	atoll_records_free(records, n);
	if (!is_run)
		return 0;
	if (!is_whole && lstat(request->paths[0], &st) == 0)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "'%s' is a path and the beginning of a run's id; say './%s' or "
				 "'--run %s'",
				 request->paths[0], request->paths[0], request->paths[0]);
	request->run = request->paths[0];
	request->paths++;
	request->n_paths--;
	return 0;
}

/* The caller frees it; NULL if it is unknown. */
static char *find_workspace(const char *id)
{
	struct atoll_record *records;
	char *found = NULL;
	size_t n;

	if (atoll_records_list(false, &records, &n, NULL) < 0)
		return NULL;
	for (size_t i = 0; i < n && !found; i++)
		if (streq(records[i].id, id))
			found = strdup(records[i].workspace);
	atoll_records_free(records, n);
	return found;
}

static int apply_picked(const struct apply_request *request, struct apply_list *list,
			struct atoll_apply_report *ret, struct atoll_error *err)
{
	struct pick_options options = {
		.picks = true,
		.merges = has(request, OPTION_MERGE),
		.is_forced = has(request, OPTION_FORCE),
		.told = apply_list_add,
		.data = list,
	};
	int r;

	if (request->n_paths > 0 || has(request, OPTION_DRY_RUN))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--pick asks about every file, so it goes with no path and not "
				 "with --dry-run");
	r = pick_and_apply(request->run, &options, ret, err);
	if (r == -ENOTTY)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--pick needs a terminal; without one, name paths");
	return r < 0 ? r : 0;
}

static int apply_request(const struct apply_request *request, struct apply_list *list,
			 struct atoll_apply_report *ret, struct atoll_error *err)
{
	struct atoll_apply_options options = {
		.paths = request->n_paths ? request->paths : NULL,
		.merges = has(request, OPTION_MERGE),
		.is_forced = has(request, OPTION_FORCE),
		.is_dry = has(request, OPTION_DRY_RUN),
		.told = apply_list_add,
		.data = list,
	};

	if (has(request, OPTION_PICK))
		return apply_picked(request, list, ret, err);
	return atoll_apply(request->run, &options, ret, err);
}

static int run_apply(char **args, struct atoll_error *err)
{
	cleanup_with(apply_list_done) struct apply_list list = {0};
	struct atoll_apply_report report = {0};
	struct apply_request request = {0};
	struct apply_place place = {0};
	cleanup_free char *workspace = NULL;
	bool first_is_path = false;
	int r = read_request(args, &request, &first_is_path, err), shown;

	if (r < 0)
		return r;
	if (has(&request, OPTION_HELP)) {
		help_command(&command_apply, stdout);
		return command_flush(err);
	}
	r = first_is_path ? 0 : find_run(&request, err);
	if (r < 0)
		return r;
	r = apply_request(&request, &list, &report, err);
	if (r < 0 && r != -EEXIST)
		return r;
	workspace = find_workspace(report.record);
	place = (struct apply_place){workspace, has(&request, OPTION_DRY_RUN),
				     has(&request, OPTION_MERGE)};
	if (has(&request, OPTION_JSON)) {
		shown = apply_list_json(&list, &report, &place, stdout);
		if (shown < 0)
			return error_set(err, ATOLL_FAULT_HOST, -shown, "write the list");
	} else {
		apply_list_text(&list, &report, &place, stdout, stderr);
	}
	return r < 0 ? r : command_flush(err);
}

const struct command command_apply = {
	.name = "apply",
	.usage = "[RUN] [OPTION]... [--] [PATH]...",
	.summary = "copy the changes of a run to the host",
	.description =
		(const char *const[]){
			"Copies the changes of a run or sandbox to its workspace on the host: all "
			"changes, or those at or below the PATHs. RUN is an id, or its beginning, "
			"from 'atoll ls', or the name of a sandbox; the default is the latest one "
			"of this directory.",
			"If one of these files has changed on the host since the run began, that "
			"is a conflict, and nothing is applied, unless --merge can merge both "
			"changes or --force overwrites the host's. If an apply is interrupted, "
			"even by kill -9 or a power failure, the next command that uses the run "
			"finishes or reverses it. 'atoll undo' reverses an apply. The event log "
			"(atoll log) says who applied what.",
			"Files that the host would execute or trust, such as git hooks, settings "
			"of editors and agents, or links that lead outside, are held back unless "
			"you name them. Links are never followed.",
			NULL},
	.options = apply_options,
	.sections = (const struct command_section[]){{"Examples", apply_examples}, {0}},
	.run = run_apply,
};
