/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ui/options.h"

struct atoll_error;

/*
 * Commands
 *
 * A command is one const struct at the foot of its file and one line in the list of its program.
 * Help, manual pages and completions are made from the struct.
 */

/* A line of a list: an example, an exit status, a file. */
struct command_row {
	const char *term;
	const char *text;
};

/* A titled list. Its rows end with an empty row. */
struct command_section {
	const char *title;
	const struct command_row *rows;
};

struct command {
	const char *name;
	const char *usage;			/* after the name: "[OPTION]... [--] COMMAND" */
	const char *summary;			/* a phrase, for lists of commands */
	const char *const *description;		/* paragraphs; ends with NULL */
	const struct option *options;		/* ends with an empty row */
	const struct command_section *sections; /* ends with an empty section; NULL for none */

	/* `args` are the arguments after the command's name and end with NULL. Returns the exit
	 * status, or a negative errno with a message that main() prints. */
	int (*run)(char **args, struct atoll_error *err);
};

/* The row "help" of each option table. */
enum {
	OPTION_HELP = 31,
};
#define OPTION_HELP_ROW                                                                            \
	{                                                                                          \
		"help", 'h', NULL, "show this help", OPTION_HELP                                   \
	}

/* The result of reading a command line that has switches only, with ids from 0 to 31. */
struct command_line {
	unsigned seen; /* bit N: the option with id N was given */
	char **args;   /* the arguments after the options; ends with NULL */
};

/* Reads a command line with at least `least` and at most `most` arguments. Returns 0, 1 if --help
 * was given (the help has been printed, and the command is done), or a negative errno. */
int command_read_switches(const struct command *command, char **args, int least, int most,
			  struct command_line *ret, struct atoll_error *err);

/* The result of reading a command line that has options with values, too. */
struct command_values {
	unsigned seen;
	const char *values[32]; /* by id: the last value that was given, or NULL */
	char **args;		/* the arguments; ends with NULL */
	int n;
};

/* The same for options with and without values, which may stand between the arguments. Moves the
 * arguments to the front of `args`, so `ret->args` is `args`. */
int command_read_values(const struct command *command, char **args, int least, int most,
			struct command_values *ret, struct atoll_error *err);

/* Flushes standard output. 0, or a negative errno if something could not be written. */
int command_flush(struct atoll_error *err);
