/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/nt.h"
#include "win/engine-ledger.h"

/*
 * Canaries: directories with a file in which the canary child makes its attempts
 *
 * One outside (in the store), one in each writable root, one in each protected directory. Outside
 * and on protected paths every attempt must fail. Inside every attempt but a change of list and
 * owner must succeed; where something is protected, these two must fail (see nt-plan.h).
 */

#define ENGINE_CANARIES_MAX (NT_ROOTS_MAX + NT_PROTECTED_MAX + NT_PLACEHOLDERS_MAX + 1)

enum canary_zone {
	ZONE_OUTSIDE,
	ZONE_PROTECTED,
	ZONE_INSIDE,
};

struct engine_canaries {
	const struct win_calls *calls;
	struct engine_ledger *ledger;
	char *paths[ENGINE_CANARIES_MAX];
	enum canary_zone zones[ENGINE_CANARIES_MAX];
	size_t n;
};

int engine_canaries_make(struct engine_canaries *set, const char *store,
			 const struct nt_request *request, struct atoll_error *err);
int engine_canaries_run(struct engine_canaries *set, const struct win_launch *launch,
			bool is_strong, struct atoll_error *err);
int engine_canaries_remove(struct engine_canaries *set, struct atoll_error *err);
void engine_canaries_done(struct engine_canaries *set);
