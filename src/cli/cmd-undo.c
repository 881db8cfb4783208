/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "cli/cli.h"

#include <atoll/layer.h>
#include <errno.h>

enum {
	OPTION_FORCE,
};

static const struct option undo_options[] = {
	{"force", 'f', NULL, "also restore files that have changed since; their changes are lost",
	 OPTION_FORCE},
	OPTION_HELP_ROW,
	{0},
};

static int run_undo(char **args, struct atoll_error *err)
{
	struct command_values line;
	struct atoll_apply_report report = {0};
	int r = command_read_values(&command_undo, args, 0, 1, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = atoll_undo(line.args[0], line.seen & 1U << OPTION_FORCE, &report, err);
	if (r == -EEXIST && report.n_conflicts)
		fputs("  Move these changes away first, or overwrite them with --force.\n", stderr);
	if (r < 0)
		return r;
	printf("Undid the last apply of %s. To apply it again: atoll apply %s\n", report.record,
	       report.record);
	if (report.n_dropped > 0) {
		fputs("This host could not restore: ", stderr);
		print_escaped(stderr, report.dropped);
		fputc('\n', stderr);
	}
	return command_flush(err);
}

const struct command command_undo = {
	.name = "undo",
	.usage = "[RUN] [--force]",
	.summary = "reverse the latest apply of a run",
	.description =
		(const char *const[]){
			"Restores the files of the host to their state before the latest 'atoll "
			"apply' of a run: content, modes, owners, times. A second undo reverses "
			"the apply before that. RUN is an id, or its beginning, from 'atoll ls'; "
			"the default is the latest run of this directory. The changes stay in the "
			"record of the run and can be applied again.",
			"If a file has changed on the host since the apply, that is a conflict, "
			"and nothing is restored. Files that the host has added to a directory of "
			"the run stay, even with --force.",
			NULL},
	.options = undo_options,
	.run = run_undo,
};
