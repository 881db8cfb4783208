/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The access check of the model. Called by the planner's tests and by the attestation, which
 * compares what Windows answers with what this model expects.
 *
 * One walk goes through the DACL in order. An entry decides only the rights that no earlier entry
 * has decided. The owner gets READ_CONTROL and WRITE_DAC unless the DACL has an entry for OWNER
 * RIGHTS, which then decides instead.
 */
#include "nt/access-check.h"

#include "nt/nt-label.h"

#include <errno.h>

/* The SIDs that one walk is made with. */
struct identity {
	const struct nt_token *token;
	bool is_restricting; /* use the restricting SIDs and nothing else */
};

static bool matches_group(const struct nt_group *group, const struct nt_sid *sid, bool for_denial)
{
	return (for_denial || !group->is_deny_only) && nt_sid_equal(&group->sid, sid);
}

static bool has_sid(const struct identity *identity, const struct nt_sid *sid, bool for_denial)
{
	const struct nt_token *token = identity->token;

	if (identity->is_restricting) {
		for (size_t i = 0; i < token->n_restricting; i++)
			if (nt_sid_equal(&token->restricting[i], sid))
				return true;
		return false;
	}
	if (matches_group(&token->user, sid, for_denial))
		return true;
	for (size_t i = 0; i < token->n_groups; i++)
		if (matches_group(&token->groups[i], sid, for_denial))
			return true;
	return false;
}

static bool applies(const struct nt_ace *ace)
{
	return !(ace->flags & NT_ACE_INHERIT_ONLY) &&
	       (ace->type == NT_ACE_ALLOW || ace->type == NT_ACE_DENY);
}

static bool is_understood(const struct nt_acl *dacl)
{
	for (size_t i = 0; i < dacl->n_aces; i++)
		if (dacl->aces[i].raw)
			return false;
	return true;
}

static bool has_owner_rights(const struct nt_acl *dacl)
{
	for (size_t i = 0; i < dacl->n_aces; i++)
		if (applies(&dacl->aces[i]) &&
		    nt_sid_equal(&dacl->aces[i].sid, &nt_sid_owner_rights))
			return true;
	return false;
}

static bool ace_matches(const struct identity *identity, const struct nt_ace *ace, bool is_owner)
{
	if (nt_sid_equal(&ace->sid, &nt_sid_owner_rights))
		return is_owner;
	return has_sid(identity, &ace->sid, ace->type == NT_ACE_DENY);
}

/* The rights that one walk grants. Every right is decided by the first entry that names it. */
static uint32_t walk(const struct nt_descriptor *sd, const struct identity *identity)
{
	const bool is_owner = sd->has_owner && has_sid(identity, &sd->owner, false);
	uint32_t granted = 0, denied = 0;

	if (!sd->has_dacl || sd->is_dacl_null)
		return NT_FILE_ALL_ACCESS;
	if (is_owner && !has_owner_rights(&sd->dacl))
		granted |= NT_READ_CONTROL | NT_WRITE_DAC;
	for (size_t i = 0; i < sd->dacl.n_aces; i++) {
		const struct nt_ace *ace = &sd->dacl.aces[i];
		uint32_t mask = nt_map_file_rights(ace->mask) & NT_FILE_ALL_ACCESS;

		if (!applies(ace) || !ace_matches(identity, ace, is_owner))
			continue;
		if (ace->type == NT_ACE_ALLOW)
			granted |= mask & ~denied;
		else
			denied |= mask & ~granted;
	}
	return granted;
}

/* The rights that the object's label leaves to the token. A label that cannot be read leaves
 * none. */
static uint32_t left_by_label(const struct nt_descriptor *sd, const struct nt_token *token)
{
	struct nt_label label;
	uint32_t left = 0;

	if (token->integrity == 0)
		return NT_FILE_ALL_ACCESS;
	if (nt_label_read(sd, &label) < 0)
		return 0;
	if (token->integrity >= label.level || !(label.policy & NT_NO_WRITE_UP))
		return NT_FILE_ALL_ACCESS;
	if (!(label.policy & NT_NO_READ_UP))
		left |= NT_FILE_GENERIC_READ;
	if (!(label.policy & NT_NO_EXECUTE_UP))
		left |= NT_FILE_GENERIC_EXECUTE;
	return left;
}

int64_t nt_access_maximum(const struct nt_descriptor *sd, const struct nt_token *token)
{
	const struct identity normal = {.token = token};
	const struct identity restricting = {.token = token, .is_restricting = true};
	uint32_t granted;

	if (sd->has_dacl && !sd->is_dacl_null && !is_understood(&sd->dacl))
		return -ENOTSUP;
	granted = walk(sd, &normal);
	if (token->restriction == NT_RESTRICTED)
		granted &= walk(sd, &restricting);
	else if (token->restriction == NT_WRITE_RESTRICTED)
		granted &= walk(sd, &restricting) | ~token->write_covers;
	/* Windows grants by privilege before both walks, so no walk takes the right away; the label
	 * comes before the privilege. */
	if (token->may_take_ownership)
		granted |= NT_WRITE_OWNER;
	return granted & left_by_label(sd, token);
}

int nt_access_check(const struct nt_descriptor *sd, const struct nt_token *token, uint32_t desired)
{
	int64_t granted = nt_access_maximum(sd, token);

	if (granted < 0)
		return (int)granted;
	return (nt_map_file_rights(desired) & ~(uint32_t)granted) ? -EACCES : 0;
}
