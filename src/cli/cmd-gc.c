/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/str.h"
#include "cli/cli.h"

#include <atoll/layer.h>
#include <inttypes.h>

enum {
	OPTION_DRY,
	OPTION_AGE,
	OPTION_SIZE,
};

static const struct option gc_options[] = {
	{"dry-run", 'n', NULL, "only print what would be deleted", OPTION_DRY},
	{"age", 0, "TIME", "delete records that are unused for this time: 12h, 7d (default: 14d)",
	 OPTION_AGE},
	{"size", 0, "SIZE", "how much disk the records may use: 500M, 5G (default: 10G)",
	 OPTION_SIZE},
	OPTION_HELP_ROW,
	{0},
};

struct gc_request {
	struct atoll_gc_options options;
	bool is_help;
	uint64_t n, bytes;
};

static void on_removed(const struct atoll_record *record, const char *why, void *data)
{
	struct gc_request *request = data;

	request->n++;
	request->bytes += record->bytes;
	printf("%s %s (%s) ", request->options.is_dry ? "would remove" : "removed", record->id,
	       why);
	if (record->command)
		print_escaped(stdout, record->command);
	fputc('\n', stdout);
}

static int read_gc(char **args, struct gc_request *request, struct atoll_error *err)
{
	struct options options = {command_gc.name, gc_options, args};
	const struct option *option;
	const char *value;
	int r;

	while ((r = options_next(&options, &option, &value, err)) > 0) {
		request->is_help |= option->id == OPTION_HELP;
		request->options.is_dry |= option->id == OPTION_DRY;
		if (option->id == OPTION_AGE)
			r = amount_parse_age(value, &request->options.max_age_s, err);
		if (option->id == OPTION_SIZE)
			r = amount_parse_size(value, &request->options.max_bytes, err);
		if (r < 0)
			return r;
		/* The library reads 0 as the default: replace 0 by 1. */
		if (option->id == OPTION_AGE && !request->options.max_age_s)
			request->options.is_any_age = true;
		if (option->id == OPTION_SIZE && !request->options.max_bytes)
			request->options.max_bytes = 1;
	}
	if (r == 0 && *options.next)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "unexpected argument '%s'; usage: atoll gc %s", *options.next,
				 command_gc.usage);
	return r;
}

static int run_gc(char **args, struct atoll_error *err)
{
	struct gc_request request = {.options = {.removed = on_removed, .data = &request}};
	char size[32];
	int r = read_gc(args, &request, err);

	if (r < 0)
		return r;
	if (request.is_help) {
		help_command(&command_gc, stdout);
		return command_flush(err);
	}
	r = atoll_gc(&request.options, err);
	if (r < 0)
		return r;
	printf("%" PRIu64 " record%s, %s\n", request.n, request.n == 1 ? "" : "s",
	       amount_size(request.bytes, size, sizeof size));
	return command_flush(err);
}

static const struct command_row gc_examples[] = {
	{"atoll gc --dry-run", "what would be deleted with the default limits"},
	{"atoll gc --age 1d --size 1G", "smaller limits"},
	{0},
};

const struct command command_gc = {
	.name = "gc",
	.usage = "[--dry-run] [--age TIME] [--size SIZE]",
	.summary = "delete records that are old or use too much disk",
	.description =
		(const char *const[]){
			"Deletes the records that nobody has used for longer than --age. If the "
			"others use more disk than --size, it also deletes the oldest of them: "
			"first applied ones, then others. Changes that were not applied are safe "
			"from this second rule for a day.",
			"Keeps records that are live, in use, needed by a sandbox, or in the "
			"middle of an apply. The event log of a deleted record (atoll log) stays "
			"for 90 days, or as long as all event logs use less than 2 GiB.",
			"'atoll run' does the same with the default limits, at most once an hour, "
			"so this command is seldom needed. A run in mode 'layer' is refused if the "
			"disk has less than 5 % free, or less than 1 GiB if that is smaller.",
			NULL},
	.options = gc_options,
	.sections = (const struct command_section[]){{"Examples", gc_examples}, {0}},
	.run = run_gc,
};
