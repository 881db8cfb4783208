/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ui/ui.h"

/*
 * The program atoll
 *
 * One file cmd-NAME.c per command; its struct command is at the foot of the file. atoll-main.c
 * finds the command in atoll_commands[] and calls its run function. The commands use the library
 * through <atoll/...> only, as any other program would.
 *
 *   clauses.h          the options that state a contract, for run, create and fork
 *   summary*.c         what `atoll run` prints after the command has ended
 *   run-apply.c        `atoll run --apply`; run-receipt.c  `atoll run --receipt`
 *   pick.c             a person chooses at the terminal which changes to apply
 *   ask.c              a person answers questions about connections at the terminal
 *   diff-print.c       a list of changes as text or JSON
 *   audit-call.c       executes atoll-audit: log, report, verify, attest, replay
 *   remote-call.c      executes atoll-remote for `atoll --host URL`, and for `atoll top`
 *   manual.c           manual pages from the same structs; completion.py makes the completions
 */

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

/* All commands, in the order of the help; ends with NULL. */
extern const struct command *const atoll_commands[];

/* The command of this name; NULL, and an error with a suggestion, if there is none. */
const struct command *find_command(const char *name, struct atoll_error *err);

/* The exit statuses that are not those of the command inside; for manual pages. Ends with an empty
 * row. */
extern const struct command_row exit_statuses[];
