/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/scope.h"
#include "base/test.h"
#include "http/http.h"

#include <string.h>

static struct ws_frame frame;
static const char *why;

static enum http_result read_frame(const char *data, size_t size)
{
	return ws_read(data, size, &frame, &why);
}

TEST(heads_of_frames_are_read_as_they_are_written)
{
	static const uint64_t sizes[] = {0, 1, 125, 126, 65535, 65536, UINT64_C(1) << 40};

	for (size_t i = 0; i < 7; i++) {
		cleanup_buf struct buf head = BUF_INIT(64);

		ws_write_head(&head, WS_TEXT, i % 2, sizes[i]);
		for (size_t n = 0; n < head.used; n++)
			CHECK(read_frame(head.data, n) == HTTP_MORE);
		CHECK(read_frame(head.data, head.used) == HTTP_OK);
		CHECK(frame.opcode == WS_TEXT && frame.is_final == (i % 2) &&
		      frame.size == sizes[i]);
		CHECK_INT(frame.head_size, head.used);
	}
}

TEST(frames_that_no_server_may_send_are_bad)
{
	CHECK(read_frame("\x81\x81", 2) == HTTP_BAD);
	CHECK_STR(why, "a masked frame");
	CHECK(read_frame("\xc1\x01", 2) == HTTP_BAD);
	CHECK_STR(why, "a frame of an extension that was not negotiated");
	CHECK(read_frame("\x83\x01", 2) == HTTP_BAD);
	CHECK_STR(why, "a frame of an unknown kind");
	CHECK(read_frame("\x09\x01", 2) == HTTP_BAD);
	CHECK_STR(why, "a control frame that is too long or in parts");
	CHECK(read_frame("\x89\x7e\x00\x7e", 4) == HTTP_BAD);
	CHECK(read_frame("\x82\x7e\x00\x7d", 4) == HTTP_BAD);
	CHECK_STR(why, "a frame with a wrong length");
	CHECK(read_frame("\x82\x7f\x80\x00\x00\x00\x00\x01\x00\x00", 10) == HTTP_BAD);
}
