/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "cli/cli.h"
#include "cli/remote-call.h"

/* Options and help only; src/remote/top.c implements the command. */

enum {
	OPTION_SORT,
	OPTION_ONCE,
};

static const struct option top_options[] = {
	{"sort", 0, "WORD", "'cpu' (the default), 'memory', 'network', 'age' or 'id'", OPTION_SORT},
	{"once", 0, NULL, "print the table once (the default if there is no terminal)",
	 OPTION_ONCE},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row top_keys[] = {
	{"arrows, j, k", "select a sandbox; also Home, End, Page Up and Page Down"},
	{"Enter", "show the running steps of the sandbox; Esc goes back"},
	{"p", "pause or resume the sandbox"},
	{"x", "end the sandbox, after a question"},
	{"s", "sort by the next column: cpu, memory, network, age, id"},
	{"q", "quit"},
	{0},
};

static const struct command_row top_examples[] = {
	{"atoll top", "your own daemon on this machine"},
	{"atoll --host https://boxes.example.org top", "another daemon; the key is in ATOLL_KEY"},
	{"atoll top --once --sort memory", "in a script"},
	{0},
};

static const struct command_row top_files[] = {
	{"~/.local/state/atoll/daemon/local",
	 "the address of your daemon, and a key; readable by you only"},
	{0},
};

static int run_top(char **args, struct atoll_error *err)
{
	/* Read a copy: atoll-remote reads `args` again. */
	for (char **arg = args; *arg; arg++) {
		if ((*arg)[0] == '-' && ((*arg)[1] == 'h' || streq(*arg, "--help"))) {
			help_command(&command_top, stdout);
			return command_flush(err);
		}
	}
	return remote_execute("", "top", args, err);
}

const struct command command_top = {
	.name = "top",
	.usage = "[--sort WORD] [--once]",
	.summary = "watch the sandboxes of a daemon",
	.description =
		(const char *const[]){
			"Shows the sandboxes of a daemon ('atoll serve') in the terminal, updated "
			"every two seconds: state, CPU, memory, network bytes, processes and age. "
			"CPU is in per cent of one CPU.",
			"The default is your own daemon on this machine; see --host. If standard "
			"output is not a terminal, the table is printed once.",
			NULL},
	.options = top_options,
	.sections =
		(const struct command_section[]){
			{"Keys", top_keys}, {"Examples", top_examples}, {"Files", top_files}, {0}},
	.run = run_top,
};
