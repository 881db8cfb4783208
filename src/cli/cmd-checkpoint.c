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
	{"atoll checkpoint abc before", "save the present state under a name"},
	{"atoll rollback abc before", "return to it"},
	{0},
};

const struct command command_checkpoint = {
	.name = "checkpoint",
	.usage = "ID [NAME]",
	.summary = "save the workspace of a sandbox under a name",
	.description =
		(const char *const[]){
			"Saves the present state of a sandbox's workspace, and prints the name of "
			"the checkpoint: NAME, or step-N.",
			"If no process runs in the sandbox, this takes a few milliseconds for a "
			"workspace of any size. Running processes are stopped, the files that "
			"changed since the last checkpoint are copied, and the processes go on. A "
			"checkpoint contains the files of the workspace, not processes or private "
			"places such as /tmp.",
			NULL},
	.options = checkpoint_options,
	.sections = (const struct command_section[]){{"Examples", checkpoint_examples}, {0}},
	.run = run_checkpoint,
};
