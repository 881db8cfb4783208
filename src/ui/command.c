/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/command.h"

#include "base/error.h"
#include "ui/help.h"
#include "ui/options.h"

#include <errno.h>

static int check_count(const struct command *command, char **args, int least, int most,
		       struct atoll_error *err)
{
	int n = 0;

	while (n <= most && args[n])
		n++;
	if (n > most)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "unexpected argument '%s'; usage: atoll %s%s%s", args[most],
				 command->name, command->usage[0] ? " " : "", command->usage);
	if (n < least)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "an argument is missing; usage: atoll %s %s", command->name,
				 command->usage);
	return 0;
}

int command_read_switches(const struct command *command, char **args, int least, int most,
			  struct command_line *ret, struct atoll_error *err)
{
	struct options options = {command->name, command->options, args};
	const struct option *option;
	const char *value;
	unsigned seen = 0;
	int r;

	while ((r = options_next(&options, &option, &value, err)) > 0) {
		if (option->id == OPTION_HELP) {
			help_command(command, stdout);
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

int command_read_values(const struct command *command, char **args, int least, int most,
			struct command_values *ret, struct atoll_error *err)
{
	struct options options = {command->name, command->options, args};
	const struct option *option;
	const char *value;
	int r;

	*ret = (struct command_values){.args = args};
	for (;;) {
		while ((r = options_next(&options, &option, &value, err)) > 0) {
			if (option->id == OPTION_HELP) {
				help_command(command, stdout);
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
