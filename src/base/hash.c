/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include "base/str.h"

#include <errno.h>
#include <sodium.h>
#include <unistd.h>

#define BLOCK	  64
#define READ_SIZE (64 << 10)

/* So much is hashed before the processor is asked; see hash.h. */
#define ASK_AFTER (2 << 10)

static const uint32_t first_state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static int answer = -1;

static bool is_fast(size_t more)
{
	static size_t hashed;

	if (answer < 0 && (hashed += more) > ASK_AFTER)
		answer = hash_has_instructions();
	return answer > 0;
}

void hash_ask(void)
{
	if (answer < 0)
		answer = hash_has_instructions();
}

void hash_init(struct hash *hash)
{
	hash->is_fast = is_fast(BLOCK);
	if (!hash->is_fast) {
		crypto_hash_sha256_init(&hash->sodium);
		return;
	}
	memcpy(hash->fast.state, first_state, sizeof first_state);
	hash->fast.bytes = 0;
}

static void update_fast(struct hash_blocks *blocks, const unsigned char *data, size_t size)
{
	size_t have = blocks->bytes % BLOCK;

	blocks->bytes += size;
	if (have) {
		size_t part = size < BLOCK - have ? size : BLOCK - have;

		memcpy(blocks->rest + have, data, part);
		data += part;
		size -= part;
		if (have + part < BLOCK)
			return;
		hash_compress(blocks->state, blocks->rest, 1);
	}
	if (size / BLOCK)
		hash_compress(blocks->state, data, size / BLOCK);
	if (size % BLOCK)
		memcpy(blocks->rest, data + size / BLOCK * BLOCK, size % BLOCK);
}

void hash_update(struct hash *hash, const void *data, size_t size)
{
	if (size == 0)
		return;
	if (hash->is_fast) {
		update_fast(&hash->fast, data, size);
		return;
	}
	is_fast(size); /* for the next one */
	crypto_hash_sha256_update(&hash->sodium, data, size);
}

/* A one bit, zeros, and the length in bits. */
static void final_fast(struct hash_blocks *blocks, unsigned char ret[HASH_SIZE])
{
	unsigned char end[2 * BLOCK] = {0x80};
	uint64_t bits = blocks->bytes * 8;
	size_t have = blocks->bytes % BLOCK;
	size_t padding = (have < BLOCK - 8 ? BLOCK : 2 * BLOCK) - have;

	for (size_t i = 0; i < 8; i++)
		end[padding - 1 - i] = (unsigned char)(bits >> (8 * i));
	update_fast(blocks, end, padding);
	for (size_t i = 0; i < HASH_SIZE; i++)
		ret[i] = (unsigned char)(blocks->state[i / 4] >> (24 - i % 4 * 8));
}

void hash_final(struct hash *hash, unsigned char ret[HASH_SIZE])
{
	if (hash->is_fast)
		final_fast(&hash->fast, ret);
	else
		crypto_hash_sha256_final(&hash->sodium, ret);
}

void hash_sha256(const void *data, size_t size, unsigned char ret[HASH_SIZE])
{
	struct hash hash;

	hash_init(&hash);
	hash_update(&hash, data, size);
	hash_final(&hash, ret);
}

void hash_sha256_hex(const void *data, size_t size, char ret_hex[HASH_HEX_SIZE])
{
	unsigned char digest[HASH_SIZE];

	hash_sha256(data, size, digest);
	hash_to_hex(digest, sizeof digest, ret_hex);
}

/* Of a file whose size is known one read is enough, where it brings just that. */
static int hash_all(int fd, uint64_t expected, uint64_t *ret_size, unsigned char ret[HASH_SIZE])
{
	unsigned char data[READ_SIZE];
	struct hash hash;
	uint64_t size = 0;
	bool is_first = true;
	ssize_t got;

	while ((got = read(fd, data, sizeof data)) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		/* What is about to be hashed decides how. */
		if (is_first) {
			is_fast((size_t)got);
			hash_init(&hash);
			is_first = false;
		}
		hash_update(&hash, data, (size_t)got);
		size += (uint64_t)got;
		if (size == expected && (size_t)got < sizeof data)
			break;
	}
	if (is_first)
		hash_init(&hash);
	hash_final(&hash, ret);
	if (ret_size)
		*ret_size = size;
	return 0;
}

int hash_fd(int fd, uint64_t *ret_size, unsigned char ret[HASH_SIZE])
{
	return hash_all(fd, UINT64_MAX, ret_size, ret);
}

int hash_fd_sized(int fd, uint64_t size, unsigned char ret[HASH_SIZE])
{
	return hash_all(fd, size, NULL, ret);
}

void hash_to_hex(const unsigned char *data, size_t size, char *ret_hex)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < size; i++) {
		ret_hex[2 * i] = digits[data[i] >> 4];
		ret_hex[2 * i + 1] = digits[data[i] & 15];
	}
	ret_hex[2 * size] = '\0';
}

bool hash_from_hex(const char *hex, size_t size, unsigned char *ret)
{
	for (size_t i = 0; i < size; i++) {
		int high = str_hex_value(hex[2 * i]);
		int low = high < 0 ? -1 : str_hex_value(hex[2 * i + 1]);

		/* 'A' to 'F' have bit 5 clear, digits and 'a' to 'f' have it set. */
		if (low < 0 || !(hex[2 * i] & hex[2 * i + 1] & 0x20))
			return false;
		ret[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}
