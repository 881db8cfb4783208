/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

/*
 * SHA-256 with the processor's instructions for it (x86-64)
 *
 * SHA256RNDS2 does two rounds on the state, which it wants as two vectors of the words {A,B,E,F}
 * and {C,D,G,H}; SHA256MSG1 and SHA256MSG2 make four more words of the message schedule of the
 * sixteen before. So a block is sixteen steps of four rounds, and the schedule is kept in a ring of
 * four vectors.
 */

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/auxv.h>

static const uint32_t constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2};

/* The kernel has told us that we may use instructions of leaf 7, so there is one. */
#define HAS_FSGSBASE 2

bool hash_has_instructions(void)
{
	unsigned a, b, c, d;

	/* Where a hypervisor answers, each question takes 5 us, and the usual way asks four. */
	if (getauxval(AT_HWCAP2) & HAS_FSGSBASE) {
		__cpuid_count(7, 0, a, b, c, d);
		if (!(b & bit_SHA))
			return false;
		__cpuid(1, a, b, c, d);
		return c & bit_SSSE3 && c & bit_SSE4_1;
	}
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSSE3) || !(c & bit_SSE4_1))
		return false;
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

#define FOR_SHA __attribute__((target("sha,ssse3,sse4.1")))

static inline FOR_SHA __m128i load_words(const unsigned char *data)
{
	const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);

	return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)data), big_endian);
}

static inline FOR_SHA void one_block(__m128i *abef, __m128i *cdgh, const unsigned char *data)
{
	__m128i words[4], x = *abef, y = *cdgh;

	for (int i = 0; i < 4; i++)
		words[i] = load_words(data + (ptrdiff_t)16 * i);
#pragma GCC unroll 16
	for (int i = 0; i < 16; i++) {
		__m128i now = words[i % 4], last = words[(i + 3) % 4];
		__m128i sum = _mm_add_epi32(
			now, _mm_loadu_si128((const __m128i *)(const void *)(constants +
									     (ptrdiff_t)4 * i)));

		y = _mm_sha256rnds2_epu32(y, x, sum);
		x = _mm_sha256rnds2_epu32(x, y, _mm_shuffle_epi32(sum, 0x0e));
		if (i >= 12)
			continue;
		sum = _mm_sha256msg1_epu32(now, words[(i + 1) % 4]);
		sum = _mm_add_epi32(sum, _mm_alignr_epi8(last, words[(i + 2) % 4], 4));
		words[i % 4] = _mm_sha256msg2_epu32(sum, last);
	}
	*abef = _mm_add_epi32(*abef, x);
	*cdgh = _mm_add_epi32(*cdgh, y);
}

FOR_SHA void hash_compress(uint32_t state[8], const unsigned char *data, size_t n_blocks)
{
	/* The highest word stands first in these. */
	__m128i abef = _mm_set_epi32((int)state[0], (int)state[1], (int)state[4], (int)state[5]);
	__m128i cdgh = _mm_set_epi32((int)state[2], (int)state[3], (int)state[6], (int)state[7]);

	for (; n_blocks > 0; n_blocks--, data += 64)
		one_block(&abef, &cdgh, data);
	state[0] = (uint32_t)_mm_extract_epi32(abef, 3);
	state[1] = (uint32_t)_mm_extract_epi32(abef, 2);
	state[4] = (uint32_t)_mm_extract_epi32(abef, 1);
	state[5] = (uint32_t)_mm_extract_epi32(abef, 0);
	state[2] = (uint32_t)_mm_extract_epi32(cdgh, 3);
	state[3] = (uint32_t)_mm_extract_epi32(cdgh, 2);
	state[6] = (uint32_t)_mm_extract_epi32(cdgh, 1);
	state[7] = (uint32_t)_mm_extract_epi32(cdgh, 0);
}

#else

bool hash_has_instructions(void)
{
	return false;
}

void hash_compress(uint32_t state[8], const unsigned char *data, size_t n_blocks)
{
	(void)state, (void)data, (void)n_blocks; /* never called: see above */
}

#endif
