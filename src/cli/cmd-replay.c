/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit-call.h"
#include "cli/cli.h"

/* Options and help only; src/auditcmd/replay.c implements the command. */

enum {
	OPTION_KEY,
	OPTION_ANYWAY,
	OPTION_KEEP,
	OPTION_JSON,
};

static const struct option replay_options[] = {
	{"key", 0, "PUB", "accept a receipt that this key has signed, instead of yours",
	 OPTION_KEY},
	{"anyway", 0, NULL,
	 "run even if the workspace has changed since, or if the command would write outside of it",
	 OPTION_ANYWAY},
	{"keep", 0, NULL, "keep the layer of the replay", OPTION_KEEP},
	{"json", 0, NULL, "print the result as JSON", OPTION_JSON},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row replay_examples[] = {
	{"atoll run --receipt build.receipt -- make", "a run that can be replayed"},
	{"atoll replay build.receipt", "is the build reproducible?"},
	{0},
};

static const struct command_row replay_statuses[] = {
	{"0", "all files are the same"},
	{"1", "a file differs, is missing or is new"},
	{"2", "the workspace has changed since the run; nothing was run"},
	{"240", "the receipt lacks data for a replay"},
	{"241", "the receipt is not signed by a trusted key, or the contract would be different"},
	{0},
};

static int run_replay(char **args, struct atoll_error *err)
{
	struct command_values line;
	int r = command_read_values(&command_replay, args, 1, 1, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	return audit_call("replay", replay_options, &line, err);
}

const struct command command_replay = {
	.name = "replay",
	.usage = "RECEIPT [--anyway]",
	.summary = "run the command of a receipt again, and compare",
	.description =
		(const char *const[]){
			"Runs the command of a receipt again, under the same contract and on the "
			"same files, in a layer that is deleted afterwards. Prints which files of "
			"the receipt have another content, are missing, or are new.",
			"The receipt must come from 'atoll run --receipt', which records the state "
			"of the workspace and the job. The command runs only if the receipt is "
			"signed by your own key, or by one that you name, because a receipt is a "
			"program. Standard input is yours; the output of the command is compared, "
			"not printed.",
			NULL},
	.options = replay_options,
	.sections = (const struct command_section[]){{"Examples", replay_examples},
						     {"Exit status", replay_statuses},
						     {0}},
	.run = run_replay,
};
