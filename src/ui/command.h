/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

struct atoll_error;
struct option;

/*
 * Commands
 *
 * A command is one const struct at the foot of its file, and one line in the list in command.c. All
 * that help and manual pages say about it stands in the struct.
 */

/* A line of a list: an example, an exit status, a file. */
struct command_row {
	const char *term;
	const char *text;
};

/* A titled list; ends with an empty row. */
struct command_section {
	const char *title;
	const struct command_row *rows;
};

struct command {
	const char *name;
	const char *usage;		/* behind the name: "[OPTION]... [--] COMMAND" */
	const char *summary;		/* a phrase, for lists */
	const char *const *description; /* paragraphs, for the manual page; NULL-terminated */
	const struct option *options;	/* ends with an empty row */
	const struct command_section *sections; /* ends with an empty one; NULL for none */

	/* `args` are those behind the command's name, NULL-terminated. Returns the exit status, or
	 * a negative errno with the story, which main() prints. */
	int (*run)(char **args, struct atoll_error *err);
};

/* clang-format off */
extern const struct command
	command_run,
	command_create,
	command_exec,
	command_checkpoint,
	command_rollback,
	command_fork,
	command_history,
	command_rm,
	command_doctor,
	command_schema,
	command_setup,
	command_serve,
	command_top,
	command_trust,
	command_help,
	command_version,
	command_ls,
	command_diff,
	command_export,
	command_apply,
	command_undo,
	command_discard,
	command_gc,
	command_import,
	command_log,
	command_report,
	command_verify,
	command_key,
	command_attest,
	command_replay;
/* clang-format on */

/* All of them, in the order of the help; ends with NULL. */
extern const struct command *const commands[];

/* By name; NULL and an error with a suggestion if there is none. */
const struct command *command_find(const char *name, struct atoll_error *err);

/* Every table's "help" row. */
enum {
	OPTION_HELP = 31,
};
#define OPTION_HELP_ROW                                                                            \
	{                                                                                          \
		"help", 'h', NULL, "show this help", OPTION_HELP                                   \
	}

/* A command line whose options are all switches, with ids from 0 to 31. */
struct command_line {
	unsigned seen; /* bit N: the option with id N was given */
	char **rest;   /* the arguments behind the options */
};

/* Read one that takes from `least` to `most` arguments. Returns 1 if help was asked for and has
 * been given, 0 to go on, or a negative errno. */
int command_read(const struct command *command, char **args, int least, int most,
		 struct command_line *ret, struct atoll_error *err);

/* The same for options with and without values, with ids from 0 to 31, that may stand between the
 * arguments. `args` is used for these. */
struct command_words {
	unsigned seen;
	const char *values[32]; /* by id, the last one given; NULL */
	char **words;		/* the arguments, NULL-terminated */
	int n;
};
int command_read_words(const struct command *command, char **args, int least, int most,
		       struct command_words *ret, struct atoll_error *err);

/* `atoll COMMAND --help`, and `atoll` alone. */
void command_help_text(const struct command *command, FILE *out);
void command_overview(FILE *out);

/* The same as troff: atoll-COMMAND(1), and atoll(1). */
void command_manual(const struct command *command, FILE *out);
void command_manual_overview(FILE *out);

/* Exit statuses that are not the command's, in every manual page. */
extern const struct command_row command_statuses[];

/* What was written to stdout has arrived: 0, or a negative errno. */
int command_flush(struct atoll_error *err);
