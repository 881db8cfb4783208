/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "cli/cli.h"

#include <atoll/layer.h>

enum {
	OPTION_FORCE,
};

static const struct option discard_options[] = {
	{"force", 'f', NULL,
	 "also a run that is still running, which is killed, or a damaged record", OPTION_FORCE},
	OPTION_HELP_ROW,
	{0},
};

static int run_discard(char **args, struct atoll_error *err)
{
	struct command_values line;
	int r = command_read_values(&command_discard, args, 0, 1, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	return atoll_record_discard(line.args[0], line.seen & 1U << OPTION_FORCE, err);
}

const struct command command_discard = {
	.name = "discard",
	.usage = "[RUN] [--force]",
	.summary = "delete the changes of a run",
	.description =
		(const char *const[]){
			"Removes the record of a run with all its changes. RUN is an id, or its "
			"beginning, from 'atoll ls'; the default is the latest run of this "
			"directory. The files of the host do not change: what was applied stays, "
			"but can no longer be undone.",
			NULL},
	.options = discard_options,
	.run = run_discard,
};
