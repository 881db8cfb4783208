/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/merkle.h"
#include "base/str.h"
#include "base/test.h"

#include <stdlib.h>

/* The leaves and roots that implementations of RFC 6962 are tried with. */
static const struct {
	const char *leaf; /* in hex */
	const char *root; /* of the tree up to it */
} known[] = {
	{"", "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"},
	{"00", "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"},
	{"10", "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"},
	{"2021", "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"},
	{"3031", "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4"},
	{"40414243", "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef"},
	{"5051525354555657", "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c"},
	{"606162636465666768696a6b6c6d6e6f",
	 "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"},
};

#define NODE_1	"96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
#define NODE_23 "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
#define NODE_47 "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
#define NODE_4	"bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
#define NODE_67 "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
#define NODE_03 "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"
#define NODE_45 "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"

static void known_leaves(unsigned char ret[8][HASH_SIZE])
{
	for (size_t i = 0; i < 8; i++) {
		size_t size = strlen(known[i].leaf) / 2;
		unsigned char data[16];

		CHECK(hash_from_hex(known[i].leaf, size, data));
		audit_leaf(data, size, ret[i]);
	}
}

static void check_hashes(unsigned char (*have)[HASH_SIZE], size_t n, const char *const *want)
{
	char hex[HASH_HEX_SIZE];

	for (size_t i = 0; i < n; i++) {
		CHECK(want[i]);
		hash_to_hex(have[i], HASH_SIZE, hex);
		CHECK_STR(hex, want[i]);
	}
	CHECK(!want[n]);
}

TEST(roots_are_those_of_the_standard)
{
	unsigned char leaves[8][HASH_SIZE], root[HASH_SIZE];
	struct audit_edge edge = {0};
	char hex[HASH_HEX_SIZE];

	audit_edge_root(&edge, root);
	hash_to_hex(root, HASH_SIZE, hex);
	CHECK_STR(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	known_leaves(leaves);
	for (size_t i = 0; i < 8; i++) {
		audit_edge_add(&edge, leaves[i]);
		audit_edge_root(&edge, root);
		hash_to_hex(root, HASH_SIZE, hex);
		CHECK_STR(hex, known[i].root);
	}
}

TEST(proofs_are_those_of_the_standard)
{
	unsigned char leaves[8][HASH_SIZE], proof[AUDIT_PROOF_MAX][HASH_SIZE];
	const void *all = leaves;
	size_t n;

	known_leaves(leaves);
	n = audit_prove_inclusion(all, 8, 0, proof);
	check_hashes(proof, n, (const char *const[]){NODE_1, NODE_23, NODE_47, NULL});
	n = audit_prove_inclusion(all, 8, 5, proof);
	check_hashes(proof, n, (const char *const[]){NODE_4, NODE_67, NODE_03, NULL});
	n = audit_prove_consistency(all, 8, 1, proof);
	check_hashes(proof, n, (const char *const[]){NODE_1, NODE_23, NODE_47, NULL});
	n = audit_prove_consistency(all, 8, 6, proof);
	check_hashes(proof, n, (const char *const[]){NODE_45, NODE_67, NODE_03, NULL});
	n = audit_prove_consistency(all, 5, 2, proof);
	check_hashes(proof, n, (const char *const[]){NODE_23, NODE_4, NULL});
}

#define MANY 70

static void some_leaves(unsigned char ret[MANY][HASH_SIZE])
{
	for (unsigned i = 0; i < MANY; i++)
		audit_leaf(&i, sizeof i, ret[i]);
}

TEST(a_proof_of_inclusion_holds_for_its_leaf_and_no_other)
{
	unsigned char leaves[MANY][HASH_SIZE], proof[AUDIT_PROOF_MAX][HASH_SIZE], root[HASH_SIZE];
	const void *all = leaves, *hashes = proof;

	some_leaves(leaves);
	for (uint64_t size = 1; size <= MANY; size++) {
		audit_tree_root(all, size, root);
		for (uint64_t i = 0; i < size; i++) {
			size_t n = audit_prove_inclusion(all, size, i, proof);

			CHECK(audit_check_inclusion(leaves[i], i, size, hashes, n, root));
			CHECK(!audit_check_inclusion(leaves[(i + 1) % MANY], i, size, hashes, n,
						     root));
			CHECK(!audit_check_inclusion(leaves[i], i + 1, size, hashes, n, root));
			CHECK(!audit_check_inclusion(leaves[i], i, size, hashes, n + 1, root));
			CHECK(n == 0 ||
			      !audit_check_inclusion(leaves[i], i, size, hashes, n - 1, root));
			if (n == 0)
				continue;
			proof[n / 2][7] ^= 1;
			CHECK(!audit_check_inclusion(leaves[i], i, size, hashes, n, root));
		}
	}
}

TEST(a_proof_of_consistency_holds_for_its_beginning_and_no_other)
{
	unsigned char leaves[MANY][HASH_SIZE], proof[AUDIT_PROOF_MAX][HASH_SIZE], root[HASH_SIZE],
		old_root[HASH_SIZE];
	const void *all = leaves, *hashes = proof;

	some_leaves(leaves);
	for (uint64_t size = 1; size <= MANY; size++) {
		audit_tree_root(all, size, root);
		for (uint64_t old = 1; old <= size; old++) {
			size_t n = audit_prove_consistency(all, size, old, proof);

			audit_tree_root(all, old, old_root);
			CHECK(audit_check_consistency(old, old_root, size, root, hashes, n));
			CHECK(!audit_check_consistency(old - 1, old_root, size, root, hashes, n));
			CHECK(!audit_check_consistency(old, old_root, size, root, hashes, n + 1));
			old_root[3] ^= 1;
			CHECK(!audit_check_consistency(old, old_root, size, root, hashes, n));
			old_root[3] ^= 1;
			if (n == 0)
				continue;
			CHECK(!audit_check_consistency(old, old_root, size, root, hashes, n - 1));
			proof[n / 2][7] ^= 1;
			CHECK(!audit_check_consistency(old, old_root, size, root, hashes, n));
		}
	}
}

TEST(an_edge_survives_being_written_and_read)
{
	struct audit_place place = {.bytes = 12345}, again;
	unsigned char root[HASH_SIZE], other[HASH_SIZE];
	struct buf text = BUF_INIT(8192);

	for (unsigned i = 0; i < 1000; i++) {
		audit_leaf(&i, sizeof i, place.prev);
		audit_edge_add(&place.edge, place.prev);
		text.used = 0;
		audit_place_format(&place, &text);
		memset(&again, 0, sizeof again);
		CHECK(audit_place_parse(text.data, text.used, &again));
		CHECK(again.bytes == 12345 && again.edge.size == i + 1);
		CHECK(memcmp(again.prev, place.prev, HASH_SIZE) == 0);
		audit_edge_root(&place.edge, root);
		audit_edge_root(&again.edge, other);
		CHECK(memcmp(root, other, HASH_SIZE) == 0);
		CHECK(!audit_place_parse(text.data, text.used - 1, &again));
	}
	buf_done(&text);
}
