/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/patch.h"

#include "base/buf.h"
#include "base/hash.h"

#include <sha1.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* git names a blob by the SHA-1 of its header and content. Nothing here relies on the strength of
 * SHA-1. */
void patch_blob_name(const void *data, size_t size, char ret[PATCH_NAME_SIZE])
{
	uint8_t digest[SHA1_DIGEST_LENGTH];
	SHA1_CTX sha1;
	char head[32];

	SHA1Init(&sha1);
	SHA1Update(&sha1, (const uint8_t *)head,
		   (size_t)snprintf(head, sizeof head, "blob %zu", size) + 1);
	SHA1Update(&sha1, data, size);
	SHA1Final(digest, &sha1);
	hash_to_hex(digest, sizeof digest, ret);
}

/* The four bytes as a number, the most significant byte first. */
static uint32_t read_word(const unsigned char *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
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
