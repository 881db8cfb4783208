/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/str.h"
#include "cli/clauses.h"
#include "cli/cli.h"
#include "cli/cmd-import.h"

#include <atoll/layer.h>

enum {
	OPTION_NAME = OPTION_OWN,
	OPTION_FROM,
};

static const struct option create_options[] = {
	{.help = "The sandbox"},
	{"name", 'n', "NAME", "a name for the sandbox, besides its id", OPTION_NAME},
	{"workspace-from", 0, "ARCHIVE",
	 "first unpack an untrusted tar or zip into the workspace, as 'atoll import' does; the "
	 "workspace must be new or empty (default: named after the archive)",
	 OPTION_FROM},
	CLAUSES_START,
	CLAUSES_SANDBOX,

	CLAUSES_CONTRACT,

	{.help = "Other"},
	OPTION_HELP_ROW,
	{0},
};

struct create_request {
	const char *file, *name;
	const char *archive, *workspace; /* NULL: none; none said */
	bool is_help;
};

static int read_request(char **args, struct create_request *ret, struct atoll_error *err)
{
	struct options options = {"create", create_options, args};
	struct create_request request = {0};
	const struct option *option;
	const char *value;
	int r;

	while ((r = options_next(&options, &option, &value, err)) > 0) {
		if (option->id == OPTION_FILE)
			request.file = value;
		if (option->id == OPTION_NAME)
			request.name = value;
		if (option->id == OPTION_FROM)
			request.archive = value;
		if (option->name && streq(option->name, "workspace"))
			request.workspace = value;
		request.is_help |= option->id == OPTION_HELP;
	}
	if (r < 0)
		return r;
	if (!request.is_help && *options.next)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "'%s': a sandbox has no command of its own; usage: atoll create "
				 "[OPTION]..., then atoll exec ID -- COMMAND",
				 *options.next);
	*ret = request;
	return 0;
}

static int unpack(const struct create_request *request, struct atoll_job *job,
		  struct atoll_error *err)
{
	struct import_printed told = {.file = request->archive};
	const struct atoll_import_options usual = {.held = import_print_held, .data = &told};
	struct atoll_archive_report report;
	char dir[PATH_MAX];
	int r = import_archive(request->archive, request->workspace, &usual, dir, &report, err);

	if (r < 0)
		return r;
	fputs("atoll: the workspace is ", stderr);
	print_escaped(stderr, dir);
	fputs("\n", stderr);
	if (report.n_dropped > 0)
		fprintf(stderr, "atoll: left out: %s\n", report.dropped);
	return request->workspace ? 0 : atoll_job_set(job, "workspace", dir, err);
}

static int run_create(char **args, struct atoll_error *err)
{
	struct create_request request = {0};
	char id[ATOLL_ID_SIZE];
	struct atoll_job *job;
	int r = read_request(args, &request, err);

	if (r < 0)
		return r;
	if (request.is_help) {
		help_command(&command_create, stdout);
		return command_flush(err);
	}
	job = atoll_job_new(err);
	r = job ? clauses_fill(job, request.file, &command_create, args, err) : -1;
	if (r >= 0 && request.archive)
		r = unpack(&request, job, err);
	if (r >= 0)
		r = atoll_sandbox_create(job, request.name, id, err);
	atoll_job_free(job);
	if (r < 0)
		return r;
	puts(id);
	return command_flush(err);
}

static const struct command_row create_examples[] = {
	{"id=$(atoll create)", "the default contract, for the current directory"},
	{"atoll exec $id -- make", "a step in it"},
	{"atoll create --name try --checkpoints every-step", "each step can be returned to"},
	{"atoll create --workspace-from project.tar.gz", "for a tree from elsewhere, in ./project"},
	{"atoll create -f job.yaml --memory 8G", "from a job file, whose command is not used"},
	{0},
};

const struct command command_create = {
	.name = "create",
	.usage = "[OPTION]...",
	.summary = "create a sandbox that lives on, for steps",
	.description =
		(const char *const[]){
			"Creates a sandbox from a contract, with the options of 'atoll run', and "
			"prints its id. No process is started; the first 'atoll exec' does that.",
			"Changes to the workspace stay in the layers of the sandbox until you "
			"apply them (atoll diff, atoll apply) or remove the sandbox (atoll rm). "
			"You can save a state (atoll checkpoint), return to it (atoll rollback) "
			"and start other sandboxes from it (atoll fork). A checkpoint contains the "
			"workspace only. Private places such as /tmp exist as long as the "
			"processes of the sandbox.",
			"The contract is fixed now: later changes of the job file have no effect, "
			"and trust in it is checked only now. Limits are for the whole sandbox, "
			"except for the time limit, which is for each step. --ask has no effect "
			"yet: names that are not listed are refused.",
			NULL},
	.options = create_options,
	.sections = (const struct command_section[]){{"Examples", create_examples}, {0}},
	.run = run_create,
};
