/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/manual.h"

#include "base/str.h"
#include "cli/cli.h"

#include <atoll/atoll.h>
#include <ctype.h>

/* Manual pages in troff's man macros, from struct command. Without a date: the same source makes
 * the same page. */

/* Escapes text for troff: backslashes, hyphens, apostrophes. */
static void troff(FILE *out, const char *text)
{
	/* A dot or an apostrophe at the start of a line would be a troff request. */
	if (text[0] == '.' || text[0] == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '\\')
			fputs("\\e", out);
		else if (*text == '-')
			fputs("\\-", out);
		else if (*text == '\'')
			fputs("\\(aq", out);
		else
			fputc(*text, out);
	}
}

static void upper(FILE *out, const char *text)
{
	for (; *text; text++)
		fputc(toupper((unsigned char)*text), out);
}

static void heading(FILE *out, const char *name, const char *summary)
{
	fputs(".\\\" Made by 'atoll help --man' from the command's tables.\n.TH ATOLL", out);
	if (name) {
		fputc('-', out);
		upper(out, name);
	}
	fprintf(out, " 1 \"\" \"atoll %s\" \"User Commands\"\n.SH NAME\natoll%s%s \\- ",
		atoll_version(), name ? "\\-" : "", name ? name : "");
	troff(out, summary);
	fputc('\n', out);
}

static void paragraph(FILE *out, const char *text)
{
	fputs(".PP\n", out);
	troff(out, text);
	fputc('\n', out);
}

static void row(FILE *out, const char *term, const char *text)
{
	fputs(".TP\n\\fB", out);
	troff(out, term);
	fputs("\\fR\n", out);
	troff(out, text);
	fputc('\n', out);
}

static void option_row(FILE *out, const struct option *option)
{
	if (!option->name) {
		fputs(".SS ", out);
		troff(out, option->help);
		fputc('\n', out);
		return;
	}
	fputs(".TP\n\\fB", out);
	if (option->letter)
		fprintf(out, "\\-%c\\fR, \\fB", option->letter);
	fputs("\\-\\-", out);
	troff(out, option->name);
	fputs("\\fR", out);
	if (option->argument) {
		fputs(" \\fI", out);
		troff(out, option->argument);
		fputs("\\fR", out);
	}
	fputc('\n', out);
	troff(out, option->help);
	fputc('\n', out);
}

static void section(FILE *out, const struct command_section *s)
{
	fputs(".SH ", out);
	upper(out, s->title);
	fputc('\n', out);
	for (const struct command_row *r = s->rows; r->term; r++)
		row(out, r->term, r->text);
}

/* Lists all other pages. */
static void see_also(FILE *out, const struct command *self)
{
	fputs(".SH SEE ALSO\n", out);
	if (self)
		fputs("\\fBatoll\\fR(1),\n", out);
	for (size_t i = 0; atoll_commands[i]; i++)
		if (atoll_commands[i] != self && atoll_commands[i] != &command_help &&
		    atoll_commands[i] != &command_version)
			fprintf(out, "\\fBatoll\\-%s\\fR(1),\n", atoll_commands[i]->name);
	fputs("\\fBatoll\\-job\\fR(5)\n", out);
}

void manual_command(const struct command *command, FILE *out)
{
	heading(out, command->name, command->summary);
	fprintf(out, ".SH SYNOPSIS\n\\fBatoll %s\\fR ", command->name);
	troff(out, command->usage);
	fputs("\n.SH DESCRIPTION\n", out);
	for (const char *const *text = command->description; *text; text++)
		paragraph(out, *text);
	fputs(".SH OPTIONS\n", out);
	for (const struct option *option = command->options; option_is_row(option); option++)
		option_row(out, option);
	for (const struct command_section *s = command->sections; s && s->title; s++)
		section(out, s);
	see_also(out, command);
}

void manual_overview(FILE *out)
{
	static const struct command_section statuses = {"Exit status", exit_statuses};

	heading(out, NULL, "run a command in a sandbox");
	fputs(".SH SYNOPSIS\n\\fBatoll\\fR [\\-\\-host URL] [\\-\\-key KEY] COMMAND [ARGUMENT]...\n"
	      ".SH DESCRIPTION\n",
	      out);
	paragraph(out, "atoll runs a command in a sandbox. A contract says what the command may "
		       "read and write, which hosts it may reach (none by default), and how much "
		       "it may use. Changes to files are kept in a layer: you can inspect them, "
		       "apply them, and undo that. atoll needs neither root nor a daemon.");
	paragraph(out,
		  "With --host URL before the command (http://HOST:PORT, https://HOST, unix:PATH), "
		  "a daemon that 'atoll serve' has started executes it: create, exec, checkpoint, "
		  "rollback, fork, history, rm, ls, pause, resume, diff, apply, undo, export, log "
		  "and top. The key is that of --key KEY or ATOLL_KEY. If ATOLL_HOST is set, these "
		  "commands use that daemon without --host.");
	fputs(".SH COMMANDS\n", out);
	for (size_t i = 0; atoll_commands[i]; i++)
		row(out, atoll_commands[i]->name, atoll_commands[i]->summary);
	section(out, &statuses);
	see_also(out, NULL);
}
