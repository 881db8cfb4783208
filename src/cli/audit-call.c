/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit-call.h"

#include "base/error.h"
#include "base/program.h"
#include "base/scope.h"
#include "ui/ui.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>

/* atoll-audit is a separate program, because its libraries would slow down the start of every
 * run. Its arguments are: the command, the options by their names in the table, "--", and the
 * arguments. */

#define OPTIONS_MAX 32

static int add_options(const struct option *table, const struct command_values *line, char **argv,
		       int n)
{
	for (; option_is_row(table); table++) {
		const char *value = table->name ? line->values[table->id] : NULL;

		if (!table->name || !(line->seen & 1U << table->id))
			continue;
		if (asprintf(&argv[n], value ? "--%s=%s" : "--%s", table->name, value) < 0)
			return -ENOMEM;
		n++;
	}
	return n;
}

int audit_call(const char *name, const struct option *table, const struct command_values *line,
	       struct atoll_error *err)
{
	char **argv = calloc((size_t)line->n + OPTIONS_MAX + 4, sizeof *argv);
	char path[PATH_MAX];
	int n = 2, r = program_find("atoll-audit", path, sizeof path);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r,
				 "find the program 'atoll-audit', which belongs to atoll");
	if (!argv)
		return error_oom(err);
	argv[0] = path;
	argv[1] = (char *)(uintptr_t)name;
	n = add_options(table, line, argv, n);
	if (n < 0)
		return error_oom(err);
	argv[n++] = (char *)(uintptr_t) "--";
	for (int i = 0; i < line->n; i++)
		argv[n++] = line->args[i];
	execv(path, argv);
	return error_set(err, ATOLL_FAULT_HOST, errno, "execute '%s'", path);
}
