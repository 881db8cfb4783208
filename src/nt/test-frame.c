/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "nt/frame.h"

#include <errno.h>

TEST(frames_are_read_when_they_are_whole)
{
	uint8_t bytes[NT_FRAME_HEADER + 3];
	struct nt_frame frame;

	CHECK_INT(nt_frame_header(NT_FRAME_OUTPUT, 3, bytes), 0);
	memcpy(bytes + NT_FRAME_HEADER, "abc", 3);
	for (size_t size = 0; size < sizeof bytes; size++)
		CHECK_INT(nt_frame_read(bytes, size, &frame), 0);
	CHECK_INT(nt_frame_read(bytes, sizeof bytes, &frame), sizeof bytes);
	CHECK_INT(frame.type, NT_FRAME_OUTPUT);
	CHECK_INT(frame.size, 3);
	CHECK(memcmp(frame.payload, "abc", 3) == 0);
}

TEST(bad_lengths_and_types_end_the_connection_at_once)
{
	struct nt_frame frame;

	CHECK_INT(nt_frame_read((const uint8_t[]){0, 0, 0, 0}, 4, &frame), -EPROTO);
	CHECK_INT(nt_frame_read((const uint8_t[]){1, 0, 16, 0}, 4, &frame), -EPROTO);
	CHECK_INT(nt_frame_read((const uint8_t[]){9, 0, 0, 0, 0}, 5, &frame), -EPROTO);
	CHECK_INT(nt_frame_read((const uint8_t[]){9, 0, 0, 0, NT_FRAME_TYPES}, 5, &frame), -EPROTO);
}

TEST(a_payload_that_is_too_long_is_refused_by_the_writer)
{
	uint8_t bytes[NT_FRAME_HEADER];

	CHECK_INT(nt_frame_header(NT_FRAME_INPUT, NT_FRAME_MAX, bytes), -E2BIG);
	CHECK_INT(nt_frame_header(NT_FRAME_INPUT, NT_FRAME_MAX - 1, bytes), 0);
}
