/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "win/calls.h"

/*
 * Changing the descriptors of a tree, file by file, by handle
 *
 * No link is followed: a directory entry that is a reparse point gets its own entries, and what
 * lies behind it is not looked at. Every change is read back.
 */

/* Carry out one operation on the file that it names. Returns 1 if it changed the file, 0 if the
 * entry was there. */
int tree_apply(const struct win_calls *calls, const struct nt_operation *operation,
	       struct atoll_error *err);

/* Whether the operation's entry is on its file: 1 or 0. */
int tree_holds(const struct win_calls *calls, const struct nt_operation *operation,
	       struct atoll_error *err);

/* Hand entries of `sid` and labels down from a directory to everything beneath it. */
int tree_descend(const struct win_calls *calls, const char *path, const struct nt_sid *sid,
		 struct atoll_error *err);

/* Take every entry of a SID, and atoll's labels, back from a file and everything beneath it. `sid`
 * NULL: of every capability SID of atoll. Returns how many files were changed. */
int64_t tree_revoke(const struct win_calls *calls, const char *path, const struct nt_sid *sid,
		    struct atoll_error *err);
