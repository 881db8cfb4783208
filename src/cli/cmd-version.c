/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "cli/cli.h"

#include <atoll/atoll.h>

static const struct option version_options[] = {OPTION_HELP_ROW, {0}};

static int run_version(char **args, struct atoll_error *err)
{
	struct command_line line;
	int r = command_read_switches(&command_version, args, 0, 0, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	printf("atoll %s\n", atoll_version());
	return command_flush(err);
}

const struct command command_version = {
	.name = "version",
	.usage = "",
	.summary = "print the version",
	.description = (const char *const[]){"Prints the version: \"atoll 1.2.3\".", NULL},
	.options = version_options,
	.run = run_version,
};
