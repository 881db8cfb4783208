/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <sodium.h>

void hash_sha256_hex(const void *data, size_t size, char ret_hex[HASH_HEX_SIZE])
{
	unsigned char digest[crypto_hash_sha256_BYTES];

	crypto_hash_sha256(digest, data, size);
	sodium_bin2hex(ret_hex, HASH_HEX_SIZE, digest, sizeof digest);
}
