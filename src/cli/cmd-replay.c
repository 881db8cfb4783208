/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit-call.h"
#include "cli/cli.h"

/* src/auditcmd/replay.c does it. */

enum {
	OPTION_KEY,
	OPTION_ANYWAY,
	OPTION_KEEP,
	OPTION_JSON,
};

static const struct option replay_options[] = {
	{"key", 0, "PUB", "the key that has to have signed the receipt, instead of your own",
	 OPTION_KEY},
	{"anyway", 0, NULL,
	 "also if the workspace is not what the run began with, or if places outside of it would "
	 "be "
	 "written",
	 OPTION_ANYWAY},
	{"keep", 0, NULL, "keep the layer with what the replay wrote", OPTION_KEEP},
	{"json", 0, NULL, "the result for programs", OPTION_JSON},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row replay_examples[] = {
	{"atoll run --receipt build.receipt -- make", "a run that can be replayed"},
	{"atoll replay build.receipt", "is the build reproducible?"},
	{0},
};

static const struct command_row replay_statuses[] = {
	{"0", "every subject came out the same"},
	{"1", "something differs, is missing or is new"},
	{"2", "the workspace is not what the run began with; nothing was run"},
	{"240", "the receipt does not hold what a replay needs"},
	{"241", "the receipt is not signed by a key that counts here, or the contract would be "
		"another"},
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
	.summary = "run what a receipt tells of again, and compare",
	.description =
		(const char *const[]){
			"Runs the same command under the same contract on the same files, in a "
			"layer that is thrown away, and tells which of the receipt's subjects came "
			"out with another content, which are missing and which are new.",
			"The receipt has to come from 'atoll run --receipt', which notes what the "
			"workspace was and what the job was made of. It is run only if it is "
			"signed by your own key, or by one that you name: a receipt is a program. "
			"Standard input is the caller's; what the command prints is only "
			"compared.",
			NULL},
	.options = replay_options,
	.sections = (const struct command_section[]){{"Examples", replay_examples},
						     {"Exit status", replay_statuses},
						     {0}},
	.run = run_replay,
};
