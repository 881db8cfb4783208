/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "cli/cli.h"

#include <atoll/layer.h>

static const struct option checkpoint_options[] = {OPTION_HELP_ROW, {0}};

static int run_checkpoint(char **args, struct atoll_error *err)
{
	struct command_values line;
	char name[64];
	int r = command_read_values(&command_checkpoint, args, 1, 2, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = atoll_sandbox_checkpoint(line.args[0], line.args[1], name, err);
	if (r < 0)
		return r;
	puts(name);
	return command_flush(err);
}

static const struct command_row checkpoint_examples[] = {
	{"atoll checkpoint abc before", "keep its present state under a name"},
	{"atoll rollback abc before", "and return to it"},
	{0},
};

const struct command command_checkpoint = {
	.name = "checkpoint",
	.usage = "ID [NAME]",
	.summary = "keep a sandbox's present state",
	.description =
		(const char *const[]){
			"Keeps what the workspace of a sandbox looks like now, and prints the "
			"checkpoint's name: NAME, or step-N.",
			"Where nothing runs in the sandbox this takes a few milliseconds, whatever "
			"the workspace's size. Processes that run are stopped meanwhile, what was "
			"written since the checkpoint before is copied, and they go on. A "
			"checkpoint is of files in the workspace: not of processes, nor of private "
			"places such as /tmp.",
			NULL},
	.options = checkpoint_options,
	.sections = (const struct command_section[]){{"Examples", checkpoint_examples}, {0}},
	.run = run_checkpoint,
};
