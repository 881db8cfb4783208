/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The Merkle tree of RFC 6962 over the lines of a log
 *
 * struct audit_edge is the right edge of a tree (section 2.1): `nodes[k]` is the root over 2^k
 * leaves, and is valid if bit k of `size` is set. The edge is all that is needed to add a leaf.
 */
struct audit_edge {
	uint64_t size;
	unsigned char nodes[64][HASH_SIZE];
};

void audit_leaf(const void *line, size_t size, unsigned char ret[HASH_SIZE]);
void audit_node(const unsigned char left[HASH_SIZE], const unsigned char right[HASH_SIZE],
		unsigned char ret[HASH_SIZE]);
void audit_edge_add(struct audit_edge *edge, const unsigned char leaf[HASH_SIZE]);
void audit_edge_root(const struct audit_edge *edge, unsigned char ret[HASH_SIZE]);

/*
 * A position in a log: the edge, the number of bytes before the position, and the hash of the last
 * line before it. As text: "edge SIZE BYTES HASH NODE,NODE...", largest trees first, no newline.
 */
struct audit_place {
	struct audit_edge edge;
	uint64_t bytes;
	unsigned char prev[HASH_SIZE];
};
void audit_place_format(const struct audit_place *place, struct buf *out);
/* False if `text` is not in this form; `ret` may be partly filled then. */
bool audit_place_parse(const char *text, size_t size, struct audit_place *ret);

/*
 * Proofs over `n` leaves (RFC 6962, 2.1.1 and 2.1.2). audit_prove_...() write at most 64
 * (inclusion) or 128 (consistency) hashes to `ret` and return their number. audit_check_...()
 * compute the roots from the proof and compare them with the given ones.
 */
#define AUDIT_PROOF_MAX 128
void audit_tree_root(const unsigned char (*leaves)[HASH_SIZE], uint64_t n,
		     unsigned char ret[HASH_SIZE]);
size_t audit_prove_inclusion(const unsigned char (*leaves)[HASH_SIZE], uint64_t n, uint64_t index,
			     unsigned char ret[AUDIT_PROOF_MAX][HASH_SIZE]);
size_t audit_prove_consistency(const unsigned char (*leaves)[HASH_SIZE], uint64_t n, uint64_t old,
			       unsigned char ret[AUDIT_PROOF_MAX][HASH_SIZE]);
bool audit_check_inclusion(const unsigned char leaf[HASH_SIZE], uint64_t index, uint64_t size,
			   const unsigned char (*proof)[HASH_SIZE], size_t n,
			   const unsigned char root[HASH_SIZE]);
bool audit_check_consistency(uint64_t old_size, const unsigned char old_root[HASH_SIZE],
			     uint64_t size, const unsigned char root[HASH_SIZE],
			     const unsigned char (*proof)[HASH_SIZE], size_t n);
