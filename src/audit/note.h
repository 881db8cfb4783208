/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/audit-base.h"

#include <stdbool.h>
#include <stdint.h>

struct audit_key;
struct audit_trust;

/*
 * Signed notes (C2SP signed-note) and the heads in them (C2SP tlog-checkpoint)
 *
 * A note is a text of lines, a blank line, and one line per signature.
 */

/* The four bytes by which a signature line names its key. */
void audit_key_hint(const char *name, const unsigned char public[32], unsigned char ret[4]);
/* Signs `text`, which ends with a newline, under the name "atoll/STORE". Appends the note to `out`.
 */
void audit_note_sign(const struct audit_key *key, const char *text, size_t size, struct buf *out);
/* Appends one more signature line to a signed note. `size` is the size of its text. */
void audit_note_cosign(const struct audit_key *key, size_t size, struct buf *note);
/* The size of the text of a note, with its last newline; 0 if `note` is not a note. */
size_t audit_note_text(const char *note, size_t size);
/* Does the note have a valid signature of this key under that name? */
bool audit_note_is_signed(const char *note, size_t size, const char *name,
			  const unsigned char public[32]);
/* The index of the trusted key that has signed the note, or -1. */
int audit_note_signer(const char *note, size_t size, const char *name,
		      const struct audit_trust *trust);
/* Does a signature line name a trusted key, whether the signature is valid or not? */
bool audit_note_is_hinted(const char *note, size_t size, const char *name,
			  const struct audit_trust *trust);

/* The text of a head. */
struct audit_head {
	char origin[64];
	uint64_t size;
	unsigned char root[HASH_SIZE];
	const char *more; /* extension lines; points into the text that was parsed */
	size_t more_size;
};
void audit_head_format(const struct audit_head *head, struct buf *out);
bool audit_head_parse(const char *note, size_t size, struct audit_head *ret);

void audit_base64(const unsigned char *data, size_t size, struct buf *out);
/* Decodes exactly `size` bytes; false for any other spelling than the one that audit_base64()
 * writes. */
bool audit_from_base64(const char *text, size_t length, unsigned char *ret, size_t size);
