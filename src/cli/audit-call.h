/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;
struct command_values;
struct option;

/* Become atoll-audit (src/auditcmd), with what was read by a command's table: `name` is that
 * of its command there. Returns only on failure. */
int audit_call(const char *name, const struct option *table, const struct command_values *line,
	       struct atoll_error *err);
