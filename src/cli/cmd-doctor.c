/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "cli/cli.h"

#include <atoll/atoll.h>

enum {
	OPTION_JSON,
};

static const struct option doctor_options[] = {
	{"json", 0, NULL, "print JSON", OPTION_JSON},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row doctor_statuses[] = {
	{"0", "this host can enforce every clause of the default contract"},
	{"242", "something is missing; the output says what, and how to fix it"},
	{0},
};

static int run_doctor(char **args, struct atoll_error *err)
{
	struct command_line line;
	cleanup_free char *text = NULL;
	int lacks, r;

	r = command_read_switches(&command_doctor, args, 0, 0, &line, err);
	if (r != 0)
		return r < 0 ? r : 0;
	lacks = atoll_doctor(line.seen & 1U << OPTION_JSON ? ATOLL_JSON : ATOLL_TEXT, &text, err);
	if (lacks < 0)
		return lacks;
	fputs(text, stdout);
	r = command_flush(err);
	if (r < 0)
		return r;
	return lacks ? 242 : 0;
}

const struct command command_doctor = {
	.name = "doctor",
	.usage = "[--json]",
	.summary = "show what this machine can enforce, and how to fix the rest",
	.description =
		(const char *const[]){
			"Tries every mechanism that a contract may need, on this machine and as "
			"this user, and prints which of them work. Changes nothing. For a missing "
			"mechanism it prints the exact fix.",
			NULL},
	.options = doctor_options,
	.sections = (const struct command_section[]){{"Exit status", doctor_statuses}, {0}},
	.run = run_doctor,
};
