/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/print.h"

#include <atoll/layer.h>
#include <errno.h>

enum {
	OPTION_FORCE,
};

static const struct option undo_options[] = {
	{"force", 'f', NULL, "also what the host has changed since; those changes are lost",
	 OPTION_FORCE},
	OPTION_HELP_ROW,
	{0},
};

struct undo_request {
	const char *id;
	bool is_forced, is_help;
};

/* Options may stand before the run and behind it. */
static int read_undo(char **args, struct undo_request *ret, struct atoll_error *err)
{
	struct options options = {command_undo.name, undo_options, args};
	const struct option *option;
	const char *value;
	int r;

	for (;;) {
		while ((r = options_next(&options, &option, &value, err)) > 0) {
			ret->is_forced |= option->id == OPTION_FORCE;
			ret->is_help |= option->id == OPTION_HELP;
		}
		if (r < 0 || !*options.next)
			return r;
		if (ret->id)
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "'%s' is one argument too many; usage: atoll undo %s",
					 *options.next, command_undo.usage);
		ret->id = *options.next++;
	}
}

static int run_undo(char **args, struct atoll_error *err)
{
	struct undo_request request = {0};
	struct atoll_apply_report report = {0};
	int r = read_undo(args, &request, err);

	if (r < 0)
		return r;
	if (request.is_help) {
		command_help_text(&command_undo, stdout);
		return command_flush(err);
	}
	r = atoll_undo(request.id, request.is_forced, &report, err);
	if (r == -EEXIST && report.n_conflicts)
		fputs("  move the host's own changes elsewhere first, or --force takes them away\n",
		      stderr);
	if (r < 0)
		return r;
	printf("undone: the latest apply of %s; once more onto the host: atoll apply %s\n",
	       report.record, report.record);
	if (report.n_dropped > 0) {
		fputs("not brought back, because this host cannot: ", stderr);
		print_escaped(stderr, report.dropped);
		fputc('\n', stderr);
	}
	return command_flush(err);
}

const struct command command_undo = {
	.name = "undo",
	.usage = "[RUN] [--force]",
	.summary = "take the latest apply of a run back",
	.description =
		(const char *const[]){
			"Brings the host's files back to what they were before the latest 'atoll "
			"apply' of a run: content, modes, owners, times. Again, and the apply "
			"before that is taken back. RUN is an id or its beginning, as 'atoll ls' "
			"shows it; without it, the latest run of this directory. The run's changes "
			"stay in its record and can be applied again.",
			"All or nothing, as apply: what the host has changed since then is a "
			"conflict. What it has put into a directory that the run made stays there "
			"even with --force.",
			NULL},
	.options = undo_options,
	.run = run_undo,
};
