/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/nt.h"
#include "win/calls.h"

/*
 * What this Windows keeps: every check of the engine on its own, for `atoll doctor` and `atoll
 * self-test`
 *
 * The probes work on a directory of their own in the store, and remove it. One that fails does not
 * stop the others: the list says which promises this machine does not keep.
 */

struct engine_probe {
	char name[40]; /* of the check, as in a refusal: "token.integrity" */
	bool holds;
	char observed[200];
};

#define ENGINE_PROBES_MAX 40

/* Returns the number of probes. */
size_t engine_probe_all(const struct win_calls *calls, const char *store,
			struct engine_probe ret[ENGINE_PROBES_MAX]);

/* A desktop's list names the logon session and nobody else, and its label is low. */
int engine_check_desktop(const struct nt_descriptor *sd, const struct nt_sid *logon,
			 struct atoll_error *err);

/* What the canary child must manage inside a writable root. */
#define ENGINE_NEEDED_INSIDE                                                                       \
	(1U << NT_TRY_CREATE | 1U << NT_TRY_MKDIR | 1U << NT_TRY_OVERWRITE | 1U << NT_TRY_APPEND | \
	 1U << NT_TRY_DELETE | 1U << NT_TRY_RENAME | 1U << NT_TRY_ATTRIBUTES |                     \
	 1U << NT_TRY_STREAM)
