/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/help.h"

#include "ui/command.h"
#include "ui/options.h"
#include "ui/print.h"

#define INDENT 2
#define COLUMN 28 /* where the second column begins */

void help_row(FILE *out, const char *term, const char *text)
{
	int at = fprintf(out, "%*s%s", INDENT, "", term);

	/* At least two blanks between the columns; a longer term gets a line of its own. */
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
	help_row(out, term, option->help);
}

void help_section(FILE *out, const struct command_section *section)
{
	fprintf(out, "\n%s:\n", section->title);
	for (const struct command_row *row = section->rows; row->term; row++)
		help_row(out, row->term, row->text);
}

void help_command(const struct command *command, FILE *out)
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
		help_section(out, s);
}
