/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes integrity labels. Called by the access check, the planner and the engine. */
#include "nt/nt-label.h"

#include "nt/bytes.h"

#include <errno.h>
#include <string.h>

#define LABEL_SIZE 20 /* header 4, policy 4, SID S-1-16-LEVEL 12 */

static bool is_label(const struct nt_ace *ace)
{
	return ace->raw && ace->type == NT_ACE_LABEL;
}

static int unpack(const struct nt_ace *ace, struct nt_label *ret)
{
	struct nt_sid sid;

	if (ace->raw_size != LABEL_SIZE ||
	    nt_sid_unpack(ace->raw + 8, LABEL_SIZE - 8, &sid) != LABEL_SIZE - 8 ||
	    sid.authority != 16)
		return -EINVAL;
	*ret = (struct nt_label){
		.level = sid.subs[0], .policy = read_u32(ace->raw + 4), .flags = ace->flags};
	return 1;
}

int nt_label_read(const struct nt_descriptor *sd, struct nt_label *ret)
{
	*ret = (struct nt_label){.level = NT_LEVEL_MEDIUM, .policy = NT_NO_WRITE_UP};
	if (!sd->has_sacl || sd->is_sacl_null)
		return 0;
	for (size_t i = 0; i < sd->sacl.n_aces; i++)
		/* Windows looks at the first label that applies to the object itself. */
		if (is_label(&sd->sacl.aces[i]) && !(sd->sacl.aces[i].flags & NT_ACE_INHERIT_ONLY))
			return unpack(&sd->sacl.aces[i], ret);
	return 0;
}

void nt_label_remove(struct nt_descriptor *sd)
{
	for (size_t i = sd->sacl.n_aces; i-- > 0;)
		if (is_label(&sd->sacl.aces[i]))
			nt_acl_remove(&sd->sacl, i);
	if (sd->sacl.n_aces == 0)
		sd->has_sacl = sd->is_sacl_null = false;
}

int nt_label_set(struct nt_descriptor *sd, const struct nt_label *label)
{
	const struct nt_sid sid = {.authority = 16, .n_subs = 1, .subs = {label->level}};
	uint8_t raw[LABEL_SIZE] = {NT_ACE_LABEL, label->flags, LABEL_SIZE};

	nt_label_remove(sd);
	write_u32(raw + 4, label->policy);
	nt_sid_pack(&sid, raw + 8);
	sd->has_sacl = true;
	sd->is_sacl_null = false;
	return nt_acl_insert_raw(&sd->sacl, 0, raw, sizeof raw);
}

int nt_label_inherit(const struct nt_descriptor *parent, bool is_directory,
		     struct nt_descriptor *child)
{
	const uint8_t reach = is_directory ? NT_ACE_CONTAINER_INHERIT : NT_ACE_OBJECT_INHERIT;
	struct nt_label label;
	int r = nt_label_read(parent, &label);

	if (r <= 0 || !(label.flags & reach))
		return r < 0 ? r : 0;
	if (!is_directory)
		label.flags = 0;
	label.flags |= NT_ACE_INHERITED;
	return nt_label_set(child, &label);
}
