/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "cli/cli.h"
#include "cli/remote-call.h"

/* src/remote/top.c does it. */

enum {
	OPTION_SORT,
	OPTION_ONCE,
};

static const struct option top_options[] = {
	{"sort", 0, "WORD", "by 'cpu' (the default), 'memory', 'network', 'age' or 'id'",
	 OPTION_SORT},
	{"once", 0, NULL, "print the table once; done by itself where there is no terminal",
	 OPTION_ONCE},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row top_keys[] = {
	{"arrows, j, k", "choose a sandbox; Home, End and pages as well"},
	{"Enter", "look inside: what was started in it and runs; Esc goes back"},
	{"p", "pause it, or let it go on"},
	{"x", "end it for good, after a question"},
	{"s", "sort by the next: cpu, memory, network, age, id"},
	{"q", "leave"},
	{0},
};

static const struct command_row top_examples[] = {
	{"atoll top", "the daemon of yours on this machine"},
	{"atoll --host https://boxes.example.org top", "another one; the key is in ATOLL_KEY"},
	{"atoll top --once --sort memory", "for a script"},
	{0},
};

static const struct command_row top_files[] = {
	{"~/.local/state/atoll/daemon/local",
	 "where the daemon of yours listens, and a key; nobody else can read it"},
	{0},
};

static int run_top(char **args, struct atoll_error *err)
{
	/* `args` is left alone: the other program reads it again. */
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
			"Shows the sandboxes of a daemon ('atoll serve') in the terminal, anew "
			"every two seconds: state, CPU, memory, bytes over the network, processes "
			"and age. CPU is in per cent of one.",
			"Without --host it is the daemon that this user has started on this "
			"machine. Where standard output is no terminal the table is printed once.",
			NULL},
	.options = top_options,
	.sections =
		(const struct command_section[]){
			{"Keys", top_keys}, {"Examples", top_examples}, {"Files", top_files}, {0}},
	.run = run_top,
};
