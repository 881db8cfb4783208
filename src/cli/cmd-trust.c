/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/print.h"

#include <atoll/atoll.h>

static const struct option trust_options[] = {OPTION_HELP_ROW, {0}};

static const struct command_row trust_examples[] = {
	{"atoll trust job.yaml", "I have read it; 'atoll run -f job.yaml' may now do what it says"},
	{0},
};

static int run_trust(char **args, struct atoll_error *err)
{
	struct command_line line;
	char digest[65];
	int r = command_read(&command_trust, args, 1, 1, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = atoll_trust(line.rest[0], digest, err);
	if (r < 0)
		return r;
	fputs("trusted ", stdout);
	print_escaped(stdout, line.rest[0]);
	printf(" as it is now (sha256 %s)\n", digest);
	return command_flush(err);
}

const struct command command_trust = {
	.name = "trust",
	.usage = "FILE",
	.summary = "approve a job file that lies in a workspace",
	.description =
		(const char *const[]){
			"Records that you have read the job file FILE and agree with it.",
			"A job file that lies where its own command may write could have been "
			"written by "
			"an earlier run. Such a file may make the default contract narrower; "
			"before it may "
			"make it wider, somebody has to look at it. What is recorded is the exact "
			"content: "
			"a changed file has to be approved again. A file outside the writable "
			"directories needs no approval.",
			NULL},
	.options = trust_options,
	.sections = (const struct command_section[]){{"Examples", trust_examples}, {0}},
	.run = run_trust,
};
