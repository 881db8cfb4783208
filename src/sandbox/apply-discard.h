/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stdint.h>

struct layer_record;

/* Write down that somebody decided `about` something ("apply") of a record: by its holder, if there
 * is one, and else here. 0 also where nothing of it is recorded. */
int sandbox_log_decision(const struct layer_record *record, const char *about, const char *object,
			 struct atoll_error *err);
/* The same of "checkpoint", "rollback", "remove", by whoever holds the sandbox himself. */
int sandbox_log_change(const struct layer_record *record, const char *kind, const char *name,
		       uint64_t ended, struct atoll_error *err);
