/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "win/calls.h"

struct engine_repair_result {
	size_t n_roots, n_files, n_things; /* taken back or removed */
	size_t n_damaged;		   /* lines of the ledger that could not be read */
};

/* Take back what a run left behind: roots whose change did not finish, placeholders and canaries.
 * `everything`: every root, too (uninstall). `path`: also entries of atoll beneath a path, without
 * a ledger. Returns 0, or the first failure after trying all. */
int engine_repair(const struct win_calls *calls, const char *path, bool everything,
		  struct engine_repair_result *ret, struct atoll_error *err);
