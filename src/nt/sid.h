/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Security identifiers (SIDs)
 *
 * A SID names a user, a group or a capability. Its text is S-1-AUTHORITY-SUB-SUB-...; its binary
 * form is one byte of revision, one byte with the number of sub-authorities, the authority in six
 * bytes, most significant first, and each sub-authority in four bytes, least significant first.
 */

#define NT_SID_SUBS_MAX	 15
#define NT_SID_SIZE_MAX	 (8 + 4 * NT_SID_SUBS_MAX)
#define NT_SID_TEXT_SIZE 192 /* "S-1-0x" + 12 digits + 15 times "-" and 10 digits, and the NUL */

struct nt_sid {
	uint64_t authority; /* below 2^48 */
	uint8_t n_subs;
	uint32_t subs[NT_SID_SUBS_MAX];
};

/* SIDs that the model and the planner name themselves. */
extern const struct nt_sid nt_sid_everyone;	  /* S-1-1-0 */
extern const struct nt_sid nt_sid_creator_owner;  /* S-1-3-0 */
extern const struct nt_sid nt_sid_creator_group;  /* S-1-3-1 */
extern const struct nt_sid nt_sid_owner_rights;	  /* S-1-3-4 */
extern const struct nt_sid nt_sid_anonymous;	  /* S-1-5-7 */
extern const struct nt_sid nt_sid_authenticated;  /* S-1-5-11 */
extern const struct nt_sid nt_sid_restricted;	  /* S-1-5-12 */
extern const struct nt_sid nt_sid_system;	  /* S-1-5-18 */
extern const struct nt_sid nt_sid_administrators; /* S-1-5-32-544 */
extern const struct nt_sid nt_sid_users;	  /* S-1-5-32-545 */

bool nt_sid_equal(const struct nt_sid *a, const struct nt_sid *b);

/*
 * The capability SID of a writable root: S-1-5-21-TAG-B-C-D from 12 random bytes. No account can
 * have this SID: an account of a machine or domain has the form S-1-5-21-A-B-C-RID, and here the
 * last number has its top bit set, which no RID has. The tag is the same in every one of them, so
 * that entries of atoll are known as such without a ledger.
 */
#define NT_SID_TAG 0x61746f6cU
struct nt_sid nt_sid_from_random(const uint8_t random[12]);
bool nt_sid_is_ours(const struct nt_sid *sid);

/* Read the text form: exactly "S-1-", decimal numbers without leading zeros, the authority also in
 * hexadecimal if it needs more than 32 bits. Returns the number of characters read, or -EINVAL.
 * Stops at the first character that cannot continue the SID. */
int nt_sid_parse(const char *text, size_t size, struct nt_sid *ret);

/* Write the text form. `ret` has room for NT_SID_TEXT_SIZE bytes. Returns the length. */
size_t nt_sid_text(const struct nt_sid *sid, char *ret);

/* Read the binary form. Returns the number of bytes read, or -EINVAL. */
int nt_sid_unpack(const uint8_t *data, size_t size, struct nt_sid *ret);

/* The size of the binary form, and the form itself. `ret` has room for NT_SID_SIZE_MAX bytes. */
size_t nt_sid_size(const struct nt_sid *sid);
size_t nt_sid_pack(const struct nt_sid *sid, uint8_t *ret);
