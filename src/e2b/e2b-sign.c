/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b-sign.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/str.h"
#include "e2b/connect.h"

#include <openssl/crypto.h>
#include <sodium.h>

/*
 * Signatures of URLs for files
 *
 * A client that has the token of a box makes a URL for a path, an operation, a user and an
 * expiration. The signature is a SHA-256 over these and the token.
 */

bool e2b_is_same_token(const char *a, const char *b)
{
	size_t n = strlen(a);

	return n == strlen(b) && CRYPTO_memcmp(a, b, n) == 0;
}

static void begin(struct hash *hash, const char *path, enum e2b_operation operation,
		  const char *user)
{
	const char *parts[] = {path, operation == E2B_READ ? ":read:" : ":write:", user, ":"};

	hash_init(hash);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		hash_update(hash, parts[i], strlen(parts[i]));
}

static void end(struct hash *hash, const char *token, const char *expiration,
		char ret[E2B_SIGNATURE_SIZE])
{
	unsigned char digest[HASH_SIZE];

	hash_update(hash, token, strlen(token));
	if (expiration) {
		hash_update(hash, ":", 1);
		hash_update(hash, expiration, strlen(expiration));
	}
	hash_final(hash, digest);
	memcpy(ret, "v1_", 3);
	sodium_bin2base64(ret + 3, E2B_SIGNATURE_SIZE - 3, digest, sizeof digest,
			  sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
}

void e2b_sign(const char *path, enum e2b_operation operation, const char *user, const char *token,
	      const char *expiration, char ret[E2B_SIGNATURE_SIZE])
{
	struct hash hash;

	begin(&hash, path, operation, user);
	end(&hash, token, expiration, ret);
}

static const char *query_or_empty(struct exchange *exchange, const char *name)
{
	const char *value = exchange_query(exchange, name);

	return value ? value : "";
}

bool e2b_signed_begin(struct exchange *exchange, struct e2b_signed *ret)
{
	bool writes = http_slice_is(exchange_head(exchange)->method, "POST");
	const char *path = query_or_empty(exchange, "path"),
		   *user = query_or_empty(exchange, "username"),
		   *expiration = query_or_empty(exchange, "signature_expiration");

	*ret = (struct e2b_signed){
		.signature = query_or_empty(exchange, "signature"),
		.expiration = expiration[0] ? expiration : NULL,
	};
	if (strlen(path) > E2B_PATH_MAX || strlen(user) > E2B_WORD_MAX ||
	    strlen(expiration) > E2B_WORD_MAX)
		return false;
	begin(&ret->hash, path, writes ? E2B_WRITE : E2B_READ, user);
	return true;
}

bool e2b_signed_by(const struct e2b_signed *signed_request, const char *token)
{
	struct hash hash = signed_request->hash;
	char wanted[E2B_SIGNATURE_SIZE];

	end(&hash, token, signed_request->expiration, wanted);
	return e2b_is_same_token(signed_request->signature, wanted);
}

static bool has_expired(const char *expiration)
{
	uint64_t seconds;

	if (!expiration || !expiration[0])
		return false;
	return !connect_number(expiration, &seconds) || seconds < clock_real_ns() / 1000000000;
}

const char *e2b_check_signature(struct exchange *exchange, const struct box *box)
{
	const char *token = exchange_field(exchange, "x-access-token");
	struct e2b_signed request;

	if (token && token[0])
		return e2b_is_same_token(token, box->access_token)
			       ? NULL
			       : "access token present in header but does not match";
	if (!exchange_query(exchange, "signature"))
		return "missing signature query parameter";
	if (!e2b_signed_begin(exchange, &request) || !e2b_signed_by(&request, box->access_token))
		return "invalid signature";
	return has_expired(exchange_query(exchange, "signature_expiration"))
		       ? "signature is already expired"
		       : NULL;
}
