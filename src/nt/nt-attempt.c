/* SPDX-License-Identifier: Apache-2.0 */
/* Answers attempts from the model. Called by tests of the plan, and by the attestation. */
#include "nt/nt-attempt.h"

#include "base/scope.h"

#include <errno.h>

/* Rights on the object; 0: the attempt is about the directory. */
static const struct {
	const char *name;
	uint32_t on_object, on_directory;
} attempts[] = {
	[NT_TRY_CREATE] = {"create", 0, NT_FILE_WRITE_DATA},
	[NT_TRY_MKDIR] = {"mkdir", 0, NT_FILE_APPEND_DATA},
	[NT_TRY_OVERWRITE] = {"overwrite", NT_FILE_WRITE_DATA, 0},
	[NT_TRY_APPEND] = {"append", NT_FILE_APPEND_DATA, 0},
	[NT_TRY_DELETE] = {"delete", NT_DELETE, 0},
	[NT_TRY_RENAME] = {"rename", NT_DELETE, NT_FILE_WRITE_DATA},
	[NT_TRY_DACL] = {"change the list", NT_WRITE_DAC, 0},
	[NT_TRY_OWNER] = {"change the owner", NT_WRITE_OWNER, 0},
	[NT_TRY_ATTRIBUTES] = {"change attributes", NT_FILE_WRITE_ATTRIBUTES, 0},
	[NT_TRY_STREAM] = {"write a stream", NT_FILE_WRITE_DATA, 0},
};

_Static_assert(ARRAY_SIZE(attempts) == NT_ATTEMPTS, "every attempt has its rights");

const char *nt_attempt_name(enum nt_attempt attempt)
{
	return attempts[attempt].name;
}

int nt_attempt_check(enum nt_attempt attempt, const struct nt_descriptor *object,
		     const struct nt_descriptor *directory, const struct nt_token *token)
{
	int r = attempts[attempt].on_object
			? nt_access_check(object, token, attempts[attempt].on_object)
			: 0;

	/* NTFS deletes a child also by DELETE_CHILD on its directory. */
	if (r == -EACCES && attempts[attempt].on_object == NT_DELETE)
		r = nt_access_check(directory, token, NT_FILE_DELETE_CHILD);
	if (r == 0 && attempts[attempt].on_directory)
		r = nt_access_check(directory, token, attempts[attempt].on_directory);
	return r;
}
