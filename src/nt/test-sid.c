/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "nt/sid.h"

#include <errno.h>

static struct nt_sid parsed(const char *text)
{
	struct nt_sid sid = {0};

	CHECK_INT(nt_sid_parse(text, strlen(text), &sid), (int)strlen(text));
	return sid;
}

static int parse_result(const char *text)
{
	struct nt_sid sid;

	return nt_sid_parse(text, strlen(text), &sid);
}

static void check_round_trip(const char *text)
{
	struct nt_sid sid = parsed(text), back;
	char again[NT_SID_TEXT_SIZE];
	uint8_t bytes[NT_SID_SIZE_MAX];
	size_t size = nt_sid_pack(&sid, bytes);

	nt_sid_text(&sid, again);
	CHECK_STR(again, text);
	CHECK_INT(size, nt_sid_size(&sid));
	CHECK_INT(nt_sid_unpack(bytes, size, &back), (int)size);
	CHECK(nt_sid_equal(&sid, &back));
	CHECK_INT(nt_sid_unpack(bytes, size - 1, &back), -EINVAL);
}

TEST(sid_text_and_bytes_lead_back_to_the_same_sid)
{
	check_round_trip("S-1-1-0");
	check_round_trip("S-1-5-32-544");
	check_round_trip("S-1-5-21-4294967295-0-1-4000000000");
	check_round_trip("S-1-15-3-1024-1-2-3-4-5-6-7-8");
	check_round_trip("S-1-0x123456789abc-7");
	check_round_trip("S-1-4294967295-1-2-3-4-5-6-7-8-9-10-11-12-13-14-15");
}

TEST(sid_bytes_are_those_of_windows)
{
	static const uint8_t administrators[] = {1,  2, 0, 0, 0,    0,	  0, 5,
						 32, 0, 0, 0, 0x20, 0x02, 0, 0};
	uint8_t bytes[NT_SID_SIZE_MAX];

	CHECK_INT(nt_sid_pack(&nt_sid_administrators, bytes), sizeof administrators);
	CHECK(memcmp(bytes, administrators, sizeof administrators) == 0);
}

TEST(sid_reader_refuses_what_is_no_sid)
{
	static const char *const bad[] = {"",
					  "S",
					  "S-1",
					  "S-1-",
					  "S-1-5",
					  "S-2-5-1",
					  "S-1-05-1",
					  "S-1-5-01",
					  "S-1-5-4294967296",
					  "S-1-281474976710656-1",
					  "S-1-0x123-1",
					  "S-1--1",
					  "T-1-5-1",
					  "S-1-5-1-2-3-4-5-6-7-8-9-10-11-12-13-14-15-16"};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_INT(parse_result(bad[i]), -EINVAL);
}

TEST(sid_reader_stops_behind_the_sid)
{
	CHECK_INT(parse_result("S-1-5-18)(A;"), 8);
	CHECK_INT(parse_result("S-1-5-18-"), 8);
}

TEST(sid_bytes_with_a_wrong_revision_or_count_are_refused)
{
	uint8_t bytes[NT_SID_SIZE_MAX] = {2, 1, 0, 0, 0, 0, 0, 5, 18};
	struct nt_sid sid;

	CHECK_INT(nt_sid_unpack(bytes, sizeof bytes, &sid), -EINVAL);
	bytes[0] = 1;
	CHECK_INT(nt_sid_unpack(bytes, sizeof bytes, &sid), 12);
	bytes[1] = 0;
	CHECK_INT(nt_sid_unpack(bytes, sizeof bytes, &sid), -EINVAL);
	bytes[1] = 16;
	CHECK_INT(nt_sid_unpack(bytes, sizeof bytes, &sid), -EINVAL);
}

TEST(capability_sids_have_a_last_number_that_no_account_has)
{
	static const uint8_t zeros[16] = {0};
	const struct nt_sid sid = nt_sid_from_random(zeros);
	char text[NT_SID_TEXT_SIZE];

	nt_sid_text(&sid, text);
	CHECK_STR(text, "S-1-5-21-1635020652-0-0-2147483648");
}
