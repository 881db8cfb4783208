/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include "base/fd.h"
#include "base/scope.h"
#include "base/test.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

/* So many bytes are hashed that the processor has been asked. */
static void warm_up(void)
{
	static const unsigned char zeros[64 << 10];
	unsigned char digest[HASH_SIZE];

	hash_sha256(zeros, sizeof zeros, digest);
}

TEST(hashes_are_those_of_the_standard)
{
	char hex[HASH_HEX_SIZE];

	for (int i = 0; i < 2; i++) {
		hash_sha256_hex("", 0, hex);
		CHECK_STR(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
		hash_sha256_hex("abc", 3, hex);
		CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
		warm_up();
	}
}

TEST(the_processors_instructions_and_libsodium_agree_at_every_length)
{
	static unsigned char data[9000];

	if (!hash_has_instructions())
		test_skip("a processor with instructions for SHA-256");
	warm_up();
	srandom(6);
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (unsigned char)random();
	for (size_t size = 0; size < sizeof data; size += size < 300 ? 1 : 1 + random() % 97) {
		unsigned char ours[HASH_SIZE], theirs[HASH_SIZE];
		struct hash hash;

		hash_init(&hash);
		CHECK(hash.is_fast);
		for (size_t at = 0, part; at < size; at += part) {
			part = 1 + (size_t)random() % 200;
			if (part > size - at)
				part = size - at;
			hash_update(&hash, data + at, part);
		}
		hash_final(&hash, ours);
		crypto_hash_sha256(theirs, data, size);
		CHECK(memcmp(ours, theirs, HASH_SIZE) == 0);
	}
}

TEST(a_descriptor_is_hashed_to_its_end)
{
	static unsigned char data[200001], ours[HASH_SIZE], theirs[HASH_SIZE];
	cleanup_fd int dir = test_tempdir();
	cleanup_fd int fd = openat(dir, "f", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	uint64_t size;

	CHECK(hash_fd(fd, &size, ours) == 0 && size == 0);
	crypto_hash_sha256(theirs, data, 0);
	CHECK(memcmp(ours, theirs, HASH_SIZE) == 0);
	memset(data, 'x', sizeof data);
	CHECK(fd_write_all(fd, data, sizeof data) == 0);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK(hash_fd(fd, &size, ours) == 0 && size == sizeof data);
	crypto_hash_sha256(theirs, data, sizeof data);
	CHECK(memcmp(ours, theirs, HASH_SIZE) == 0);
	CHECK(hash_fd(dir, NULL, ours) == -EISDIR);
}

TEST(only_lower_case_digits_are_hex)
{
	unsigned char bytes[2];

	CHECK(hash_from_hex("0aff", 2, bytes) && bytes[0] == 0x0a && bytes[1] == 0xff);
	CHECK(!hash_from_hex("0AFF", 2, bytes));
	CHECK(!hash_from_hex("0g00", 2, bytes));
	CHECK(!hash_from_hex("0", 1, bytes));
	CHECK(!hash_from_hex("", 1, bytes));
}
