/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit-call.h"
#include "cli/cli.h"

/* Options and help only; src/auditcmd/log-command.c implements the command. */

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
	{"follow", 'f', NULL, "print new events until the run has ended", OPTION_FOLLOW},
	{"kind", 0, "KIND[,KIND]", "only events of these kinds: exec, connection, denial, ...",
	 OPTION_KIND},
	{"step", 0, "N", "only the Nth step of a sandbox", OPTION_STEP},
	{"since", 0, "TIME",
	 "only events since then: 2026-11-16T10:45:00Z, 10:45, or 5m (5 minutes ago)",
	 OPTION_SINCE},
	{"denials", 0, NULL, "only refused actions, with the option that would allow them",
	 OPTION_DENIALS},
	{"tree", 0, NULL, "the tree of processes, each with its events", OPTION_TREE},
	{"json", 0, NULL, "print the lines of the event log, which are JSON", OPTION_JSON},
	{"list", 0, NULL, "list the event logs, the latest first", OPTION_LIST},
	{"schema", 0, NULL, "print the JSON Schema of events", OPTION_SCHEMA},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row log_examples[] = {
	{"atoll log", "the latest run in this directory"},
	{"atoll log -f --kind exec,connection", "follow a run"},
	{"atoll log k3vq --denials", "what was refused, and how to allow it"},
	{"atoll log --tree", "the processes, and what each did"},
	{"atoll log --json | jq .kind", "print JSON"},
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
			"Shows the event log of a run or sandbox, one event per line: executed "
			"programs, connections, changed files, refused actions with the option "
			"that would allow them, limits, approvals, output.",
			"RUN is an id, an unambiguous beginning of an id, the name of a sandbox, "
			"or the path of an event log; the default is the latest run in this "
			"directory. On a terminal the output is coloured and goes through $PAGER "
			"or less; control characters are escaped.",
			"This command does not check the event log; 'atoll verify' does.", NULL},
	.options = log_options,
	.sections = (const struct command_section[]){{"Examples", log_examples}, {0}},
	.run = run_log,
};
