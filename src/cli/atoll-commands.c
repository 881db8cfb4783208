/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"

/* clang-format off */
const struct command *const atoll_commands[] = {
	&command_run,
	&command_create,
	&command_exec,
	&command_checkpoint,
	&command_rollback,
	&command_fork,
	&command_history,
	&command_rm,
	&command_ls,
	&command_diff,
	&command_apply,
	&command_undo,
	&command_discard,
	&command_gc,
	&command_export,
	&command_import,
	&command_log,
	&command_report,
	&command_verify,
	&command_key,
	&command_attest,
	&command_replay,
	&command_doctor,
	&command_schema,
	&command_serve,
	&command_top,
	&command_setup,
	&command_trust,
	&command_help,
	&command_version,
	NULL,
};
/* clang-format on */

const struct command_row exit_statuses[] = {
	{"N", "the command exited with status N"},
	{"126", "the command was found but could not be executed"},
	{"127", "the command was not found"},
	{"128+N", "signal N ended the command; if atoll received that signal, it ends atoll, too"},
	{"240", "bad request: an unknown option, an invalid job file"},
	{"241", "refused by policy"},
	{"242", "this host cannot enforce a clause; the message says how to fix it"},
	{"243", "stopped at the time limit"},
	{"244", "stopped at the memory limit"},
	{"245", "stopped at another limit; the message names it"},
	{"246", "an error in atoll itself"},
	{"247", "stopped by an event rule or a monitor"},
	{"248", "stopped because the event log could not be written for 30 s: the disk is full"},
	{0},
};

const struct command *find_command(const char *name, struct atoll_error *err)
{
	const char *words[ARRAY_SIZE(atoll_commands)] = {0};
	const char *nearest;

	for (size_t i = 0; atoll_commands[i]; i++) {
		if (streq(atoll_commands[i]->name, name))
			return atoll_commands[i];
		words[i] = atoll_commands[i]->name;
	}
	nearest = str_nearest(name, words);
	if (nearest)
		error_set(err, ATOLL_FAULT_REQUEST, 0, "unknown command '%s'; did you mean '%s'?",
			  name, nearest);
	else
		error_set(err, ATOLL_FAULT_REQUEST, 0,
			  "unknown command '%s'; to run a program: atoll run -- %s", name, name);
	return NULL;
}
