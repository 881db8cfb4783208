/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "cli/cli.h"

#include <atoll/layer.h>
#include <inttypes.h>

enum {
	OPTION_QUIET,
};

static const struct option rollback_options[] = {
	{"quiet", 'q', NULL, "do not print how many processes were killed", OPTION_QUIET},
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
	{"atoll rollback abc step-3", "return to step 3; later changes are lost"},
	{0},
};

const struct command command_rollback = {
	.name = "rollback",
	.usage = "ID NAME",
	.summary = "return a sandbox to a checkpoint",
	.description =
		(const char *const[]){
			"Returns the workspace of a sandbox to the checkpoint NAME. Later changes "
			"are lost, unless a later checkpoint contains them. Later checkpoints "
			"stay, and you can return to them as well.",
			"Kills all processes in the sandbox, because their files are replaced, and "
			"prints how many there were. A wrong name changes nothing.",
			NULL},
	.options = rollback_options,
	.sections = (const struct command_section[]){{"Examples", rollback_examples}, {0}},
	.run = run_rollback,
};
