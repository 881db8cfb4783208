/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/patch.h"

#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- SHA-1, which git names its objects by (FIPS 180-4); nothing here relies on its strength ----
 */

struct sha1 {
	uint32_t state[5];
	uint64_t size;
	unsigned char block[64];
};

static uint32_t rotate(uint32_t value, unsigned n)
{
	return value << n | value >> (32 - n);
}

static uint32_t read_word(const unsigned char *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static uint32_t mix(unsigned round, uint32_t b, uint32_t c, uint32_t d)
{
	if (round < 20)
		return ((b & c) | (~b & d)) + 0x5a827999;
	if (round < 40)
		return (b ^ c ^ d) + 0x6ed9eba1;
	if (round < 60)
		return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
	return (b ^ c ^ d) + 0xca62c1d6;
}

static void sha1_block(struct sha1 *sha1, const unsigned char *block)
{
	uint32_t w[80], s[5];

	for (unsigned i = 0; i < 16; i++)
		w[i] = read_word(block + (size_t)4 * i);
	for (unsigned i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	memcpy(s, sha1->state, sizeof s);
	for (unsigned i = 0; i < 80; i++) {
		uint32_t next = rotate(s[0], 5) + mix(i, s[1], s[2], s[3]) + s[4] + w[i];

		s[4] = s[3];
		s[3] = s[2];
		s[2] = rotate(s[1], 30);
		s[1] = s[0];
		s[0] = next;
	}
	for (unsigned i = 0; i < 5; i++)
		sha1->state[i] += s[i];
}

static void sha1_add(struct sha1 *sha1, const void *data, size_t size)
{
	const unsigned char *bytes = data;

	while (size > 0) {
		size_t used = sha1->size % 64, part = 64 - used < size ? 64 - used : size;

		memcpy(sha1->block + used, bytes, part);
		sha1->size += part;
		bytes += part;
		size -= part;
		if (sha1->size % 64 == 0)
			sha1_block(sha1, sha1->block);
	}
}

static void sha1_end(struct sha1 *sha1)
{
	uint64_t bits = sha1->size * 8;
	unsigned char length[8];

	sha1_add(sha1, "\x80", 1);
	while (sha1->size % 64 != 56)
		sha1_add(sha1, "", 1);
	for (unsigned i = 0; i < 8; i++)
		length[i] = (unsigned char)(bits >> (56 - 8 * i));
	sha1_add(sha1, length, sizeof length);
}

void patch_blob_name(const void *data, size_t size, char ret[PATCH_NAME_SIZE])
{
	struct sha1 sha1 = {{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}, 0, {0}};
	char head[32];

	sha1_add(&sha1, head, (size_t)snprintf(head, sizeof head, "blob %zu", size) + 1);
	sha1_add(&sha1, data, size);
	sha1_end(&sha1);
	for (unsigned i = 0; i < 5; i++)
		snprintf(ret + (size_t)8 * i, 9, "%08x", sha1.state[i]);
}

/* ---- lines of base 85, each with its length in front ---- */

#define LINE_BYTES 52

struct lines {
	struct buf *out;
	unsigned char held[LINE_BYTES];
	size_t n_held;
};

static void end_line(struct lines *lines)
{
	static const char digits[] =
		"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		"!#$%&()*+-;<=>?@^_`{|}~";
	size_t n = lines->n_held;

	if (n == 0)
		return;
	buf_add_char(lines->out, (char)(n <= 26 ? 'A' + n - 1 : 'a' + n - 27));
	memset(lines->held + n, 0, LINE_BYTES - n);
	for (size_t i = 0; i < n; i += 4) {
		uint32_t word = read_word(lines->held + i);
		char group[5];

		for (unsigned k = 5; k-- > 0; word /= 85)
			group[k] = digits[word % 85];
		buf_add(lines->out, group, sizeof group);
	}
	buf_add_char(lines->out, '\n');
	lines->n_held = 0;
}

static void put(struct lines *lines, const unsigned char *bytes, size_t size)
{
	while (size > 0) {
		size_t room = LINE_BYTES - lines->n_held, part = room < size ? room : size;

		memcpy(lines->held + lines->n_held, bytes, part);
		lines->n_held += part;
		bytes += part;
		size -= part;
		if (lines->n_held == LINE_BYTES)
			end_line(lines);
	}
}

/* ---- a zlib stream of blocks that are stored as they are (RFC 1950, 1951) ---- */

static uint32_t adler(const unsigned char *bytes, size_t size)
{
	uint32_t a = 1, b = 0;

	for (size_t i = 0; i < size; i++) {
		a = (a + bytes[i]) % 65521;
		b = (b + a) % 65521;
	}
	return b << 16 | a;
}

static void put_stream(struct lines *lines, const unsigned char *bytes, size_t size)
{
	uint32_t sum = adler(bytes, size);

	put(lines, (const unsigned char[]){0x78, 0x01}, 2);
	do {
		size_t part = size < 65535 ? size : 65535;
		unsigned char head[5] = {part == size, part & 255, (unsigned char)(part >> 8),
					 ~part & 255, (unsigned char)(~part >> 8)};

		put(lines, head, sizeof head);
		put(lines, bytes, part);
		bytes += part;
		size -= part;
	} while (size > 0);
	put(lines,
	    (const unsigned char[]){(unsigned char)(sum >> 24), (unsigned char)(sum >> 16),
				    (unsigned char)(sum >> 8), (unsigned char)sum},
	    4);
}

void patch_add_literal(struct buf *out, const void *data, size_t size)
{
	struct lines lines = {.out = out};

	buf_addf(out, "GIT binary patch\nliteral %zu\n", size);
	put_stream(&lines, data, size);
	end_line(&lines);
	buf_add_char(out, '\n');
}
