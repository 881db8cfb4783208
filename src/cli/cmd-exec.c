/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/summary.h"

#include <atoll/layer.h>
#include <limits.h>
#include <unistd.h>

enum {
	OPTION_ENV,
	OPTION_CHDIR,
	OPTION_USER,
	OPTION_TTY,
	OPTION_NO_TTY,
	OPTION_JSON,
	OPTION_QUIET,
};

static const struct option exec_options[] = {
	{"env", 0, "NAME[=VALUE]", "set an environment variable; without a value, copy yours",
	 OPTION_ENV},
	{"chdir", 0, "DIR", "the directory to start in; relative to the sandbox's own directory",
	 OPTION_CHDIR},
	{"user", 0, "NAME", "run as this user of the contract (default: the first one)",
	 OPTION_USER},
	{"tty", 0, NULL,
	 "give the command a private terminal (the default if standard input and output are a "
	 "terminal)",
	 OPTION_TTY},
	{"no-tty", 0, NULL, "give the command pipes, also at a terminal", OPTION_NO_TTY},
	{"json", 0, NULL, "print the result as JSON, as the last line of standard error",
	 OPTION_JSON},
	{"quiet", 'q', NULL, "print no summary of refused actions and connections", OPTION_QUIET},
	OPTION_HELP_ROW,
	{0},
};

struct exec_request {
	const char *id, *cwd, *user;
	char **env; /* NULL-terminated */
	size_t n_env;
	bool is_json, is_quiet, is_help;
	enum atoll_tty tty;
	char **command;
};

static int set_option(void *data, const struct option *option, const char *value,
		      struct atoll_error *err)
{
	struct exec_request *request = data;
	char **more;

	switch (option->id) {
	case OPTION_ENV:
		more = realloc(request->env, (request->n_env + 2) * sizeof *more);
		if (!more)
			return error_oom(err);
		request->env = more;
		more[request->n_env++] = (char *)value;
		more[request->n_env] = NULL;
		break;
	case OPTION_CHDIR:
		request->cwd = value;
		break;
	case OPTION_USER:
		request->user = value;
		break;
	case OPTION_TTY:
	case OPTION_NO_TTY:
		request->tty = option->id == OPTION_TTY ? ATOLL_TTY_ALWAYS : ATOLL_TTY_NEVER;
		break;
	}
	request->is_json |= option->id == OPTION_JSON;
	request->is_quiet |= option->id == OPTION_QUIET;
	request->is_help |= option->id == OPTION_HELP;
	return 0;
}

static int read_request(char **args, struct exec_request *request, struct atoll_error *err)
{
	struct options options = {"exec", exec_options, args};
	int r = options_read_with_id(&options, &request->id, &request->is_help, set_option, request,
				     err);

	if (r < 0)
		return r;
	request->command = options.next;
	if (!request->is_help && !request->command[0])
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "no command; usage: atoll exec [ID] [OPTION]... -- COMMAND");
	return 0;
}

static void on_published(const struct atoll_published *ports, size_t n, void *data)
{
	const struct exec_request *request = data;

	for (size_t i = 0; !request->is_quiet && i < n; i++)
		fprintf(stderr, "atoll: port %u is at http://127.0.0.1:%u/\n", ports[i].port,
			ports[i].host_port);
}

static void print_summary(const struct exec_request *request, const struct atoll_result *result)
{
	char here[PATH_MAX];

	if (request->is_json)
		summary_json(result, NULL, stderr);
	else if (!request->is_quiet)
		summary_text(result, getcwd(here, sizeof here), stderr);
}

static int exec_step(const struct exec_request *request, struct atoll_error *err)
{
	struct atoll_run_options options = {.stdin_fd = 0,
					    .stdout_fd = 1,
					    .stderr_fd = 2,
					    .tty = request->tty,
					    .user = request->user,
					    .data = (void *)request,
					    .published = on_published};
	struct atoll_result result;
	int r;

	interact_begin(&options);
	r = atoll_sandbox_exec(request->id, request->command, request->env, request->cwd, &options,
			       &result, err);
	interact_end();
	if (r < 0)
		return r;
	if (result.is_mid_line && isatty(STDERR_FILENO) &&
	    (request->is_json || result.end != ATOLL_EXITED || result.n_denials))
		fputs("\n\033[J", stderr);
	if (result.end == ATOLL_NOT_STARTED)
		print_problem(err->text);
	print_summary(request, &result);
	interact_die(&result);
	return atoll_result_status(&result);
}

static int run_exec(char **args, struct atoll_error *err)
{
	struct exec_request request = {.tty = ATOLL_TTY_AUTO, .command = args};
	int r = read_request(args, &request, err);

	if (r == 0 && request.is_help) {
		help_command(&command_exec, stdout);
		r = command_flush(err);
	} else if (r == 0) {
		r = exec_step(&request, err);
	}
	free(request.env);
	if (r < 0 && request.is_json) {
		summary_json_failure(err, stderr);
		return atoll_error_status(err);
	}
	return r;
}

static const struct command_row exec_examples[] = {
	{"atoll exec abc -- make test", "a step in the sandbox whose id begins with abc"},
	{"atoll exec -- sh", "a shell in the latest sandbox of this directory"},
	{"atoll exec abc -- sh -c 'npm run dev >log 2>&1 &'",
	 "a process that goes on in the background"},
	{"atoll exec abc --env DEBUG=1 --chdir src -- ./run",
	 "with a variable, in another directory"},
	{0},
};

static const struct command_row exec_environment[] = {
	{"ATOLL_IDLE_SECONDS",
	 "seconds until an unused sandbox becomes idle, read when it is started (default: 600)"},
	{0},
};

const struct command command_exec = {
	.name = "exec",
	.usage = "[ID] [OPTION]... -- COMMAND [ARGUMENT]...",
	.summary = "run one step in a sandbox",
	.description =
		(const char *const[]){
			"Runs COMMAND as a step in a sandbox that 'atoll create' has created, "
			"under its contract, and waits for its end. ID is an id, the beginning of "
			"an id, or the name of a sandbox; the default is the latest sandbox of the "
			"current directory.",
			"The first step starts the sandbox and a holder process for it; there is "
			"no daemon. Processes that a step leaves in the background go on. After "
			"ten minutes without a step and without a process the sandbox becomes "
			"idle: the holder ends. The next step starts it again on the same layers. "
			"If the holder is killed, all processes in the sandbox end.",
			"Signals, terminals and exit statuses work as in 'atoll run'. If this "
			"command is killed, its step is killed, but not the sandbox and the "
			"processes of earlier steps. The time limit is for each step. If the "
			"sandbox reaches another limit, all its processes are killed.",
			NULL},
	.options = exec_options,
	.sections =
		(const struct command_section[]){
			{"Exit status", exit_statuses},
			{"Environment", exec_environment},
			{"Examples", exec_examples},
			{0},
		},
	.run = run_exec,
};
