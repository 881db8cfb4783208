/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/scope.h"
#include "base/test.h"
#include "egress/decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Window bits as of zlib: 31 gzip, 15 zlib, -15 neither. */
static size_t compress_as(int bits, const char *text, size_t size, char *ret, size_t room)
{
	z_stream zlib = {0};

	CHECK(deflateInit2(&zlib, 9, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	zlib.next_in = (Bytef *)text;
	zlib.avail_in = (uInt)size;
	zlib.next_out = (Bytef *)ret;
	zlib.avail_out = (uInt)room;
	CHECK(deflate(&zlib, Z_FINISH) == Z_STREAM_END);
	deflateEnd(&zlib);
	return room - zlib.avail_out;
}

/* In pieces of `step` bytes; 0, or the error. */
static int decode(enum coding coding, const char *data, size_t size, size_t step, struct buf *out)
{
	struct decoder *decoder = decoder_new(coding);
	size_t at = 0;
	int r = 0;

	CHECK(decoder);
	while (at < size && r >= 0) {
		size_t n = size - at < step ? size - at : step, used;

		do {
			r = decoder_step(decoder, data + at, n, &used, out);
			at += used;
			n -= used;
		} while (r > 0);
	}
	if (r == 0 && !decoder_is_done(decoder))
		r = -EPIPE;
	decoder_free(decoder);
	return r;
}

TEST(gzip_and_deflate_are_decompressed_wherever_pieces_are_cut)
{
	static const struct {
		int bits;
		enum coding coding;
	} kinds[] = {{31, CODING_GZIP}, {15, CODING_DEFLATE}, {-15, CODING_DEFLATE}};
	static const char text[] = "the value is sk-secret12 and again sk-secret12\n";

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		for (size_t step = 1; step < 80; step++) {
			cleanup_buf struct buf out = BUF_INIT(1 << 20);
			char packed[256];
			size_t n = compress_as(kinds[i].bits, text, strlen(text), packed,
					       sizeof packed);

			CHECK_INT(decode(kinds[i].coding, packed, n, step, &out), 0);
			CHECK_STR(out.data, text);
			out.used = 0;
			CHECK_INT(decode(kinds[i].coding, packed, n - 1, step, &out), -EPIPE);
		}
}

TEST(streams_of_gzip_may_follow_each_other_and_what_is_behind_is_dropped)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 20);
	char packed[512] = {0};
	size_t n = compress_as(31, "one ", 4, packed, 200);

	n += compress_as(31, "two", 3, packed + n, 200);
	CHECK_INT(decode(CODING_GZIP, packed, n, 7, &out), 0);
	CHECK_STR(out.data, "one two");
	out.used = 0;
	CHECK_INT(decode(CODING_GZIP, packed, n + 20, 500, &out), 0);
	CHECK_STR(out.data, "one two");
}

TEST(what_is_not_compressed_is_an_error)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 20);

	CHECK_INT(decode(CODING_GZIP, "plain text", 10, 10, &out), -EBADMSG);
	CHECK_INT(decode(CODING_GZIP, "", 0, 10, &out), 0);
}

TEST(a_bomb_comes_out_in_pieces)
{
	const size_t size = 32 << 20;
	cleanup_free char *zeros = calloc(1, size), *packed = malloc(1 << 20);
	size_t n = compress_as(31, zeros, size, packed, 1 << 20), at = 0, total = 0, used;
	struct decoder *decoder = decoder_new(CODING_GZIP);
	int r = 1;

	while (r > 0) {
		cleanup_buf struct buf out = BUF_INIT(DECODE_PIECE + 1);

		r = decoder_step(decoder, packed + at, n - at, &used, &out);
		CHECK(r >= 0 && out.used <= DECODE_PIECE);
		at += used;
		total += out.used;
	}
	CHECK_INT(total, size);
	decoder_free(decoder);
}
