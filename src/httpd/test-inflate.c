/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "httpd/inflate.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

static size_t pack(const void *data, size_t size, unsigned char *out, size_t room)
{
	z_stream stream = {0};

	CHECK(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8, 0) == Z_OK);
	stream.next_in = (Bytef *)data;
	stream.avail_in = (unsigned)size;
	stream.next_out = out;
	stream.avail_out = (unsigned)room;
	CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
	deflateEnd(&stream);
	return room - stream.avail_out;
}

/* Unpacks all, with `step` bytes of input and `room` bytes of output at a time. Returns the size of
 * the output or the error. */
static ssize_t unpack(struct inflater *inflater, const unsigned char *data, size_t size,
		      size_t step, size_t room, char *out)
{
	size_t made = 0;

	for (size_t i = 0; i < size;) {
		size_t left = size - i < step ? size - i : step, used;
		ssize_t n = inflate_step(inflater, data + i, left, &used, out + made, room);

		if (n < 0)
			return n;
		i += used;
		made += (size_t)n;
		CHECK(used > 0 || n > 0);
		while (inflate_has_more(inflater)) {
			n = inflate_step(inflater, NULL, 0, &used, out + made, room);
			if (n < 0)
				return n;
			made += (size_t)n;
		}
	}
	return (ssize_t)made;
}

TEST(what_was_packed_comes_out)
{
	static char text[100000], out[200000];
	static unsigned char packed[100000];
	size_t size;

	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (char)("abcdefg"[i % 7] + (char)(i / 977 % 11));
	size = pack(text, sizeof text, packed, sizeof packed);
	for (size_t step = 1; step < size + 100; step = step * 3 + 1) {
		struct inflater *inflater = inflate_new(sizeof text);

		CHECK_INT(unpack(inflater, packed, size, step, 4096, out), sizeof text);
		CHECK(memcmp(text, out, sizeof text) == 0);
		CHECK(inflate_is_complete(inflater));
		inflate_free(inflater);
	}
}

TEST(members_are_one)
{
	unsigned char packed[256];
	size_t size = pack("one", 3, packed, sizeof packed);
	struct inflater *inflater = inflate_new(100);
	char out[100] = "";

	size += pack("two", 3, packed + size, sizeof packed - size);
	CHECK_INT(unpack(inflater, packed, size, 5, 50, out), 6);
	CHECK_STR(out, "onetwo");
	CHECK(inflate_is_complete(inflater));
	inflate_free(inflater);
}

TEST(a_bomb_has_a_limit)
{
	static char zeros[1 << 20];
	static unsigned char packed[1 << 16];
	size_t size = pack(zeros, sizeof zeros, packed, sizeof packed);
	struct inflater *inflater = inflate_new(sizeof zeros - 1);
	char *out = malloc(sizeof zeros + 4096);

	CHECK_INT(unpack(inflater, packed, size, size, 4096, out), -E2BIG);
	inflate_free(inflater);
	free(out);
}

TEST(what_is_no_gzip_is_bad)
{
	unsigned char packed[256];
	size_t size = pack("hello", 5, packed, sizeof packed);
	struct inflater *inflater = inflate_new(100);
	char out[100];

	CHECK(inflate_is_complete(inflater));
	CHECK_INT(unpack(inflater, (const unsigned char *)"hello", 5, 5, 50, out), -EBADMSG);
	inflate_free(inflater);

	inflater = inflate_new(100);
	CHECK_INT(unpack(inflater, packed, size - 1, 5, 50, out), 5);
	CHECK(!inflate_is_complete(inflater));
	inflate_free(inflater);

	inflater = inflate_new(100);
	packed[size++] = 'x';
	CHECK_INT(unpack(inflater, packed, size, 500, 50, out), 5);
	CHECK(!inflate_is_complete(inflater));
	packed[size - 5] ^= 1;
	inflate_free(inflater);

	inflater = inflate_new(100);
	CHECK_INT(unpack(inflater, packed, size, 500, 50, out), -EBADMSG);
	inflate_free(inflater);
}
