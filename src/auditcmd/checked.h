/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct atoll_error;

/*
 * What the library knows about logs, for receipts
 *
 * A header of its own because that of the library's room and <jansson.h> cannot be included
 * together.
 */

#define CHECKED_KEYS_MAX 256

struct checked_keys {
	struct {
		unsigned char public[32];
		char id[17];
	} keys[CHECKED_KEYS_MAX];
	size_t n;
};

/* Keys that count: the one in the file `path`, in any form that `atoll key show` prints; with NULL
 * the store's own, and those that it has taken over from. */
int checked_keys_load(const char *path, struct checked_keys *ret, struct atoll_error *err);

struct checked_log {
	char run[16];
	char store[17];
	char what[16];	    /* "run", "sandbox" */
	char key[17];	    /* that signed the latest head */
	uint64_t head_size; /* how many lines that stands for */
	unsigned char head_root[32];
	bool is_closed;
};

/* Check all of a log, chain and signatures. -EBADMSG, or -EKEYREJECTED if only the key is not one
 * that counts. A half line at the end is no failure. */
int checked_log(const char *path, const struct checked_keys *keys, struct checked_log *ret,
		struct atoll_error *err);

/* A head's signed note: is it signed by a key that counts, and what does it say? `ret` has store,
 * run, key, head_size and head_root. */
int checked_note(const char *note, const struct checked_keys *keys, struct checked_log *ret,
		 struct atoll_error *err);

/* The store's directory. */
int checked_store_path(char ret[PATH_MAX], struct atoll_error *err);

/* A Merkle tree of `n` leaves, given by their hashes: its root, and the proof that the leaf `index`
 * is in it, at most 64 hashes. */
void checked_leaf(const void *data, size_t size, unsigned char ret[32]);
size_t checked_prove(const unsigned char (*leaves)[32], uint64_t n, uint64_t index,
		     unsigned char ret_root[32], unsigned char (*ret_proof)[32]);
