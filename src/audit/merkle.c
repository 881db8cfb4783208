/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/merkle.h"

#include "audit/note.h"
#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* The Merkle tree of RFC 6962. Leaves and nodes are hashed with different first bytes, so that
 * neither can pass for the other. */

void audit_leaf(const void *line, size_t size, unsigned char ret[HASH_SIZE])
{
	struct hash hash;

	hash_init(&hash);
	hash_update(&hash, "\0", 1);
	hash_update(&hash, line, size);
	hash_final(&hash, ret);
}

void audit_node(const unsigned char left[HASH_SIZE], const unsigned char right[HASH_SIZE],
		unsigned char ret[HASH_SIZE])
{
	unsigned char both[1 + 2 * HASH_SIZE] = {1};

	memcpy(both + 1, left, HASH_SIZE);
	memcpy(both + 1 + HASH_SIZE, right, HASH_SIZE);
	hash_sha256(both, sizeof both, ret);
}

/* ---- the edge ---- */

void audit_edge_add(struct audit_edge *edge, const unsigned char leaf[HASH_SIZE])
{
	unsigned char carry[HASH_SIZE];
	unsigned level = 0;

	/* Like a carry in binary addition: two trees of the same size become one. */
	memcpy(carry, leaf, HASH_SIZE);
	for (; edge->size >> level & 1; level++)
		audit_node(edge->nodes[level], carry, carry);
	memcpy(edge->nodes[level], carry, HASH_SIZE);
	edge->size++;
}

void audit_edge_root(const struct audit_edge *edge, unsigned char ret[HASH_SIZE])
{
	unsigned level = 0;

	if (edge->size == 0) {
		hash_sha256("", 0, ret);
		return;
	}
	while (!(edge->size >> level & 1))
		level++;
	memcpy(ret, edge->nodes[level], HASH_SIZE);
	for (level++; level < 64; level++) {
		if (edge->size >> level & 1)
			audit_node(edge->nodes[level], ret, ret);
	}
}

void audit_place_format(const struct audit_place *place, struct buf *out)
{
	char hex[HASH_HEX_SIZE];
	char before = ' ';

	hash_to_hex(place->prev, HASH_SIZE, hex);
	buf_addf(out, "edge %" PRIu64 " %" PRIu64 " %s", place->edge.size, place->bytes, hex);
	for (unsigned level = 64; level-- > 0;) {
		if (!(place->edge.size >> level & 1))
			continue;
		buf_add_char(out, before);
		audit_base64(place->edge.nodes[level], HASH_SIZE, out);
		before = ',';
	}
}

/* Reads a decimal number without leading zeros, and the character after it. */
static const char *read_number(const char *text, char behind, uint64_t *ret)
{
	char *end;

	if (*text < '0' || *text > '9' || (*text == '0' && text[1] != behind))
		return NULL;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return errno == 0 && *end == behind ? end + 1 : NULL;
}

bool audit_place_parse(const char *text, size_t size, struct audit_place *ret)
{
	const size_t length = 44; /* of a hash in base64 */
	const char *at = text, *end = text + size;
	char before = ' ';

	if (size < 5 || memcmp(text, "edge ", 5) != 0 ||
	    !(at = read_number(at + 5, ' ', &ret->edge.size)) ||
	    !(at = read_number(at, ' ', &ret->bytes)) || end - at < 2 * HASH_SIZE ||
	    !hash_from_hex(at, HASH_SIZE, ret->prev))
		return false;
	at += 2 * HASH_SIZE;
	for (unsigned level = 64; level-- > 0;) {
		if (!(ret->edge.size >> level & 1))
			continue;
		if ((size_t)(end - at) < 1 + length || *at != before ||
		    !audit_from_base64(at + 1, length, ret->edge.nodes[level], HASH_SIZE))
			return false;
		at += 1 + length;
		before = ',';
	}
	return at == end;
}

/* ---- proofs ---- */

/* The largest power of two that is less than `n`, which is at least 2. */
static uint64_t split(uint64_t n)
{
	uint64_t k = 1;

	while (k < n - k)
		k *= 2;
	return k;
}

void audit_tree_root(const unsigned char (*leaves)[HASH_SIZE], uint64_t n,
		     unsigned char ret[HASH_SIZE])
{
	struct audit_edge edge = {0};

	for (uint64_t i = 0; i < n; i++)
		audit_edge_add(&edge, leaves[i]);
	audit_edge_root(&edge, ret);
}

