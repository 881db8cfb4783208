/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "cli/ask.h"
#include "cli/clauses.h"
#include "cli/cli.h"
#include "cli/repository-hint.h"
#include "cli/run-apply.h"
#include "cli/run-receipt.h"
#include "cli/summary-layer.h"
#include "cli/summary.h"

#include <atoll/layer.h>
#include <limits.h>

enum {
	OPTION_PLAN = OPTION_OWN,
	OPTION_JSON,
	OPTION_QUIET,
	OPTION_TTY,
	OPTION_NO_TTY,
	OPTION_APPLY,
	OPTION_RECEIPT,
	OPTION_EVENTS,
};

static const struct option run_options[] = {
	{.help = "What to run"},
	CLAUSES_START,
	{"fd", 0, "N", "pass descriptor N to the command, besides 0, 1 and 2"},
	{"tty", 0, NULL,
	 "give the command a private terminal (the default if standard input and output are a "
	 "terminal)",
	 OPTION_TTY},
	{"no-tty", 0, NULL, "give the command pipes, also at a terminal", OPTION_NO_TTY},

	CLAUSES_CONTRACT,

	{.help = "At the end"},
	{"apply", 0, "WHEN",
	 "when to apply the changes: 'never' (the default), use 'atoll apply' later; 'ask' shows "
	 "them at the end and asks; 'auto' applies them if the command succeeded, except for files "
	 "that the host would execute or trust, and none if one conflicts",
	 OPTION_APPLY},

	{"receipt", 0, "FILE",
	 "write a signed receipt at the end (see 'atoll attest') that can be replayed (atoll "
	 "replay); atoll reads the whole workspace before the run for it",
	 OPTION_RECEIPT},

	{.help = "Output"},
	{"plan", 0, NULL, "show each clause and how it would be enforced; run nothing",
	 OPTION_PLAN},
	{"json", 0, NULL, "print JSON: the plan, or the result as the last line of standard error",
	 OPTION_JSON},
	{"quiet", 'q', NULL, "print no summary of refused actions and connections", OPTION_QUIET},
	{"events", 0, "READER",
	 "send the lines of the event log to another program during the run: 'fd:N', 'unix:PATH' "
	 "or 'exec:COMMAND', which runs outside of the sandbox with your rights; may be repeated",
	 OPTION_EVENTS},
	OPTION_HELP_ROW,
	{0},
};

#define EVENTS_MAX 3

struct run_request {
	const char *events[EVENTS_MAX + 1];
	size_t n_events;
	const char *file;
	const char *receipt; /* NULL: none */
	bool is_plan;
	bool is_json;
	bool is_quiet;
	bool is_help;
	bool is_elsewhere; /* the workspace may not be the current directory */
	enum atoll_tty tty;
	enum apply_when apply;
	char **command; /* empty: the file's */
};

/* The options that are about this program. clauses_fill() reads the options that are about the
 * contract, after the job file, because options override the file wherever they stand. */
static int read_request(char **args, struct run_request *ret, struct atoll_error *err)
{
	struct options options = {"run", run_options, args};
	struct run_request request = {.tty = ATOLL_TTY_AUTO};
	const struct option *option;
	const char *value;
	int r;

	while ((r = options_next(&options, &option, &value, err)) > 0) {
		if (option->id == OPTION_FILE && request.file)
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "two job files, '%s' and '%s': a run has only one",
					 request.file, value);
		if (option->id == OPTION_FILE)
			request.file = value;
		if (option->id == OPTION_TTY || option->id == OPTION_NO_TTY)
			request.tty = option->id == OPTION_TTY ? ATOLL_TTY_ALWAYS : ATOLL_TTY_NEVER;
		if (option->id == OPTION_EVENTS && request.n_events == EVENTS_MAX)
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "--events: at most %d readers are allowed", EVENTS_MAX);
		if (option->id == OPTION_EVENTS)
			request.events[request.n_events++] = value;
		if (option->id == OPTION_APPLY) {
			r = apply_when_parse(value, &request.apply, err);
			if (r < 0)
				return r;
		}
		if (option->id == OPTION_RECEIPT)
			request.receipt = value;
		request.is_elsewhere |=
			option->id == OPTION_FILE || streq(option->name, "workspace");
		request.is_plan |= option->id == OPTION_PLAN;
		request.is_json |= option->id == OPTION_JSON;
		request.is_quiet |= option->id == OPTION_QUIET;
		request.is_help |= option->id == OPTION_HELP;
	}
	if (r < 0)
		return r;
	request.command = options.next;
	if (!request.is_help && !request.file && !request.command[0])
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"no command; usage: atoll run [OPTION]... [--] COMMAND, or -f FILE");
	*ret = request;
	return 0;
}

