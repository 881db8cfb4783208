/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct atoll_error;

/*
 * Event logs and signed heads, checked by src/audit/, for receipts
 *
 * A separate file, because audit/audit.h includes base/json.h, and that and <jansson.h> both define
 * json_null().
 */

#define CHECKED_KEYS_MAX 256

struct checked_keys {
	struct {
		unsigned char public[32];
		char id[17];
	} keys[CHECKED_KEYS_MAX];
	size_t n;
};

/* Loads the trusted keys: the key in the file `path`, in any form that `atoll key show` prints;
 * with NULL the store's own key, and the keys before it. */
int checked_keys_load(const char *path, struct checked_keys *ret, struct atoll_error *err);

struct checked_log {
	char run[16];
	char store[17];
	char what[16];	    /* "run", "sandbox" */
	char key[17];	    /* the key that signed the latest head */
	uint64_t head_size; /* the number of lines before that head */
	unsigned char head_root[32];
	bool is_closed;
};

/* Checks the chain and the signatures of a log. -EBADMSG, or -EKEYREJECTED if only the key is not
 * trusted. An incomplete last line is not an error. */
int checked_log(const char *path, const struct checked_keys *keys, struct checked_log *ret,
		struct atoll_error *err);

/* Checks that a signed note of a head is signed by a trusted key. Fills in store, run, key,
 * head_size and head_root. */
int checked_note(const char *note, const struct checked_keys *keys, struct checked_log *ret,
		 struct atoll_error *err);

/* The path of the store. */
int checked_store_path(char ret[PATH_MAX], struct atoll_error *err);

/* A Merkle tree over `n` leaf hashes: its root, and the proof that the leaf `index` is in the tree.
 * checked_prove() returns the number of hashes in the proof, at most 64. */
void checked_leaf(const void *data, size_t size, unsigned char ret[32]);
size_t checked_prove(const unsigned char (*leaves)[32], uint64_t n, uint64_t index,
		     unsigned char ret_root[32], unsigned char (*ret_proof)[32]);
