/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "cli/cli.h"

#include <atoll/layer.h>
#include <limits.h>

enum {
	OPTION_FORCE,
};

static const struct option rm_options[] = {
	{"force", 'f', NULL, "also if a step is running; the step is killed", OPTION_FORCE},
	OPTION_HELP_ROW,
	{0},
};

/* Returns the first failure; prints the others. */
static void on_failure(const struct atoll_error *one, void *data)
{
	struct atoll_error *first = data;

	if (first->text[0])
		print_problem(one->text);
	else
		*first = *one;
}

static int run_rm(char **args, struct atoll_error *err)
{
	struct command_values line;
	int r = command_read_values(&command_rm, args, 1, INT_MAX - 1, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	return atoll_sandboxes_remove((const char *const *)line.args, (size_t)line.n,
				      line.seen & 1U << OPTION_FORCE, on_failure, err);
}

static const struct command_row rm_examples[] = {
	{"atoll rm abc", "remove a sandbox; changes that were not applied are lost"},
	{"atoll fork abc --count 8 | xargs atoll rm", "several"},
	{0},
};

const struct command command_rm = {
	.name = "rm",
	.usage = "ID... [--force]",
	.summary = "stop and remove sandboxes",
	.description = (const char *const[]){"Kills the processes of a sandbox and removes it with "
					     "its checkpoints and all layers that no other sandbox "
					     "needs. Changes that were not applied are lost.",
					     NULL},
	.options = rm_options,
	.sections = (const struct command_section[]){{"Examples", rm_examples}, {0}},
	.run = run_rm,
};
