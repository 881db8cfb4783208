/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;

/*
 * atoll-audit: the commands that read event logs
 *
 * A program of its own, because it links jansson and libcrypto. A person calls its commands through
 * `atoll`, which has their options and help (src/cli/cmd-log.c, ...) and executes this program
 * (src/cli/audit-call.c) with: the command's name, "--name" or "--name=value" for each option,
 * "--", and the arguments. Anything else is refused. There is no help here.
 *
 *   audit-main.c      the list of commands
 *   call-options.c    reads the arguments
 *   find-log.c        finds the event log that is meant
 *   events.c          reads an event log line by line; event-values.c  values of an event
 *   checked.c         event logs and signed heads, checked by src/audit/
 *   describe.c        an event as one line of text
 *   processes.c       the tree of processes of an event log
 *   log-*.c           `atoll log`
 *   report*.c         `atoll report`
 *   receipt.h         receipts: `atoll attest`, `atoll verify --receipt`, `atoll replay`
 */

/* One command; at the foot of its file, and one line in the list in audit-main.c. */
struct audit_command {
	const char *name;
	/* `args` are the arguments after the name and end with NULL. Returns the exit status, or a
	 * negative errno with a message that main() prints. */
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
