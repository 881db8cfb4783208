/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/acl.h"

/*
 * Security descriptors
 *
 * A descriptor holds an owner, a group, and two lists: the DACL (who gets which access) and the
 * SACL (what is audited, and labels). A DACL that is absent grants everything to everybody; a DACL
 * that is present and empty grants nothing. `has_dacl` says that the descriptor has one, and
 * `is_dacl_null` that it is the one that grants everything.
 */

/* Control bits that the model uses. The others are kept. */
#define NT_SE_DACL_PRESENT	  0x0004U
#define NT_SE_SACL_PRESENT	  0x0010U
#define NT_SE_DACL_AUTO_INHERITED 0x0400U
#define NT_SE_SACL_AUTO_INHERITED 0x0800U
#define NT_SE_DACL_PROTECTED	  0x1000U /* entries of the parent do not come in */
#define NT_SE_SACL_PROTECTED	  0x2000U
#define NT_SE_SELF_RELATIVE	  0x8000U

struct nt_descriptor {
	uint16_t control;
	bool has_owner, has_group;
	bool has_dacl, is_dacl_null;
	bool has_sacl, is_sacl_null;
	struct nt_sid owner, group;
	struct nt_acl dacl, sacl;
};

void nt_descriptor_init(struct nt_descriptor *sd);
void nt_descriptor_done(struct nt_descriptor *sd);

/* Read the self-relative binary form. Returns 0, -EINVAL or -ENOMEM. */
int nt_descriptor_unpack(const uint8_t *data, size_t size, struct nt_descriptor *ret);

/* Write the self-relative binary form into fresh memory that the caller frees. Returns its size,
 * -E2BIG if a list does not fit into 65,535 bytes, or -ENOMEM. */
int nt_descriptor_pack(const struct nt_descriptor *sd, uint8_t **ret);