/* PATH(m, D[n]): computed from the top, so the list is reversed at the end. */
size_t audit_prove_inclusion(const unsigned char (*leaves)[HASH_SIZE], uint64_t n, uint64_t index,
			     unsigned char ret[AUDIT_PROOF_MAX][HASH_SIZE])
{
	size_t count = 0;

	while (n > 1) {
		uint64_t k = split(n);

		if (index < k) {
			audit_tree_root(leaves + k, n - k, ret[count++]);
			n = k;
		} else {
			audit_tree_root(leaves, k, ret[count++]);
			leaves += k;
			index -= k;
			n -= k;
		}
	}
	for (size_t i = 0; i < count / 2; i++) {
		unsigned char other[HASH_SIZE];

		memcpy(other, ret[i], HASH_SIZE);
		memcpy(ret[i], ret[count - 1 - i], HASH_SIZE);
		memcpy(ret[count - 1 - i], other, HASH_SIZE);
	}
	return count;
}

/* SUBPROOF(m, D[n], b). `is_known`: the verifier has the root over these m leaves. */
static size_t subproof(const unsigned char (*leaves)[HASH_SIZE], uint64_t n, uint64_t old,
		       bool is_known, unsigned char (*ret)[HASH_SIZE])
{
	uint64_t k;
	size_t count;

	if (old == n) {
		if (!is_known)
			audit_tree_root(leaves, n, ret[0]);
		return is_known ? 0 : 1;
	}
	k = split(n);
	if (old <= k) {
		count = subproof(leaves, k, old, is_known, ret);
		audit_tree_root(leaves + k, n - k, ret[count]);
	} else {
		count = subproof(leaves + k, n - k, old - k, false, ret);
		audit_tree_root(leaves, k, ret[count]);
	}
	return count + 1;
}

size_t audit_prove_consistency(const unsigned char (*leaves)[HASH_SIZE], uint64_t n, uint64_t old,
			       unsigned char ret[AUDIT_PROOF_MAX][HASH_SIZE])
{
	return old == 0 || old > n ? 0 : subproof(leaves, n, old, true, ret);
}

bool audit_check_inclusion(const unsigned char leaf[HASH_SIZE], uint64_t index, uint64_t size,
			   const unsigned char (*proof)[HASH_SIZE], size_t n,
			   const unsigned char root[HASH_SIZE])
{
	unsigned char have[HASH_SIZE];
	uint64_t last = size - 1;

	if (index >= size)
		return false;
	memcpy(have, leaf, HASH_SIZE);
	for (size_t i = 0; i < n; i++) {
		if (last == 0)
			return false;
		if (index & 1 || index == last) {
			audit_node(proof[i], have, have);
			/* Skip levels where the node has no right neighbour. */
			while (!(index & 1) && index) {
				index >>= 1;
				last >>= 1;
			}
		} else {
			audit_node(have, proof[i], have);
		}
		index >>= 1;
		last >>= 1;
	}
	return last == 0 && memcmp(have, root, HASH_SIZE) == 0;
}

bool audit_check_consistency(uint64_t old_size, const unsigned char old_root[HASH_SIZE],
			     uint64_t size, const unsigned char root[HASH_SIZE],
			     const unsigned char (*proof)[HASH_SIZE], size_t n)
{
	unsigned char old_have[HASH_SIZE], have[HASH_SIZE];
	uint64_t index = old_size - 1, last = size - 1;
	size_t i = 0;

	if (old_size == 0 || old_size > size)
		return false;
	if (old_size == size)
		return n == 0 && memcmp(old_root, root, HASH_SIZE) == 0;
	while (index & 1) {
		index >>= 1;
		last >>= 1;
	}
	/* If the old size is a power of two, the old root is the first node and is not in the
	 * proof. */
	if (index && n == 0)
		return false;
	memcpy(have, index ? proof[i++] : old_root, HASH_SIZE);
	memcpy(old_have, have, HASH_SIZE);
	for (; i < n; i++) {
		if (last == 0)
			return false;
		if (index & 1 || index == last) {
			audit_node(proof[i], old_have, old_have);
			audit_node(proof[i], have, have);
			while (!(index & 1) && index) {
				index >>= 1;
				last >>= 1;
			}
		} else {
			audit_node(have, proof[i], have);
		}
		index >>= 1;
		last >>= 1;
	}
	return last == 0 && memcmp(old_have, old_root, HASH_SIZE) == 0 &&
	       memcmp(have, root, HASH_SIZE) == 0;
}
