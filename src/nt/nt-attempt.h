/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/access-check.h"

/*
 * Attempts: what a child under the final token tries before the command starts
 *
 * Each attempt needs rights on an object, or on the directory that it lies in. The model answers an
 * attempt from the two descriptors; a canary child on Windows makes the same attempt for real. A
 * run starts only if every answer of the canary is the one that the model gives: refused outside
 * the writable roots and on protected paths, granted inside.
 */

enum nt_attempt {
	NT_TRY_CREATE,	   /* a file in the directory */
	NT_TRY_MKDIR,	   /* a directory in the directory */
	NT_TRY_OVERWRITE,  /* the object */
	NT_TRY_APPEND,	   /* to the object */
	NT_TRY_DELETE,	   /* by the object's own list, or by DELETE_CHILD of the directory */
	NT_TRY_RENAME,	   /* within the directory: delete, and create under the new name */
	NT_TRY_DACL,	   /* change the list */
	NT_TRY_OWNER,	   /* change the owner */
	NT_TRY_ATTRIBUTES, /* change attributes and times */
	NT_TRY_STREAM,	   /* write a named stream of the object */
	NT_ATTEMPTS,
};

const char *nt_attempt_name(enum nt_attempt attempt);

/* Returns 0 if the model grants the attempt, -EACCES if it refuses, -ENOTSUP if a list has entries
 * that it does not understand. `directory` holds the object. */
int nt_attempt_check(enum nt_attempt attempt, const struct nt_descriptor *object,
		     const struct nt_descriptor *directory, const struct nt_token *token);
