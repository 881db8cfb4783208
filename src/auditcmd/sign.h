/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "base/scope.h"

#include <jansson.h>
#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>

struct atoll_error;

/* Keys and signatures by libcrypto, and the texts that they are written as. */

#define SIGN_RAW_SIZE 32
#define SIGN_ID_SIZE  17

/* An Ed25519 key. `id` is the id that `atoll key show` prints: the first 8 bytes of the SHA-256 of
 * the public key in DER, in hex. */
struct sign_key {
	EVP_PKEY *key; /* with or without its private part */
	unsigned char raw[SIGN_RAW_SIZE];
	char id[SIGN_ID_SIZE];
};
#define cleanup_sign_key cleanup_with(sign_done)
void sign_done(struct sign_key *key);

/* Read PEM: a PKCS #8 private key, or a public key. */
int sign_read_private(const char *path, struct sign_key *ret, struct atoll_error *err);
int sign_read_public(const char *path, struct sign_key *ret, struct atoll_error *err);
int sign_from_raw(const unsigned char raw[SIGN_RAW_SIZE], struct sign_key *ret,
		  struct atoll_error *err);
/* Reads a public key of any type as PEM; NULL and an error on failure. */
EVP_PKEY *sign_read_any_public(const char *path, struct atoll_error *err);

/* Ed25519, or ECDSA with SHA-256, by the type of the key. */
int sign_bytes(EVP_PKEY *key, const void *data, size_t size, struct buf *ret,
	       struct atoll_error *err);
bool sign_is_good(EVP_PKEY *key, const void *data, size_t size, const void *signature,
		  size_t signature_size);
/* The public key as DER and as PEM. */
int sign_public_der(EVP_PKEY *key, struct buf *ret, struct atoll_error *err);
int sign_public_pem(EVP_PKEY *key, struct buf *ret, struct atoll_error *err);

void sign_sha256(const void *data, size_t size, unsigned char ret[32]);
void sign_hex(const void *data, size_t size, char *ret);
/* False unless `text` is exactly 2 * `size` hex digits. */
bool sign_unhex(const char *text, void *ret, size_t size);
void sign_add_base64(struct buf *out, const void *data, size_t size);
json_t *sign_base64(const void *data, size_t size);
/* -EBADMSG if `text` is not base64. */
int sign_read_base64(const char *text, struct buf *ret);
