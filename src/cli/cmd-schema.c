/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "cli/cli.h"

#include <atoll/atoll.h>

static const struct option schema_options[] = {OPTION_HELP_ROW, {0}};

static const struct command_row schema_examples[] = {
	{"atoll schema >job.schema.json", "for an editor that completes and checks"},
	{0},
};

static int run_schema(char **args, struct atoll_error *err)
{
	struct command_line line;
	int r = command_read_switches(&command_schema, args, 0, 0, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	fputs(atoll_schema(), stdout);
	return command_flush(err);
}

const struct command command_schema = {
	.name = "schema",
	.usage = "",
	.summary = "print the JSON Schema of a job file",
	.description =
		(const char *const[]){
			"Prints the JSON Schema (draft 2020-12) of a job file. 'atoll run' refuses "
			"all that the schema refuses. atoll-job(5) explains the keys.",
			NULL},
	.options = schema_options,
	.sections = (const struct command_section[]){{"Examples", schema_examples}, {0}},
	.run = run_schema,
};
