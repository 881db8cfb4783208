/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "win/engine-ledger.h"

/*
 * Directories that a run makes and removes: placeholders and canaries
 *
 * Each is in the ledger before it is made, and again when it is gone.
 */

int thing_make(const struct win_calls *calls, struct engine_ledger *ledger, const char *path,
	       struct atoll_error *err);
int thing_remove(const struct win_calls *calls, struct engine_ledger *ledger, const char *path,
		 struct atoll_error *err);

/* Deny a placeholder to a root's SID, and label it medium. */
int thing_deny(const struct win_calls *calls, const char *path, const struct nt_sid *sid,
	       struct atoll_error *err);

/* A name that nobody guesses: the prefix and a random number. */
int thing_name(const struct win_calls *calls, const char *prefix, char *ret, size_t size,
	       struct atoll_error *err);
