/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/str.h"
#include "ui/command.h"
#include "ui/options.h"
#include "ui/print.h"

#include <string.h>

#define INDENT 2
#define COLUMN 28 /* where the second column begins */

static void print_row(FILE *out, const char *term, const char *text)
{
	int at = fprintf(out, "%*s%s", INDENT, "", term);

	/* Two blanks between the columns, or a line of its own. */
	if (at > COLUMN - 2) {
		fputc('\n', out);
		at = 0;
	}
	print_wrapped(out, at, COLUMN, text);
}

static void print_option(FILE *out, const struct option *option)
{
	char term[64];

	if (!option->name) {
		fprintf(out, "\n%s:\n", option->help);
		return;
	}
	snprintf(term, sizeof term, "%c%c%s--%s%s%s", option->letter ? '-' : ' ',
		 option->letter ? option->letter : ' ', option->letter ? ", " : "  ", option->name,
		 option->argument ? " " : "", option->argument ? option->argument : "");
	print_row(out, term, option->help);
}

static void print_section(FILE *out, const struct command_section *section)
{
	fprintf(out, "\n%s:\n", section->title);
	for (const struct command_row *row = section->rows; row->term; row++)
		print_row(out, row->term, row->text);
}

void command_help_text(const struct command *command, FILE *out)
{
	fprintf(out, "usage: atoll %s%s%s\n\n", command->name, command->usage[0] ? " " : "",
		command->usage);
	for (const char *const *text = command->description; *text; text++) {
		print_wrapped(out, 0, 0, *text);
		if (text[1])
			fputc('\n', out);
	}
	if (option_is_row(command->options) && command->options->name)
		fputs("\nOptions:\n", out);
	for (const struct option *option = command->options; option_is_row(option); option++)
		print_option(out, option);
	for (const struct command_section *s = command->sections; s && s->title; s++)
		print_section(out, s);
}

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

void command_overview(FILE *out)
{
	static const struct command_section examples = {"Try", overview_examples};

	fputs("atoll runs a command inside a boundary: it sees what the contract says, writes "
	      "where the\n"
	      "contract says, uses as much as the contract says, and nothing else.\n\n"
	      "usage: atoll COMMAND [ARGUMENT]...\n\nCommands:\n",
	      out);
	for (size_t i = 0; commands[i]; i++)
		print_row(out, commands[i]->name, commands[i]->summary);
	print_section(out, &examples);
	fputs("\n'atoll help COMMAND' tells more about one.\n", out);
}

/* For src/cli/completion.py, which makes the shells' completions at build time: a line per command
 * and per option, with tabs between the fields. No text of a table contains a tab or a newline. */
static void print_table(FILE *out)
{
	for (size_t i = 0; commands[i]; i++) {
		const struct command *command = commands[i];

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

	r = command_read(&command_help, args, 0, 1, &line, err);
	if (r != 0)
		return r < 0 ? r : 0;
	if (line.seen & 1U << OPTION_TABLE) {
		print_table(stdout);
		return command_flush(err);
	}
	is_man = line.seen & 1U << OPTION_MAN;
	if (!line.rest[0]) {
		is_man ? command_manual_overview(stdout) : command_overview(stdout);
		return command_flush(err);
	}
	command = command_find(line.rest[0], err);
	if (!command)
		return -1;
	is_man ? command_manual(command, stdout) : command_help_text(command, stdout);
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
