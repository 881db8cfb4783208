/* SPDX-License-Identifier: Apache-2.0 */
#include "api/e2b.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/str.h"

#include <openssl/crypto.h>
#include <sodium.h>

bool e2b_same(const char *a, const char *b)
{
	size_t n = strlen(a);

	return n == strlen(b) && CRYPTO_memcmp(a, b, n) == 0;
}

void e2b_sign(const char *path, enum e2b_operation operation, const char *user, const char *token,
	      const char *expiration, char ret[E2B_SIGNATURE_SIZE])
{
	const char *parts[] = {path, operation == E2B_READ ? "read" : "write", user, token,
			       expiration};
	unsigned char digest[HASH_SIZE];
	struct hash hash;

	hash_init(&hash);
	for (size_t i = 0; i < sizeof parts / sizeof *parts && parts[i]; i++) {
		if (i > 0)
			hash_update(&hash, ":", 1);
		hash_update(&hash, parts[i], strlen(parts[i]));
	}
	hash_final(&hash, digest);
	memcpy(ret, "v1_", 3);
	sodium_bin2base64(ret + 3, E2B_SIGNATURE_SIZE - 3, digest, sizeof digest,
			  sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
}

static const char *query_or_empty(struct exchange *exchange, const char *name)
{
	const char *value = exchange_query(exchange, name);

	return value ? value : "";
}

bool e2b_is_signed_by(struct exchange *exchange, const char *token)
{
	const char *signature = exchange_query(exchange, "signature");
	const char *expiration = exchange_query(exchange, "signature_expiration");
	bool writes = http_slice_is(exchange_head(exchange)->method, "POST");
	char wanted[E2B_SIGNATURE_SIZE];

	if (!signature)
		return false;
	if (expiration && !expiration[0])
		expiration = NULL;
	e2b_sign(query_or_empty(exchange, "path"), writes ? E2B_WRITE : E2B_READ,
		 query_or_empty(exchange, "username"), token, expiration, wanted);
	return e2b_same(signature, wanted);
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

	if (token && token[0])
		return e2b_same(token, box->access_token)
			       ? NULL
			       : "access token present in header but does not match";
	if (!exchange_query(exchange, "signature"))
		return "missing signature query parameter";
	if (!e2b_is_signed_by(exchange, box->access_token))
		return "invalid signature";
	return has_expired(exchange_query(exchange, "signature_expiration"))
		       ? "signature is already expired"
		       : NULL;
}
