/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/clauses.h"

#include <atoll/atoll.h>

static int add_clauses(struct atoll_job *job, const struct command *command, char **args,
		       struct atoll_error *err)
{
	struct options options = {command->name, command->options, args};
	const struct option *option;
	const char *value;
	int r;

	while ((r = options_next(&options, &option, &value, err)) > 0) {
		if (option->id == OPTION_CLAUSE)
			r = atoll_job_set(job, option->name, value, err);
		else if (option->id == OPTION_DIRECT)
			r = atoll_job_set(job, "mode", "direct", err);
		else if (option->id == OPTION_ASK)
			r = atoll_job_set(job, "ask", "on", err);
		else if (option->id == OPTION_NO_PROXY)
			r = atoll_job_set(job, "proxy", "off", err);
		else if (option->id == OPTION_KEEP_OUTPUT)
			r = atoll_job_set(job, "kept-output", "keep", err);
		if (r < 0)
			return r;
	}
	return r;
}

int clauses_fill(struct atoll_job *job, const char *path, const struct command *command,
		 char **args, struct atoll_error *err)
{
	int r = path ? atoll_job_load(job, path, err) : 0;

	return r < 0 ? r : add_clauses(job, command, args, err);
}
