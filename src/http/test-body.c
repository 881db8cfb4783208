/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/scope.h"
#include "base/test.h"
#include "http/http.h"

#include <errno.h>
#include <stdlib.h>

/* All of `text`, given in pieces of at most `step` bytes; the content is in `out` then. Returns how
 * much was used, or a negative errno. */
static long read_all(struct body *body, const char *text, size_t size, size_t step, struct buf *out)
{
	size_t used = 0, end = 0;

	while (!body->is_done) {
		struct body_piece piece;
		int r = body_step(body, text + used, end - used, &piece);

		if (r < 0)
			return r;
		buf_add(out, piece.content.at, piece.content.size);
		if (piece.trailers.size > 0 &&
		    http_copy_trailers(piece.trailers.at, piece.trailers.size, out) < 0)
			return -EBADMSG;
		used += piece.used;
		if (r == 0 && piece.used == 0 && end == size)
			break;
		if (r == 0)
			end = end + step < size ? end + step : size;
	}
	return (long)used;
}

static void check_chunked(const char *text, const char *want, long want_used)
{
	for (size_t step = 1; step < 20; step++) {
		cleanup_buf struct buf out = BUF_INIT(4096);
		struct body body;
		long used;

		body_init(&body, HTTP_CHUNKED, 0);
		used = read_all(&body, text, strlen(text), step, &out);
		CHECK_INT(used, want_used);
		if (want)
			CHECK_STR(out.data, want);
		CHECK(body.is_done || !want);
	}
}

TEST(a_length_is_counted)
{
	cleanup_buf struct buf out = BUF_INIT(64);
	struct body body;

	body_init(&body, HTTP_LENGTH, 5);
	CHECK_INT(read_all(&body, "hello, world", 12, 3, &out), 5);
	CHECK_STR(out.data, "hello");
	CHECK(body.is_done);
	body_init(&body, HTTP_LENGTH, 0);
	CHECK(body.is_done);
	body_init(&body, HTTP_NONE, 7);
	CHECK(body.is_done);
}

TEST(chunks_are_taken_apart_wherever_they_are_cut)
{
	check_chunked("5\r\nhello\r\n00A\r\n, world.12\r\n0\r\n\r\nGET", "hello, world.12", 32);
	check_chunked("1\r\nx\r\n0\r\nX-Sum: 7\r\nHost: a\r\n\r\n", "xX-Sum: 7\r\n", 30);
}

/* NET-16 */
TEST(chunk_tricks_are_refused)
{
	check_chunked("5;a=b\r\nhello\r\n0\r\n\r\n", NULL, -EBADMSG);
	check_chunked("5 \r\nhello\r\n0\r\n\r\n", NULL, -EBADMSG);
	check_chunked(" 5\r\nhello\r\n0\r\n\r\n", NULL, -EBADMSG);
	check_chunked("0x5\r\nhello\r\n0\r\n\r\n", NULL, -EBADMSG);
	check_chunked("5\nhello\r\n0\r\n\r\n", NULL, -EBADMSG);
	check_chunked("5\r\nhelloX\r\n0\r\n\r\n", NULL, -EBADMSG);
	check_chunked("5\r\nhello\n0\r\n\r\n", NULL, -EBADMSG);
	check_chunked("\r\n", NULL, -EBADMSG);
	check_chunked("-1\r\n", NULL, -EBADMSG);
	check_chunked("FFFFFFFFFFFFFFFFF\r\n", NULL, -EBADMSG);
	check_chunked("0000000000000000\r\n", NULL, -EBADMSG);
	check_chunked("0\r\nA : b\r\n\r\n", NULL, -EBADMSG);
}

TEST(trailers_have_a_limit)
{
	cleanup_buf struct buf text = BUF_INIT(1 << 20);
	cleanup_buf struct buf out = BUF_INIT(1 << 20);
	struct body body;

	buf_add_str(&text, "0\r\nA: ");
	while (text.used < 2 * HTTP_TRAILERS_MAX)
		buf_add_char(&text, 'x');
	body_init(&body, HTTP_CHUNKED, 0);
	CHECK_INT(read_all(&body, text.data, text.used, 4096, &out), -EBADMSG);
}

TEST(only_some_bodies_end_with_the_connection)
{
	cleanup_buf struct buf out = BUF_INIT(64);
	struct body body;

	body_init(&body, HTTP_TO_END, 0);
	CHECK_INT(read_all(&body, "abc", 3, 1, &out), 3);
	CHECK_INT(body_end(&body), 0);
	body_init(&body, HTTP_LENGTH, 4);
	CHECK_INT(read_all(&body, "abc", 3, 1, &out), 3);
	CHECK_INT(body_end(&body), -EPIPE);
	body_init(&body, HTTP_CHUNKED, 0);
	CHECK_INT(read_all(&body, "1\r\na\r\n", 6, 1, &out), 6);
	CHECK_INT(body_end(&body), -EPIPE);
}
