/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "cli/cli.h"

#include <atoll/layer.h>
#include <errno.h>

#define COUNT_MAX 100000

enum {
	OPTION_COUNT,
};

static const struct option fork_options[] = {
	{"count", 0, "N", "how many to create (default: 1)", OPTION_COUNT},
	OPTION_HELP_ROW,
	{0},
};

static int read_count(const char *text, size_t *ret, struct atoll_error *err)
{
	char *end;
	unsigned long count;

	*ret = 1;
	if (!text)
		return 0;
	errno = 0;
	count = strtoul(text, &end, 10);
	if (errno || *end || text[0] < '0' || text[0] > '9' || count < 1 || count > COUNT_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "--count %s: a number from 1 to %d",
				 text, COUNT_MAX);
	*ret = count;
	return 0;
}

static int run_fork(char **args, struct atoll_error *err)
{
	struct command_values line;
	char(*ids)[ATOLL_ID_SIZE];
	size_t count;
	int r = command_read_values(&command_fork, args, 1, 2, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = read_count(line.values[OPTION_COUNT], &count, err);
	if (r < 0)
		return r;
	ids = calloc(count, sizeof *ids);
	if (!ids)
		return error_oom(err);
	r = atoll_sandbox_fork(line.args[0], line.args[1], count, ids, err);
	/* Print the sandboxes that were created, even if a later one failed. */
	for (size_t i = 0; i < count && ids[i][0]; i++)
		puts(ids[i]);
	free(ids);
	if (r < 0) {
		fflush(stdout);
		return r;
	}
	return command_flush(err);
}

static const struct command_row fork_examples[] = {
	{"atoll fork abc", "one more sandbox in the present state of this one"},
	{"atoll fork abc before --count 8", "eight sandboxes from a checkpoint"},
	{0},
};

const struct command command_fork = {
	.name = "fork",
	.usage = "ID [NAME] [--count N]",
	.summary = "create more sandboxes from a checkpoint of one",
	.description =
		(const char *const[]){
			"Creates new sandboxes from the checkpoint NAME of this one, or from its "
			"present state, which becomes a checkpoint. Prints their ids, one per "
			"line.",
			"The new sandboxes have the same contract and share all layers; each has a "
			"writable layer of its own. No file is copied and no process started. The "
			"first sandbox and its processes go on.",
			NULL},
	.options = fork_options,
	.sections = (const struct command_section[]){{"Examples", fork_examples}, {0}},
	.run = run_fork,
};
