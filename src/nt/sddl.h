/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/descriptor.h"

/*
 * Security descriptors as text (SDDL)
 *
 *	O:owner G:group D:flags(entry)(entry)... S:flags(entry)...
 *	entry = type ; inheritance ; rights ; object ; inherited object ; SID
 *
 * The reader accepts entries that allow (A), deny (D) and audit (AU), rights as numbers and as
 * pairs of letters, SIDs in full, and the abbreviations of SIDs that do not depend on a domain. It
 * refuses everything else: conditions, objects, labels, abbreviations of a domain's accounts.
 */

/* Read a NUL-terminated text. Returns 0, -EINVAL, -ENOTSUP for something that SDDL has and this
 * reader does not, or -ENOMEM. `ret` is empty after a failure. */
int nt_sddl_parse(const char *text, struct nt_descriptor *ret);

/* Write a text that nt_sddl_parse() reads as the same descriptor, into fresh memory that the caller
 * frees. Returns 0, -ENOTSUP if a list has an entry that the model does not understand, or
 * -ENOMEM. */
int nt_sddl_text(const struct nt_descriptor *sd, char **ret);
