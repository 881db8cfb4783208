/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit-call.h"
#include "cli/cli.h"

/* src/auditcmd/log-command.c does it. */

enum {
	OPTION_FOLLOW,
	OPTION_KIND,
	OPTION_STEP,
	OPTION_SINCE,
	OPTION_DENIALS,
	OPTION_TREE,
	OPTION_JSON,
	OPTION_LIST,
	OPTION_SCHEMA,
};

static const struct option log_options[] = {
	{"follow", 'f', NULL, "go on with what is added, until the run has ended", OPTION_FOLLOW},
	{"kind", 0, "KIND[,KIND]", "only events of these kinds: exec, connection, denial, ...",
	 OPTION_KIND},
	{"step", 0, "N", "only the Nth command of a sandbox", OPTION_STEP},
	{"since", 0, "TIME",
	 "only what happened since then: 2026-11-16T10:45:00Z, 10:45, or 5m ago", OPTION_SINCE},
	{"denials", 0, NULL, "only what was refused, with what would allow it", OPTION_DENIALS},
	{"tree", 0, NULL, "the processes as a tree, each with what it did", OPTION_TREE},
	{"json", 0, NULL, "for programs: the lines as they are in the log", OPTION_JSON},
	{"list", 0, NULL, "which logs there are, the latest first", OPTION_LIST},
	{"schema", 0, NULL, "print the JSON Schema of events", OPTION_SCHEMA},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row log_examples[] = {
	{"atoll log", "what the latest run in this directory did"},
	{"atoll log -f --kind exec,connection", "watch it while it runs"},
	{"atoll log k3vq --denials", "what was refused, and how to allow it"},
	{"atoll log --tree", "which process did what"},
	{"atoll log --json | jq .kind", "for programs"},
	{0},
};

static int run_log(char **args, struct atoll_error *err)
{
	struct command_values line;
	int r = command_read_values(&command_log, args, 0, 1, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	return audit_call("log", log_options, &line, err);
}

const struct command command_log = {
	.name = "log",
	.usage = "[RUN] [-f] [--kind K[,K]] [--tree|--json]",
	.summary = "show what a run did and what was refused",
	.description =
		(const char *const[]){
			"Shows the record of a run or sandbox, an event a line: programs that were "
			"executed, connections, changed files, what was refused and what would "
			"allow it, limits, approvals and what became of them, output.",
			"RUN is an id, an unambiguous beginning of one, a sandbox's name, or a "
			"log's path; without it the latest run in this directory is meant. On a "
			"terminal the output is coloured, goes through $PAGER, or less, and holds "
			"nothing that the terminal would obey.",
			"The log is shown as it is; whether it is whole and signed says 'atoll "
			"verify'.",
			NULL},
	.options = log_options,
	.sections = (const struct command_section[]){{"Examples", log_examples}, {0}},
	.run = run_log,
};
