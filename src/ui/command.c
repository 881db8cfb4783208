/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/command.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "ui/options.h"

#include <errno.h>

/* clang-format off */
const struct command *const commands[] = {
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

const struct command_row command_statuses[] = {
	{"N", "the command ended by itself, with status N"},
	{"126", "the command was found and could not be executed"},
	{"127", "the command was not found"},
	{"128+N", "the command was ended by signal N; if atoll was sent it, atoll ends by it, too"},
	{"240", "the request makes no sense: an unknown option, a bad job file"},
	{"241", "refused by policy"},
	{"242", "this host cannot enforce a clause; the message names the fix"},
	{"243", "stopped at the time limit"},
	{"244", "stopped at the memory limit"},
	{"245", "stopped at another limit, which the message names"},
	{"246", "an error in atoll itself"},
	{"247", "stopped by a rule or a monitor that the contract names"},
	{"248", "stopped because the record could not be written for 30 s, such as on a full disk"},
	{0},
};

const struct command *command_find(const char *name, struct atoll_error *err)
{
	const char *words[ARRAY_SIZE(commands)] = {0};
	const char *nearest;

	for (size_t i = 0; commands[i]; i++) {
		if (streq(commands[i]->name, name))
			return commands[i];
		words[i] = commands[i]->name;
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

static int check_count(const struct command *command, char **rest, int least, int most,
		       struct atoll_error *err)
{
	int n = 0;

	while (n <= most && rest[n])
		n++;
	if (n > most)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "'%s' is one argument too many; usage: atoll %s%s%s", rest[most],
				 command->name, command->usage[0] ? " " : "", command->usage);
	if (n < least)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "an argument is missing; usage: atoll %s %s", command->name,
				 command->usage);
	return 0;
}

int command_read(const struct command *command, char **args, int least, int most,
		 struct command_line *ret, struct atoll_error *err)
{
	struct options options = {command->name, command->options, args};
	const struct option *option;
	const char *value;
	unsigned seen = 0;
	int r;

	while ((r = options_next(&options, &option, &value, err)) > 0) {
		if (option->id == OPTION_HELP) {
			command_help_text(command, stdout);
			r = command_flush(err);
			return r < 0 ? r : 1;
		}
		seen |= 1U << option->id;
	}
	if (r < 0)
		return r;
	r = check_count(command, options.next, least, most, err);
	if (r < 0)
		return r;
	*ret = (struct command_line){seen, options.next};
	return 0;
}

int command_read_words(const struct command *command, char **args, int least, int most,
		       struct command_words *ret, struct atoll_error *err)
{
	struct options options = {command->name, command->options, args};
	const struct option *option;
	const char *value;
	int r;

	*ret = (struct command_words){.words = args};
	for (;;) {
		while ((r = options_next(&options, &option, &value, err)) > 0) {
			if (option->id == OPTION_HELP) {
				command_help_text(command, stdout);
				r = command_flush(err);
				return r < 0 ? r : 1;
			}
			ret->seen |= 1U << option->id;
			ret->values[option->id] = value;
		}
		if (r < 0)
			return r;
		if (!*options.next)
			break;
		args[ret->n++] = *options.next++;
	}
	args[ret->n] = NULL;
	return check_count(command, args, least, most, err);
}

int command_flush(struct atoll_error *err)
{
	if (fflush(stdout) != 0 || ferror(stdout))
		return error_set(err, ATOLL_FAULT_HOST, errno, "write to standard output");
	return 0;
}
