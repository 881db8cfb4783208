/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/descriptor.h"

/*
 * The access check
 *
 * Windows walks the DACL from its first entry to its last with the SIDs of the token. A token with
 * restricting SIDs is walked a second time with these alone, and gets only what both walks grant.
 * In a write-restricted token the second walk counts for rights to write only.
 *
 * Which rights "write" covers is documented in two ways. NT_COVERS_WRITE is the weaker reading (the
 * rights of GENERIC_WRITE), NT_COVERS_CHANGES the stronger (also delete, change the DACL, change
 * the owner). A plan must hold under the weaker reading.
 *
 * Before both walks Windows compares the token's integrity level with the object's label: a token
 * of a lower level gets what the label leaves (nt-label.h).
 */

#define NT_COVERS_WRITE                                                                            \
	(NT_FILE_WRITE_DATA | NT_FILE_APPEND_DATA | NT_FILE_WRITE_EA | NT_FILE_WRITE_ATTRIBUTES)
#define NT_COVERS_CHANGES                                                                          \
	(NT_COVERS_WRITE | NT_FILE_DELETE_CHILD | NT_DELETE | NT_WRITE_DAC | NT_WRITE_OWNER)

struct nt_group {
	struct nt_sid sid;
	bool is_deny_only; /* matches denials, never grants */
};

enum nt_restriction {
	NT_UNRESTRICTED,     /* no second walk */
	NT_RESTRICTED,	     /* the second walk counts for every right */
	NT_WRITE_RESTRICTED, /* the second walk counts for the rights in `write_covers` */
};

struct nt_token {
	struct nt_group user;
	const struct nt_group *groups;
	size_t n_groups;
	enum nt_restriction restriction;
	const struct nt_sid *restricting;
	size_t n_restricting;
	uint32_t write_covers;	 /* NT_COVERS_WRITE or NT_COVERS_CHANGES */
	bool may_take_ownership; /* SeTakeOwnershipPrivilege is enabled */
	uint32_t integrity;	 /* NT_LEVEL_..., or 0: labels do not count */
};

/*
 * Decide whether the token gets every right in `desired`; generic rights are mapped to those of
 * files. Returns 0 if it does, -EACCES if not, and -ENOTSUP if the DACL has an entry that this
 * model does not understand: the caller must treat that as a refusal, and must not build on it as a
 * wall.
 */
int nt_access_check(const struct nt_descriptor *sd, const struct nt_token *token, uint32_t desired);

/* All rights that the token gets, as MAXIMUM_ALLOWED asks for them, or -ENOTSUP. */
int64_t nt_access_maximum(const struct nt_descriptor *sd, const struct nt_token *token);
