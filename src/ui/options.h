/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;

/*
 * Options of a command
 *
 * Each command has a table of its options; help and manual pages are made from the same table. The
 * reader walks the arguments in place: no allocation, no global state.
 *
 *         --name value   --name=value   -n value   -nvalue
 *
 * It stops at "--", which it skips, and at the first argument that is not an option. So the options
 * of the command inside are never read as options of atoll.
 */
struct option {
	const char *name;     /* "read"; NULL in a row that is a heading */
	char letter;	      /* 'f', or 0 */
	const char *argument; /* the name of its value: "PATH"; NULL for a switch */
	const char *help;     /* a phrase, or the heading */
	int id;		      /* for the command */
};

/* Is this a row? A table ends with an empty row. */
static inline _Bool option_is_row(const struct option *option)
{
	return option->name || option->help;
}

struct options {
	const char *command; /* for messages: "run" */
	const struct option *table;
	char **next; /* the first argument that is not read yet; at the end, the argument after the
			options */
};

/* 1 and an option with its value (NULL for a switch), 0 at the end, or a negative errno. */
int options_next(struct options *options, const struct option **ret_option, const char **ret_value,
		 struct atoll_error *err);
/* The same for [OPTION]... [ID [OPTION]...] [--] COMMAND: the first argument before "--" that is
 * not an option is stored in `*id`, if that is NULL. `id` NULL: there is no id. */
int options_next_or_id(struct options *options, const char **id, const struct option **ret_option,
		       const char **ret_value, struct atoll_error *err);
/* Reads all options of such a line and calls add() for each, which may fail. options->next is
 * COMMAND afterwards. Once add() has set `*is_help`, no id is read. */
int options_read_with_id(struct options *options, const char **id, const _Bool *is_help,
			 int (*add)(void *data, const struct option *option, const char *value,
				    struct atoll_error *err),
			 void *data, struct atoll_error *err);
