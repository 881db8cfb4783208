/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"

#include <atoll/layer.h>

enum {
	OPTION_FORCE,
};

static const struct option discard_options[] = {
	{"force", 'f', NULL, "also a run that still runs, which is ended; or a damaged record",
	 OPTION_FORCE},
	OPTION_HELP_ROW,
	{0},
};

struct discard_request {
	const char *id;
	bool is_forced, is_help;
};

/* Options may stand before the run and behind it. */
static int read_discard(char **args, struct discard_request *ret, struct atoll_error *err)
{
	struct options options = {command_discard.name, discard_options, args};
	const struct option *option;
	const char *value;
	int r;

	do {
		while ((r = options_next(&options, &option, &value, err)) > 0) {
			ret->is_forced |= option->id == OPTION_FORCE;
			ret->is_help |= option->id == OPTION_HELP;
		}
		if (r < 0 || !*options.next)
			return r;
		if (ret->id)
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "'%s' is one argument too many; usage: atoll discard %s",
					 *options.next, command_discard.usage);
		ret->id = *options.next++;
	} while (1);
}

static int run_discard(char **args, struct atoll_error *err)
{
	struct discard_request request = {0};
	int r = read_discard(args, &request, err);

	if (r < 0)
		return r;
	if (request.is_help) {
		command_help_text(&command_discard, stdout);
		return command_flush(err);
	}
	return atoll_record_discard(request.id, request.is_forced, err);
}

const struct command command_discard = {
	.name = "discard",
	.usage = "[RUN] [--force]",
	.summary = "throw the changes of a run away",
	.description =
		(const char *const[]){
			"Removes the record of a run with all that it wrote. RUN is an id or its "
			"beginning, as 'atoll ls' shows it; without it, the latest run of this "
			"directory. The host's files stay as they are: what was applied is on the "
			"host and stays there, but can no longer be undone.",
			NULL},
	.options = discard_options,
	.run = run_discard,
};
