/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;

/*
 * Options of a command
 *
 * A table per command says which there are; help and manual pages are made from the same table. The
 * reader walks the arguments in place: no allocation, no global state.
 *
 *	--name value   --name=value   -n value   -nvalue
 *
 * It stops at "--", which it skips, and at the first argument that is no option, so that a
 * command's own options are never taken for ours.
 */
struct option {
	const char *name;     /* "read"; NULL in a row that only carries a heading */
	char letter;	      /* 'f', or 0 */
	const char *argument; /* what its value is called: "PATH"; NULL for a switch */
	const char *help;     /* a phrase; in a heading's row the heading */
	int id;		      /* for the command */
};

/* Does the table go on here? A table ends with an empty row. */
static inline _Bool option_is_row(const struct option *option)
{
	return option->name || option->help;
}

struct options {
	const char *command; /* for messages: "run" */
	const struct option *table;
	char **next; /* the first argument not yet read; after the end: the rest */
};

/* 1 and an option with its value (NULL for a switch), 0 at the end, or a negative errno. */
int options_next(struct options *options, const struct option **ret_option, const char **ret_value,
		 struct atoll_error *err);
/* The same for [OPTION]... [ID [OPTION]...] [--] COMMAND: what stands before the first "--" and is
 * no option is the id, as long as `*id` is NULL. `id` NULL: there is none to take. */
int options_next_or_id(struct options *options, const char **id, const struct option **ret_option,
		       const char **ret_value, struct atoll_error *err);
/* All of such a line up to its COMMAND, where options->next is afterwards. take() gets each option,
 * and may fail; once it has set `*is_help` there is no id to take. */
int options_read_with_id(struct options *options, const char **id, const _Bool *is_help,
			 int (*add)(void *data, const struct option *option, const char *value,
				    struct atoll_error *err),
			 void *data, struct atoll_error *err);
