/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct atoll_error;

/*
 * atoll-audit: what reads the record for people and other programs
 *
 * A program of its own because of what it links, jansson and libcrypto. People meet it as commands
 * of `atoll`, which states their options (src/cli/cmd-log.c, ...), reads them and starts this
 * program with what was read (src/cli/audit-call.c): the command's name, then "--name" or
 * "--name=value" for each option, then "--" and the arguments. So nothing is explained here twice;
 * what does not look like this is refused.
 *
 *   audit-main.c      the list of commands
 *   call-options.c     what was asked
 *   find-log.c      which log is meant
 *   events.c    one log, line by line
 *   log*.c      `atoll log`
 *   report*.c   `atoll report`
 *   receipt.h   receipts and their files
 */

/* One command; at the foot of its file, and one line in the list in audit-main.c. */
struct audit_command {
	const char *name;
	/* `args` are those behind the name, NULL-terminated. Returns the exit status, or a negative
	 * errno with the story, which main() prints. */
	int (*run)(char **args, struct atoll_error *err);
};

/* clang-format off */
extern const struct audit_command
	audit_command_attest,
	audit_command_log,
	audit_command_replay,
	audit_command_report,
	audit_command_verify;
/* clang-format on */

/* An option that a command knows: where to put its value, or that it was given. */
struct words_option {
	const char *name;
	const char **value;
	bool *is_given;
};

/* Read options by a table that ends with an empty row; `ret_words` gets the arguments, at most
 * `max`, and NULL in what is left. */
int words_read(char **args, const struct words_option *table, const char **ret_words, size_t max,
	       struct atoll_error *err);
