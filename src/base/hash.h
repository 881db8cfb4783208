/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sodium/crypto_hash_sha256.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_SIZE     32
#define HASH_HEX_SIZE 65 /* 64 digits and the NUL */

/*
 * SHA-256
 *
 * libsodium's, or where the processor has instructions for it our own of six times the speed
 * (sha256-ni.c). Asking the processor costs as much as hashing a few kilobytes where a hypervisor
 * answers, so it is asked only once a process has hashed some.
 */
struct hash_blocks {
	uint32_t state[8];
	uint64_t bytes;
	unsigned char rest[64];
};

struct hash {
	bool is_fast;
	union {
		crypto_hash_sha256_state sodium;
		struct hash_blocks fast;
	};
};

/* Ask now, for all that is forked from here on. */
void hash_ask(void);

void hash_init(struct hash *hash);
void hash_update(struct hash *hash, const void *data, size_t size);
void hash_final(struct hash *hash, unsigned char ret[HASH_SIZE]);

void hash_sha256(const void *data, size_t size, unsigned char ret[HASH_SIZE]);
/* As lower-case hexadecimal. */
void hash_sha256_hex(const void *data, size_t size, char ret_hex[HASH_HEX_SIZE]);
/* All that can be read from a descriptor, and how much that was (`ret_size` may be NULL). 0 or a
 * negative errno. */
int hash_fd(int fd, uint64_t *ret_size, unsigned char ret[HASH_SIZE]);
/* The same of a regular file that had `size` bytes a moment ago: of a small one that saves a call.
 */
int hash_fd_sized(int fd, uint64_t size, unsigned char ret[HASH_SIZE]);

/* `size` bytes as lower-case hexadecimal, and a NUL. */
void hash_to_hex(const unsigned char *data, size_t size, char *ret_hex);
/* The other way; lower case only. Says whether all of it was. */
bool hash_from_hex(const char *hex, size_t size, unsigned char *ret);

/* ---- sha256-ni.c ---- */

bool hash_has_instructions(void);
/* Whole blocks of 64 bytes. Only where there are the instructions. */
void hash_compress(uint32_t state[8], const unsigned char *data, size_t n_blocks);
