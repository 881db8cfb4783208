/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;
struct command_values;
struct option;

/* Executes atoll-audit (src/auditcmd/) with the options that were read by `table`; `name` is the
 * command of atoll-audit. Returns only on failure. */
int audit_call(const char *name, const struct option *table, const struct command_values *line,
	       struct atoll_error *err);
