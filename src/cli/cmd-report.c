/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "cli/audit-call.h"
#include "cli/cli.h"

/* Options and help only; src/auditcmd/report.c implements the command. */

enum {
	OPTION_HTML,
};

static const struct option report_options[] = {
	{"html", 0, "FILE", "the file to write ('-': standard output)", OPTION_HTML},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row report_examples[] = {
	{"atoll report --html report.html", "the latest run in this directory"},
	{"atoll report k3vq --html - | ssh host 'cat >k3vq.html'",
	 "another run, to another machine"},
	{0},
};

static int run_report(char **args, struct atoll_error *err)
{
	struct command_values line;
	int r = command_read_values(&command_report, args, 0, 1, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	if (!line.values[OPTION_HTML])
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "say where to write the report: atoll report --html FILE");
	return audit_call("report", report_options, &line, err);
}

const struct command command_report = {
	.name = "report",
	.usage = "[RUN] --html FILE",
	.summary = "write an HTML page about a run",
	.description =
		(const char *const[]){
			"Writes one HTML page about a run: the command, its end and the resources "
			"it used, a timeline, the process tree, connections, changed files with "
			"their texts, refused actions and how to allow them, and whether the event "
			"log verifies.",
			"The page is self-contained: it loads nothing, and its "
			"Content-Security-Policy allows only its own script. RUN is the same as "
			"for 'atoll log'.",
			NULL},
	.options = report_options,
	.sections = (const struct command_section[]){{"Examples", report_examples}, {0}},
	.run = run_report,
};
