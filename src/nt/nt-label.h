/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/descriptor.h"

/*
 * Integrity labels
 *
 * An object's SACL may have one label: a level, and what a token of a lower level must not do. An
 * object without a label has the level "medium" and refuses writes from below. The plan gives the
 * token the level "low" and labels the writable roots "low": whatever the user's own rights are,
 * the command cannot change an object that has no such label. This holds also where a
 * write-restricted token is filtered for plain writes only (see access-check.h).
 */

#define NT_LEVEL_LOW	0x1000U
#define NT_LEVEL_MEDIUM 0x2000U

#define NT_NO_WRITE_UP	 0x1U
#define NT_NO_READ_UP	 0x2U
#define NT_NO_EXECUTE_UP 0x4U

#define NT_ACE_LABEL 0x11 /* the entry's type in a SACL */

struct nt_label {
	uint32_t level;
	uint32_t policy; /* NT_NO_... */
	uint8_t flags;	 /* NT_ACE_... */
};

/* Read the label. Returns 1 if there is one, 0 if there is none and `ret` has the default, and
 * -EINVAL for a label that cannot be read. */
int nt_label_read(const struct nt_descriptor *sd, struct nt_label *ret);

/* Set the label in place of any other one, and take it away. Returns 0, -E2BIG or -ENOMEM. */
int nt_label_set(struct nt_descriptor *sd, const struct nt_label *label);
void nt_label_remove(struct nt_descriptor *sd);

/* Give a new object the label that it inherits from its directory, if that hands one on. */
int nt_label_inherit(const struct nt_descriptor *parent, bool is_directory,
		     struct nt_descriptor *child);
