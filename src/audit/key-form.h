/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/audit-base.h"

#include <stdbool.h>

struct atoll_key;
struct audit_key;

/* Public keys as text: PEM, a line of OpenSSH, a verifier key of signed notes. */

/* The id of a key: the first 8 bytes of the SHA-256 of the public key in DER, in hex. */
void audit_key_id(const unsigned char public[32], char ret[AUDIT_KEY_SIZE]);
/* Fills in all forms of the public key. */
void audit_key_forms(const struct audit_key *key, struct atoll_key *ret);
/* Reads any of these forms; false if `text` has none of them. */
bool audit_key_parse_public(const char *text, unsigned char ret[32]);
