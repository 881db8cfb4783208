/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "cli/cli.h"

#include <atoll/layer.h>
#include <inttypes.h>

enum {
	OPTION_QUIET,
};

static const struct option rollback_options[] = {
	{"quiet", 'q', NULL, "do not say how many processes were ended", OPTION_QUIET},
	OPTION_HELP_ROW,
	{0},
};

static int run_rollback(char **args, struct atoll_error *err)
{
	struct command_values line;
	uint64_t ended;
	int r = command_read_values(&command_rollback, args, 2, 2, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = atoll_sandbox_rollback(line.args[0], line.args[1], &ended, err);
	if (r < 0)
		return r;
	if (ended && !(line.seen & 1U << OPTION_QUIET))
		fprintf(stderr, "atoll: %" PRIu64 " process%s ended\n", ended,
			ended == 1 ? " was" : "es were");
	return 0;
}

static const struct command_row rollback_examples[] = {
	{"atoll rollback abc step-3", "all that was written since then is gone"},
	{0},
};

const struct command command_rollback = {
	.name = "rollback",
	.usage = "ID NAME",
	.summary = "return a sandbox to a checkpoint",
	.description =
		(const char *const[]){
			"Puts the workspace of a sandbox back to what it was at the checkpoint "
			"NAME. "
			"What was written since is gone, unless a later checkpoint has it: those "
			"stay, and can be returned to as well.",
			"Processes that run in the sandbox are ended, and it is said how many: "
			"they "
			"would go on with files that are not there any more. A wrong name changes "
			"nothing.",
			NULL},
	.options = rollback_options,
	.sections = (const struct command_section[]){{"Examples", rollback_examples}, {0}},
	.run = run_rollback,
};
