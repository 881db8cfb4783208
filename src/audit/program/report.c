/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/program/program.h"

#include "base/error.h"

static int run_report(char **args, struct atoll_error *err)
{
	(void)args;
	return error_set(err, ATOLL_FAULT_BUG, 0, "not there yet");
}

const struct audit_command audit_command_report = {"report", run_report};
