/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/scope.h"
#include "base/test.h"

#include <errno.h>
#include <stdint.h>
#include <wchar.h>

TEST(a_new_buffer_is_empty_and_good)
{
	cleanup_buf struct buf buf = BUF_INIT(8);

	CHECK(!buf.data);
	CHECK_INT(buf.used, 0);
	CHECK_INT(buf_error(&buf), 0);
}

TEST(everything_added_stands_in_order_with_a_nul_behind)
{
	cleanup_buf struct buf buf = BUF_INIT(64);

	buf_add(&buf, "abc", 2);
	buf_add_str(&buf, "-");
	buf_add_char(&buf, 'x');
	buf_addf(&buf, "%d%s", 42, "!");
	CHECK_STR(buf.data, "ab-x42!");
	CHECK_INT(buf.used, 7);
}

TEST(adding_nothing_makes_an_empty_text)
{
	cleanup_buf struct buf added = BUF_INIT(8), formatted = BUF_INIT(8);

	buf_add(&added, NULL, 0);
	CHECK_STR(added.data, "");
	buf_addf(&formatted, "%s", "");
	CHECK_STR(formatted.data, "");
}

TEST(bytes_of_zero_are_kept)
{
	cleanup_buf struct buf buf = BUF_INIT(8);

	buf_add(&buf, "a\0b", 3);
	CHECK_INT(buf.used, 3);
	CHECK(memcmp(buf.data, "a\0b", 4) == 0);
}

TEST(a_buffer_grows_and_keeps_what_it_has)
{
	cleanup_buf struct buf buf = BUF_INIT(100000);

	for (unsigned i = 0; i < 10000; i++)
		buf_addf(&buf, "%05u", i);
	CHECK_INT(buf_error(&buf), 0);
	CHECK_INT(buf.used, 50000);
	CHECK_INT(strlen(buf.data), 50000);
	CHECK(memcmp(buf.data, "0000000001", 10) == 0);
	CHECK_STR(buf.data + 49995, "09999");
}

/* At each of these the NUL needs the next larger piece of memory. */
TEST(a_text_as_long_as_the_memory_leaves_place_for_the_nul)
{
	static const size_t sizes[] = {255, 256, 257, 511, 512};
	char text[512];

	memset(text, 'x', sizeof text);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		cleanup_buf struct buf buf = BUF_INIT(512);

		buf_add(&buf, text, sizes[i]);
		CHECK(buf.room > sizes[i]);
		CHECK_INT(strlen(buf.data), sizes[i]);
	}
}

TEST(a_buffer_may_be_filled_up_to_its_limit)
{
	cleanup_buf struct buf buf = BUF_INIT(4);

	buf_add_str(&buf, "abc");
	buf_add_char(&buf, 'd');
	CHECK_INT(buf_error(&buf), 0);
	CHECK_STR(buf.data, "abcd");
}

TEST(one_byte_past_the_limit_fails_and_the_content_stays)
{
	cleanup_buf struct buf buf = BUF_INIT(4);

	buf_add_str(&buf, "abcd");
	buf_add_char(&buf, 'e');
	CHECK_INT(buf_error(&buf), -E2BIG);
	CHECK_STR(buf.data, "abcd");
	CHECK_INT(buf.used, 4);
}

TEST(a_piece_that_does_not_fit_is_not_added_in_part)
{
	cleanup_buf struct buf buf = BUF_INIT(6);

	buf_add_str(&buf, "abc");
	buf_addf(&buf, "%s", "defg");
	CHECK_INT(buf_error(&buf), -E2BIG);
	CHECK_STR(buf.data, "abc");
}

TEST(after_a_failure_nothing_more_is_added)
{
	cleanup_buf struct buf buf = BUF_INIT(4);

	buf_add_str(&buf, "ab");
	buf_add_str(&buf, "cde");
	buf_add_char(&buf, 'c');
	buf_addf(&buf, "%d", 1);
	CHECK_INT(buf_error(&buf), -E2BIG);
	CHECK_STR(buf.data, "ab");
}

TEST(a_huge_size_does_not_wrap_around_the_limit)
{
	cleanup_buf struct buf buf = BUF_INIT(100);

	buf_add_str(&buf, "ab");
	buf_add(&buf, "x", SIZE_MAX);
	CHECK_INT(buf_error(&buf), -E2BIG);
	CHECK_STR(buf.data, "ab");
}

TEST(a_limit_of_zero_takes_nothing_but_nothing)
{
	cleanup_buf struct buf buf = BUF_INIT(0);

	buf_add_str(&buf, "");
	CHECK_INT(buf_error(&buf), 0);
	buf_add_char(&buf, 'a');
	CHECK_INT(buf_error(&buf), -E2BIG);
}

/* It was left out silently once. */
TEST(what_is_formatted_grows_the_buffer_or_leaves_it_as_it_was)
{
	cleanup_buf struct buf buf = BUF_INIT(1500);
	char text[1201];

	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	buf_addf(&buf, "%d,", 7);
	buf_addf(&buf, "%s", text); /* more than it begins with */
	CHECK_INT(buf.used, 1202);
	CHECK_INT(strlen(buf.data), 1202);
	buf_addf(&buf, "%s", text);
	CHECK_INT(buf_error(&buf), -E2BIG);
	CHECK_INT(buf.used, 1202);
	CHECK_INT(strlen(buf.data), 1202);
}

TEST(what_cannot_be_formatted_is_a_failure)
{
	cleanup_buf struct buf buf = BUF_INIT(64);

	buf_add_str(&buf, "ab");
	buf_addf(&buf, "%lc", (wint_t)0x20ac); /* not in the C locale */
	CHECK_INT(buf_error(&buf), -EILSEQ);
	CHECK_STR(buf.data, "ab");
}

TEST(taking_hands_the_text_on_and_leaves_an_empty_buffer)
{
	cleanup_buf struct buf buf = BUF_INIT(8);
	cleanup_free char *first = NULL, *second = NULL;

	buf_add_str(&buf, "abc");
	first = buf_take(&buf);
	CHECK_STR(first, "abc");
	CHECK(!buf.data);
	CHECK_INT(buf.used, 0);
	buf_add_str(&buf, "12345678");
	second = buf_take(&buf);
	CHECK_STR(second, "12345678");
	CHECK_STR(first, "abc");
}

TEST(an_empty_good_buffer_gives_an_empty_text)
{
	cleanup_buf struct buf buf = BUF_INIT(0);
	cleanup_free char *text = buf_take(&buf);

	CHECK_STR(text, "");
}

TEST(a_failed_buffer_gives_no_text)
{
	cleanup_buf struct buf buf = BUF_INIT(2);

	buf_add_str(&buf, "ab");
	buf_add_str(&buf, "c");
	CHECK(!buf_take(&buf));
	CHECK_STR(buf.data, "ab");
}

TEST(a_buffer_may_be_done_twice)
{
	struct buf buf = BUF_INIT(8);

	buf_add_str(&buf, "ab");
	buf_done(&buf);
	CHECK(!buf.data);
	CHECK_INT(buf.used, 0);
	buf_done(&buf);
}
