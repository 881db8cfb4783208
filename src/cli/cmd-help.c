/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd-help.h"

#include "base/error.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/manual.h"

#include <string.h>

static const struct command_row overview_examples[] = {
	{"atoll run -- npm test", "here, with no network and no sight of your secrets"},
	{"atoll diff; atoll apply", "what it changed; take it onto the host"},
	{"atoll run --plan -- make", "what would be enforced, and how; runs nothing"},
	{"atoll run -f job.yaml", "a command and its contract from a file"},
	{"atoll doctor", "what this machine can enforce, and what it lacks"},
	{"atoll --host URL create",
	 "in a daemon elsewhere ('atoll serve'); exec, ls, rm, ... as well"},
	{0},
};

void help_overview(FILE *out)
{
	static const struct command_section examples = {"Try", overview_examples};

	fputs("atoll runs a command inside a boundary: it sees what the contract says, writes "
	      "where the\n"
	      "contract says, uses as much as the contract says, and nothing else.\n\n"
	      "usage: atoll COMMAND [ARGUMENT]...\n\nCommands:\n",
	      out);
	for (size_t i = 0; atoll_commands[i]; i++)
		help_row(out, atoll_commands[i]->name, atoll_commands[i]->summary);
	help_section(out, &examples);
	fputs("\n'atoll help COMMAND' tells more about one.\n", out);
}

/* For src/cli/completion.py, which makes the shells' completions at build time: a line per command
 * and per option, with tabs between the fields. No text of a table contains a tab or a newline. */
static void print_table(FILE *out)
{
	for (size_t i = 0; atoll_commands[i]; i++) {
		const struct command *command = atoll_commands[i];

		fprintf(out, "command\t%s\t%s\t%s\n", command->name, command->usage,
			command->summary);
		for (const struct option *option = command->options; option_is_row(option);
		     option++) {
			char letter[2] = {option->letter};

			if (option->name)
				fprintf(out, "option\t%s\t%s\t%s\t%s\n", option->name, letter,
					option->argument ? option->argument : "", option->help);
		}
	}
}

enum {
	OPTION_MAN,
	OPTION_TABLE,
};

static const struct option help_options[] = {
	{"man", 0, NULL, "as a manual page, in troff", OPTION_MAN},
	{"table", 0, NULL,
	 "all commands and options for programs: lines of fields with tabs between", OPTION_TABLE},
	OPTION_HELP_ROW,
	{0},
};

static int run_help(char **args, struct atoll_error *err)
{
	const struct command *command;
	struct command_line line;
	bool is_man;
	int r;

	r = command_read_switches(&command_help, args, 0, 1, &line, err);
	if (r != 0)
		return r < 0 ? r : 0;
	if (line.seen & 1U << OPTION_TABLE) {
		print_table(stdout);
		return command_flush(err);
	}
	is_man = line.seen & 1U << OPTION_MAN;
	if (!line.args[0]) {
		is_man ? manual_overview(stdout) : help_overview(stdout);
		return command_flush(err);
	}
	command = find_command(line.args[0], err);
	if (!command)
		return -1;
	is_man ? manual_command(command, stdout) : help_command(command, stdout);
	return command_flush(err);
}

const struct command command_help = {
	.name = "help",
	.usage = "[COMMAND]",
	.summary = "tell about a command",
	.description =
		(const char *const[]){"Tells what a command does and which options it has.", NULL},
	.options = help_options,
	.run = run_help,
};
