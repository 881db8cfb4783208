/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/audit-base.h"

/* The signing key of a store (Ed25519). */
struct audit_key {
	char store[AUDIT_STORE_SIZE];
	char id[AUDIT_KEY_SIZE];
	unsigned char public[32];
	unsigned char secret[64]; /* libsodium's form: the seed, then the public key */
};

/* Reads the store's key; `state_fd` is the store's directory. -ENOENT without a message if the
 * store has no key. */
int audit_key_read(int state_fd, struct audit_key *ret, struct atoll_error *err);
/* The same, and creates the key if the store has none. */
int audit_key_load(int state_fd, struct audit_key *ret, struct atoll_error *err);
/* Overwrites the key in memory. */
void audit_key_done(struct audit_key *key);
/* Generates a key for `store`, or for a new store if that is NULL. Writes no file. */
void audit_key_make(const char *store, struct audit_key *ret);
/* Write the key into keys/. The private key gets a temporary name, `ret_path`; the caller renames
 * the file to keys/key.pem. */
int audit_key_write_public(int state_fd, const struct audit_key *key, struct atoll_error *err);
int audit_key_write_private(int state_fd, const struct audit_key *key, char ret_path[64],
			    struct atoll_error *err);
/* Writes a file (mode 0600) and flushes it to the disk. Removes the file on failure. */
int audit_key_write_file(int state_fd, const char *path, const struct buf *text,
			 struct atoll_error *err);
