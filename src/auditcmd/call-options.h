/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct atoll_error;

/* Reads the arguments that src/cli/audit-call.c writes. */

/* An option that a command has: a place for its value, or for the fact that it was given. */
struct call_option {
	const char *name;
	const char **value;
	bool *is_given;
};

/* Reads the options by a table that ends with an empty row. `ret_args` gets at most `max`
 * arguments, and NULL in the elements after them. */
int call_options_read(char **args, const struct call_option *table, const char **ret_args,
		      size_t max, struct atoll_error *err);