static int fill_job(struct atoll_job *job, const struct run_request *request, char **args,
		    struct atoll_error *err)
{
	int r = clauses_fill(job, request->file, &command_run, args, err);

	if (r >= 0 && request->command[0])
		r = atoll_job_command(job, request->command, err);
	return r;
}

static int print_plan(struct atoll_job *job, bool is_json, struct atoll_error *err)
{
	cleanup_free char *text = NULL;
	int r = atoll_job_plan(job, is_json ? ATOLL_JSON : ATOLL_TEXT, &text, err);

	if (r < 0)
		return r;
	fputs(text, stdout);
	return command_flush(err);
}

static void print_summary(struct atoll_job *job, const struct run_request *request,
			  const struct atoll_result *result, const struct apply_outcome *applied)
{
	char here[PATH_MAX];
	char digest[65];

	if (request->is_json)
		summary_json_applied(result,
				     atoll_job_digest(job, digest, NULL) < 0 ? NULL : digest,
				     applied, stderr);
	else if (!request->is_quiet)
		summary_text(result, getcwd(here, sizeof here), stderr);
	/* Applied changes need no hint how to apply them. */
	if (!request->is_json && !request->is_quiet && (!applied->was_tried || applied->has_failed))
		summary_layer_text(result, stderr);
	if (!request->is_json && !request->is_quiet && !request->is_elsewhere)
		repository_hint(result, getcwd(here, sizeof here), request->command, stderr);
	if (!request->is_json)
		apply_print(applied, result, request->is_quiet, stderr);
}

/* Will the summary print anything? */
static bool has_words(const struct run_request *request, const struct atoll_result *result)
{
	return request->is_json || result->end == ATOLL_NOT_STARTED ||
	       (!request->is_quiet &&
		(result->record[0] || result->n_denials > 0 || result->n_connections > 0 ||
		 result->network_note[0] || result->record_note[0] || result->n_flags > 0 ||
		 result->events_note[0] || result->end == ATOLL_STOPPED ||
		 result->end == ATOLL_UNRECORDED || result->end == ATOLL_TIMED_OUT ||
		 result->end == ATOLL_OUT_OF_MEMORY || result->end == ATOLL_OVER_LIMIT));
}

static void on_published(const struct atoll_published *ports, size_t n, void *data)
{
	const struct run_request *request = data;

	for (size_t i = 0; !request->is_quiet && i < n; i++)
		fprintf(stderr, "atoll: port %u is at http://127.0.0.1:%u/\n", ports[i].port,
			ports[i].host_port);
}

/* Called before the summary, because with --json that must be the last line. 0, or an exit
 * status. */
static int write_receipt(const char *path, const struct atoll_result *result)
{
	struct atoll_error problem = {0};
	int r = receipt_after(path, result, &problem);

	if (r >= 0)
		return r;
	print_problem(problem.text);
	return atoll_error_status(&problem);
}

static int run_job(struct atoll_job *job, const struct run_request *request,
		   struct atoll_error *err)
{
	struct atoll_run_options options = {.stdin_fd = 0,
					    .stdout_fd = 1,
					    .stderr_fd = 2,
					    .tty = request->tty,
					    .for_receipt = request->receipt != NULL,
					    .data = (void *)request,
					    .ask = ask_person,
					    .events = request->events,
					    .published = on_published};
	struct apply_outcome applied = {0};
	struct atoll_result result;
	int receipt, r = apply_check(request->apply, err);

	if (r < 0)
		return r;
	interact_begin(&options);
	r = atoll_job_run(job, &options, &result, err);
	interact_end();
	if (r < 0)
		return r;
	/* Start the summary on a new line. */
	if (result.is_mid_line && isatty(STDERR_FILENO) && has_words(request, &result))
		fputs("\n\033[J", stderr);
	/* The sandbox ran, but the command could not be executed: err says why. */
	if (result.end == ATOLL_NOT_STARTED)
		print_problem(err->text);
	apply_after(request->apply, &result, &applied);
	receipt = request->receipt ? write_receipt(request->receipt, &result) : 0;
	print_summary(job, request, &result, &applied);
	interact_die(&result);
	r = atoll_result_status(&result);
	if (r == 0)
		r = applied.has_failed ? atoll_error_status(&applied.problem) : receipt;
	return r;
}

