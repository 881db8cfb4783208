/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "auditcmd/checked.h"
#include "base/scope.h"

#include <jansson.h>
#include <limits.h>
#include <stdint.h>

/*
 * The effects of one step, or of all steps, as an event log has them
 *
 * Only lines before a signed head count. Of several events about one file the last one counts: a
 * file that changed twice has its last hash; a file that was deleted again has none.
 */
struct effects {
	struct checked_log log;
	char path[PATH_MAX]; /* of the event log */
	uint32_t step;	     /* 0: all */
	json_t *open;	     /* the first line */
	json_t *head;	     /* the latest head */
	json_t *starts;	     /* lists of events */
	json_t *ends;
	json_t *recipe;	 /* of the latest step, or NULL */
	json_t *changes; /* by path */
	json_t *outputs;
	json_t *denials, *connections, *approvals, *limits, *flags;
	uint64_t n_lost;
	uint64_t n_left_out; /* events that did not fit into the lists above */
};

/* Reads the effects. `word` names the log as for events_open(). Refuses a log that does not verify.
 * `head`, if not 0, is the size of the head to stop at. */
int effects_read(const char *word, uint32_t step, uint64_t head, const struct checked_keys *keys,
		 struct effects *ret, struct atoll_error *err);
void effects_done(struct effects *effects);
#define cleanup_effects cleanup_with(effects_done)
