/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/hash.h"
#include "httpd/httpd.h"

/* Signatures of URLs: a hash over path, operation, user, the box's token and the expiration. */

enum e2b_operation {
	E2B_READ,
	E2B_WRITE,
};
#define E2B_SIGNATURE_SIZE 47 /* "v1_", 43 characters of base64, NUL */
void e2b_sign(const char *path, enum e2b_operation operation, const char *user, const char *token,
	      const char *expiration, char ret[E2B_SIGNATURE_SIZE]);
/* Takes the same time for all tokens of one length. */
bool e2b_is_same_token(const char *a, const char *b);

/* The signature of a request, to be compared with those of many tokens: everything before the token
 * is hashed once. */
#define E2B_PATH_MAX 4096
#define E2B_WORD_MAX 256 /* bytes of a user or an expiration */
struct e2b_signed {
	struct hash hash;
	const char *signature, *expiration; /* of the exchange */
};
/* False: the path or a word is too long. */
bool e2b_signed_begin(struct exchange *exchange, struct e2b_signed *ret);
/* Was the signature made with this token? */
bool e2b_signed_by(const struct e2b_signed *signed_request, const char *token);
/* Is the request for a file signed with the token of this box? NULL: yes; else the message for
 * 401. */
const char *e2b_check_signature(struct exchange *exchange, const struct box *box);