static int run_run(char **args, struct atoll_error *err)
{
	struct run_request request = {.command = args};
	struct atoll_job *job;
	int r = read_request(args, &request, err);

	if (r != 0)
		return r;
	if (request.is_help) {
		help_command(&command_run, stdout);
		return command_flush(err);
	}
	job = atoll_job_new(err);
	r = job ? fill_job(job, &request, args, err) : -1;
	if (r >= 0)
		r = request.is_plan ? print_plan(job, request.is_json, err)
				    : run_job(job, &request, err);
	atoll_job_free(job);
	if (r < 0 && request.is_json) {
		summary_json_failure(err, stderr);
		return atoll_error_status(err);
	}
	return r;
}

static const char *const run_description[] = {
	"Runs COMMAND in the current directory under a contract. The contract limits the command "
	"and all processes that it starts.",
	"The default contract: the command can read system directories. It can write the current "
	"directory, but only in a layer: the files themselves do not change, 'atoll diff' shows "
	"the changes, and 'atoll apply' copies them to the host. Secrets and other people's home "
	"directories are hidden. /tmp, /run and /dev are private. There is no network (see "
	"--allow) and no privilege. Processes, memory, time and output are limited.",
	"With --direct the command writes to the workspace directly, except for files that the "
	"host would later execute or trust (git hooks and configuration, settings of editors and "
	"agents, shell start-up files). In a layer the command can change such files, and 'atoll "
	"apply' applies them only if they are named. See doc/layers.md.",
	"At a terminal the command gets a private terminal with job control. Your terminal shows "
	"its text, colours and cursor movement; atoll removes sequences that set the clipboard or "
	"the title, or that make the terminal answer. In pipes and files no byte is changed.",
	"atoll passes signals on to the command. SIGINT, SIGTERM, SIGHUP and SIGQUIT go to its "
	"process group, and after --grace everything in the sandbox is killed; a second SIGINT or "
	"SIGTERM kills at once. SIGTSTP stops everything in the sandbox. At the time limit the "
	"command gets SIGTERM, and after --grace everything is killed; the time runs on while a "
	"run is stopped.",
	"With --allow the command can connect to these names and to nothing else. A process "
	"outside of the sandbox makes every connection and checks name, port and address; this "
	"works for programs without proxy support, too. The summary at the end lists the "
	"connections. See doc/network.md.",
	"The contract consists of the defaults, then the job file, then the options; each adds to "
	"or overrides the one before. --plan shows the origin of each line and the mechanism that "
	"enforces it. If this host cannot enforce a clause, the run fails before the command "
	"starts.",
	NULL,
};

static const struct command_row run_examples[] = {
	{"atoll run -- npm test", "the default contract, in this directory"},
	{"atoll run --read ~/data --timeout 10m -- python3 train.py",
	 "one more directory to read, a shorter time limit"},
	{"atoll run --apply=ask -- ./agent", "see the changes at the end, and decide"},
	{"atoll run --direct -- make", "write to this directory directly"},
	{"atoll run --hide '**/.env' -- make", "hide a pattern at any depth"},
	{"atoll run --allow pypi.org --allow files.pythonhosted.org -- pip install six",
	 "connect to two names and to nothing else"},
	{"atoll run --allow api.example.com --secret API_KEY=api.example.com -- ./agent",
	 "a key that is never in the sandbox"},
	{"atoll run --listen 8080 -- npm run dev", "reach a server that runs in the sandbox"},
	{"atoll run --plan -f job.yaml", "show what would be enforced, without running it"},
	{"atoll run --json -f job.yaml 2>log; tail -n1 log", "the result for a program"},
	{0},
};

static const struct command_row run_files[] = {
	{"/run/atoll/contract.md",
	 "in the sandbox: what is allowed, for the command to read (contract.json for programs)"},
	{"~/.local/state/atoll", "the records with the layers of runs; 'atoll ls' lists them"},
	{"~/.config/atoll/trusted-names", "more trusted names, protected like .vscode: one per "
					  "line, followed by the program that obeys the file"},
	{"~/.config/atoll/answers", "the answers 'always' to questions about the network, by "
				    "contract; to revoke one, remove its line"},
	{0},
};

static const struct command_row run_environment[] = {
	{"ATOLL_SANDBOX", "is 1 in the sandbox"},
	{"HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY",
	 "are set in the sandbox if it has a network, unless --no-proxy is given"},
	{"SSL_CERT_FILE",
	 "outside of the sandbox: the certificate authorities, for connections with --secret"},
	{0},
};

const struct command command_run = {
	.name = "run",
	.usage = "[OPTION]... [--] COMMAND [ARGUMENT]...",
	.summary = "run a command in a sandbox",
	.description = run_description,
	.options = run_options,
	.sections =
		(const struct command_section[]){
			{"Exit status", exit_statuses},
			{"Files", run_files},
			{"Environment", run_environment},
			{"Examples", run_examples},
			{0},
		},
	.run = run_run,
};
