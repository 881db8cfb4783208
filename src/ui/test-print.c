/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "ui/print.h"

static void check_escaped(const char *text, const char *want)
{
	cleanup_free char *have = NULL;
	size_t size;
	FILE *out = open_memstream(&have, &size);

	print_escaped(out, text);
	fclose(out);
	CHECK_STR(have, want);
}

TEST(ordinary_text_is_printed_as_it_is)
{
	check_escaped("", "");
	check_escaped("a b/c-d.e 'q'", "a b/c-d.e 'q'");
	check_escaped("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x8f\x9d",
		      "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x8f\x9d");
}

TEST(control_characters_never_reach_the_terminal)
{
	check_escaped("a\nb\tc\rd", "a\\nb\\tc\\x0dd");
	check_escaped("\x1b[2J\x7f", "\\x1b[2J\\x7f");
	check_escaped("\xc2\x9b"
		      "31m",
		      "\\xc2\\x9b31m");
}

TEST(text_cannot_change_its_direction)
{
	check_escaped("a\xe2\x80\xae"
		      "b",
		      "a\\xe2\\x80\\xaeb");
	check_escaped("\xe2\x81\xa6\xd8\x9c", "\\xe2\\x81\\xa6\\xd8\\x9c");
	/* A filler, a joiner, a variation selector: nothing is seen of them. */
	check_escaped("\xe3\x85\xa4\xcd\x8f\xef\xb8\x8f",
		      "\\xe3\\x85\\xa4\\xcd\\x8f\\xef\\xb8\\x8f");
}

TEST(invalid_bytes_are_shown_by_number)
{
	check_escaped("\xff\xc3", "\\xff\\xc3");
	check_escaped("\xc0\xaf", "\\xc0\\xaf");
}

TEST(lines_are_broken_at_words)
{
	cleanup_free char *have = NULL;
	size_t size;
	FILE *out = open_memstream(&have, &size);

	print_wrapped(out, 0, 70, "one two three four");
	fclose(out);
	CHECK_STR(have,
		  "                                                                      one two\n"
		  "                                                                      three "
		  "four\n");
}
