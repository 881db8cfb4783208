/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

#include <jansson.h>
#include <stddef.h>

struct atoll_error;
struct sign_key;

/* DSSE envelopes. */

/* The bytes that a signature is over (pre-authentication encoding). */
void dsse_pae(const char *type, const void *body, size_t size, struct buf *out);
int dsse_sign(const char *body, size_t size, const struct sign_key *key, json_t **ret,
	      struct atoll_error *err);
/* Checks the signature of `key` and returns the body. -EBADMSG: not an envelope. -EKEYREJECTED: not
 * signed by this key. */
int dsse_open(const json_t *envelope, const struct sign_key *key, struct buf *ret,
	      struct atoll_error *err);
