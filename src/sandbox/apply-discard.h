/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/layer.h>
#include <stdint.h>

struct layer_record;
struct spec;

/* Begin the event log of a new sandbox; `parent` is "ID/CHECKPOINT" of a branch, else NULL. */
int sandbox_log_begin(const char *of_id, const struct spec *spec, const char *parent,
		      struct atoll_error *err);

/* Log a decision (`about` is "apply", "undo", "fork") in the record's event log: by its holder if
 * there is one, else here. 0 also if the record has no event log. */
int sandbox_log_decision(const struct layer_record *record, const char *about, const char *object,
			 struct atoll_error *err);
/* Log a "checkpoint", "rollback" or "remove". The caller has locked `held`. */
int sandbox_log_change(const struct layer_record *record, const char *kind, const char *name,
		       uint64_t ended, struct atoll_error *err);
