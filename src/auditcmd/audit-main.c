/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/auditcmd.h"
#include "base/error.h"
#include "base/str.h"

#include <atoll/atoll.h>
#include <stdio.h>

static const struct audit_command *const commands[] = {
	&audit_command_attest, &audit_command_log,    &audit_command_replay,
	&audit_command_report, &audit_command_verify, NULL,
};

static int run_command(const char *name, char **args, struct atoll_error *err)
{
	for (size_t i = 0; commands[i]; i++)
		if (streq(commands[i]->name, name))
			return commands[i]->run(args, err);
	return error_set(err, ATOLL_FAULT_REQUEST, 0,
			 "atoll-audit knows no command '%s'; atoll starts it, see 'atoll help'",
			 name);
}

int main(int argc, char **argv)
{
	struct atoll_error err = {0};
	char shown[sizeof err.text];
	int status = run_command(argc > 1 ? argv[1] : "", argv + (argc > 1 ? 2 : argc), &err);

	if (status >= 0)
		return status;
	fflush(stdout);
	fprintf(stderr, "atoll: %s\n", str_show(err.text, shown, sizeof shown));
	return atoll_error_status(&err);
}
