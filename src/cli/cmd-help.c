/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd-help.h"

#include "base/error.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/manual.h"

#include <string.h>

static const struct command_row overview_examples[] = {
	{"atoll run -- npm test", "in this directory, without network and without your secrets"},
	{"atoll diff; atoll apply", "show the changes; copy them to the host"},
	{"atoll run --plan -- make", "show what would be enforced, and how; run nothing"},
	{"atoll run -f job.yaml", "run a command with its contract from a file"},
	{"atoll doctor", "show what this machine can enforce, and what is missing"},
	{"atoll --host URL create",
	 "use a daemon on another machine ('atoll serve'); also exec, ls, rm, ..."},
	{0},
};

void help_overview(FILE *out)
{
	static const struct command_section examples = {"Try", overview_examples};

	fputs("atoll runs a command in a sandbox. A contract says what the command may read and "
	      "write,\nwhich hosts it may reach, and how much it may use. Everything else is "
	      "refused.\n\nusage: atoll COMMAND [ARGUMENT]...\n\nCommands:\n",
	      out);
	for (size_t i = 0; atoll_commands[i]; i++)
		help_row(out, atoll_commands[i]->name, atoll_commands[i]->summary);
	help_section(out, &examples);
	fputs("\nFor more about a command: atoll help COMMAND\n", out);
}

/* `atoll help --table`, for src/cli/completion.py, which makes the completions at build time: a
 * line per command and option, with tabs between the fields. No text in a table contains a tab
 * or a newline. */
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
	{"man", 0, NULL, "print a manual page in troff", OPTION_MAN},
	{"table", 0, NULL,
	 "print all commands and options for programs: lines with tabs between the fields",
	 OPTION_TABLE},
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
	.summary = "show the help of a command",
	.description =
		(const char *const[]){"Shows what a command does and which options it has.", NULL},
	.options = help_options,
	.run = run_help,
};
