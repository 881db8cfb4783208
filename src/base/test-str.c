/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "base/test.h"

TEST(a_text_ends_with_its_tail_and_with_nothing)
{
	CHECK(ends_with("a.key", ".key"));
	CHECK(ends_with(".key", ".key"));
	CHECK(ends_with("a", ""));
	CHECK(ends_with("", ""));
	CHECK(!ends_with("key", ".key"));
	CHECK(!ends_with("a.keys", ".key"));
}

TEST(a_text_starts_with_its_head_and_with_nothing)
{
	CHECK(starts_with("abc", "ab"));
	CHECK(starts_with("abc", ""));
	CHECK(!starts_with("ab", "abc"));
	CHECK(!starts_with("xab", "ab"));
}

TEST(utf8_characters_have_one_to_four_bytes)
{
	CHECK_INT(utf8_length("a", 1), 1);
	CHECK_INT(utf8_length("\0", 1), 1);
	CHECK_INT(utf8_length("\x7f", 1), 1);
	CHECK_INT(utf8_length("\xc2\x80", 2), 2);
	CHECK_INT(utf8_length("\xdf\xbf", 2), 2);
	CHECK_INT(utf8_length("\xe0\xa0\x80", 3), 3);
	CHECK_INT(utf8_length("\xef\xbf\xbf", 3), 3);
	CHECK_INT(utf8_length("\xf0\x90\x80\x80", 4), 4);
	CHECK_INT(utf8_length("\xf4\x8f\xbf\xbf", 4), 4);
	CHECK_INT(utf8_length("\xc3\xbc and more", 10), 2);
}

TEST(overlong_utf8_is_no_character)
{
	CHECK_INT(utf8_length("\xc0\x80", 2), 0);
	CHECK_INT(utf8_length("\xc0\xaf", 2), 0);
	CHECK_INT(utf8_length("\xc1\xbf", 2), 0);
	CHECK_INT(utf8_length("\xe0\x80\xaf", 3), 0);
	CHECK_INT(utf8_length("\xe0\x9f\xbf", 3), 0);
	CHECK_INT(utf8_length("\xf0\x80\x80\xaf", 4), 0);
	CHECK_INT(utf8_length("\xf0\x8f\xbf\xbf", 4), 0);
}

TEST(surrogates_in_utf8_are_no_characters)
{
	CHECK_INT(utf8_length("\xed\x9f\xbf", 3), 3);
	CHECK_INT(utf8_length("\xed\xa0\x80", 3), 0);
	CHECK_INT(utf8_length("\xed\xbf\xbf", 3), 0);
	CHECK_INT(utf8_length("\xee\x80\x80", 3), 3);
}

TEST(values_past_the_last_code_point_are_no_characters)
{
	CHECK_INT(utf8_length("\xf4\x90\x80\x80", 4), 0);
	CHECK_INT(utf8_length("\xf5\x80\x80\x80", 4), 0);
	CHECK_INT(utf8_length("\xf8\x88\x80\x80\x80", 5), 0);
	CHECK_INT(utf8_length("\xfe", 1), 0);
	CHECK_INT(utf8_length("\xff", 1), 0);
}

TEST(truncated_utf8_is_no_character)
{
	CHECK_INT(utf8_length("", 0), 0);
	CHECK_INT(utf8_length("\xc3", 1), 0);
	CHECK_INT(utf8_length("\xe2\x82", 2), 0);
	CHECK_INT(utf8_length("\xf0\x9f\x98", 3), 0);
	/* The bytes are there, and lie past the end. */
	CHECK_INT(utf8_length("\xe2\x82\xac", 2), 0);
	CHECK_INT(utf8_length("\x80", 1), 0);
	CHECK_INT(utf8_length("\xe2\x82x", 3), 0);
	CHECK_INT(utf8_length("\xc3\xc3", 2), 0);
}

TEST(printable_text_is_utf8_without_control_characters)
{
	CHECK(str_is_printable(""));
	CHECK(str_is_printable("a b~"));
	CHECK(str_is_printable("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80"));
	CHECK(str_is_printable("\xc2\xa0"));
	CHECK(!str_is_printable("a\nb"));
	CHECK(!str_is_printable("\x1b[2J"));
	CHECK(!str_is_printable("\x7f"));
	CHECK(!str_is_printable("a\xff"));
	CHECK(!str_is_printable("a\xc3"));
}

/* U+009B starts an escape sequence, as ESC [ does. */
TEST(control_characters_of_two_bytes_are_not_printable)
{
	CHECK(!str_is_printable("\xc2\x80"));
	CHECK(!str_is_printable("a\xc2\x9b"
				"2J"));
	CHECK(!str_is_printable("\xc2\x9f"));
}

static const char *const words[] = {"network", "filesystem", "limits", "env", NULL};

TEST(the_nearest_word_forgives_a_few_letters)
{
	CHECK_STR(str_nearest("netwrok", words), "network");
	CHECK_STR(str_nearest("network", words), "network");
	CHECK_STR(str_nearest("limit", words), "limits");
	CHECK_STR(str_nearest("fileystem", words), "filesystem");
	CHECK_STR(str_nearest("enb", words), "env");
}

TEST(a_far_word_gets_no_hint)
{
	static const char *const none[] = {NULL};

	CHECK(!str_nearest("bananas", words));
	CHECK(!str_nearest("", words));
	CHECK(!str_nearest("xyz", words));
	CHECK(!str_nearest("env", none));
}

TEST(a_word_may_differ_by_one_letter_and_a_third_of_its_length)
{
	static const char *const six[] = {"abcdef", NULL};

	CHECK_STR(str_nearest("abcxxx", six), "abcdef");
	CHECK(!str_nearest("abxxxx", six));
}

TEST(of_two_equally_near_words_the_first_is_taken)
{
	static const char *const pair[] = {"read", "real", NULL};

	CHECK_STR(str_nearest("reax", pair), "read");
	CHECK_STR(str_nearest("real", pair), "real");
}

TEST(words_of_more_than_63_letters_are_near_to_nothing)
{
	char typed[65], word[65];
	const char *const one[] = {word, NULL};

	memset(typed, 'a', sizeof typed);
	memset(word, 'a', sizeof word);
	typed[63] = word[63] = '\0';
	CHECK(str_nearest(typed, one) == word);
	typed[63] = 'a';
	typed[64] = '\0';
	CHECK(!str_nearest(typed, one));
	typed[63] = '\0';
	word[63] = 'a';
	word[64] = '\0';
	CHECK(!str_nearest(typed, one));
}

TEST(a_glob_without_special_characters_is_a_comparison)
{
	CHECK(str_glob("abc", "abc"));
	CHECK(str_glob("", ""));
	CHECK(!str_glob("abc", "ab"));
	CHECK(!str_glob("ab", "abc"));
	CHECK(!str_glob("", "a"));
	CHECK(!str_glob("a", ""));
	CHECK(!str_glob("abc", "ABC"));
}

TEST(a_star_matches_any_length)
{
	CHECK(str_glob("*", ""));
	CHECK(str_glob("*", "abc"));
	CHECK(str_glob("**", "abc"));
	CHECK(str_glob("a*", "a"));
	CHECK(str_glob("*c", "abc"));
	CHECK(str_glob("a*c", "ac"));
	CHECK(str_glob("*", ".hidden"));
	CHECK(!str_glob("a*", "ba"));
	CHECK(!str_glob("*c", "cb"));
	CHECK(!str_glob("a*a", "a"));
}

TEST(a_star_goes_back_when_it_ate_too_little)
{
	CHECK(str_glob("*ab", "aab"));
	CHECK(str_glob("*.tar.gz", "a.tar.tar.gz"));
	CHECK(str_glob("a*b*c", "abxbc"));
	CHECK(str_glob("*aab*", "aaaab"));
	CHECK(str_glob("*[0-9]x", "1y2x"));
	CHECK(str_glob("*?a", "aa"));
	CHECK(!str_glob("*?a", "a"));
	CHECK(!str_glob("a*b*c", "acb"));
}

TEST(many_stars_do_not_take_forever)
{
	char text[4096];

	memset(text, 'a', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	CHECK(!str_glob("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
	text[sizeof text - 2] = 'b';
	CHECK(str_glob("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
}

TEST(a_question_mark_matches_exactly_one_byte)
{
	CHECK(str_glob("?", "a"));
	CHECK(str_glob("a?c", "abc"));
	CHECK(str_glob("?", "?"));
	CHECK(!str_glob("?", ""));
	CHECK(!str_glob("?", "ab"));
	CHECK(!str_glob("a?", "a"));
}

TEST(a_set_matches_one_of_its_characters)
{
	CHECK(str_glob("[abc]", "b"));
	CHECK(!str_glob("[abc]", "d"));
	CHECK(!str_glob("[abc]", ""));
	CHECK(!str_glob("[abc]", "ab"));
	CHECK(str_glob("x[ab]y", "xby"));
	CHECK(str_glob("[*]", "*"));
	CHECK(!str_glob("[*]", "a"));
	CHECK(str_glob("[?]", "?"));
	CHECK(!str_glob("[?]", "a"));
	CHECK(str_glob("[[]", "["));
}

TEST(a_set_may_hold_ranges)
{
	CHECK(str_glob("[a-c]", "a"));
	CHECK(str_glob("[a-c]", "c"));
	CHECK(!str_glob("[a-c]", "d"));
	CHECK(!str_glob("[a-c]", "-"));
	CHECK(str_glob("[a-c0-9_]", "7"));
	CHECK(str_glob("[a-c0-9_]", "_"));
	CHECK(!str_glob("[c-a]", "b"));
	CHECK(str_glob("[\x80-\xff]", "\xc3"));
	CHECK(!str_glob("[\x80-\xff]", "a"));
}

TEST(a_dash_at_either_end_of_a_set_is_a_dash)
{
	CHECK(str_glob("[a-]", "-"));
	CHECK(str_glob("[a-]", "a"));
	CHECK(!str_glob("[a-]", "b"));
	CHECK(str_glob("[-a]", "-"));
	CHECK(!str_glob("[-a]", "b"));
}

TEST(a_negated_set_matches_all_but_its_characters)
{
	CHECK(str_glob("[!abc]", "d"));
	CHECK(!str_glob("[!abc]", "b"));
	CHECK(str_glob("[^a-c]", "d"));
	CHECK(!str_glob("[^a-c]", "b"));
	CHECK(!str_glob("[!a]", ""));
	CHECK(str_glob("[a!]", "!"));
	CHECK(str_glob("[!!]", "a"));
	CHECK(!str_glob("[!!]", "!"));
}

TEST(a_bracket_that_comes_first_belongs_to_the_set)
{
	CHECK(str_glob("[]]", "]"));
	CHECK(str_glob("[]a]", "a"));
	CHECK(!str_glob("[]a]", "b"));
	CHECK(!str_glob("[!]a]", "]"));
	CHECK(str_glob("[!]a]", "b"));
}

TEST(a_set_that_is_not_closed_is_a_bracket)
{
	CHECK(str_glob("[", "["));
	CHECK(str_glob("[abc", "[abc"));
	CHECK(!str_glob("[abc", "a"));
	CHECK(str_glob("[]", "[]"));
	CHECK(!str_glob("[]", "]"));
	CHECK(str_glob("[!", "[!"));
	CHECK(!str_glob("[!", "a"));
	CHECK(str_glob("[!]", "[!]"));
	CHECK(str_glob("[a-", "[a-"));
	CHECK(str_glob("*[", "a["));
	CHECK(!str_glob("*[", "ab"));
}

TEST(a_backslash_is_nothing_special_in_a_glob)
{
	CHECK(str_glob("\\*", "\\abc"));
	CHECK(!str_glob("\\*", "*"));
	CHECK(str_glob("[\\]", "\\"));
}

TEST(ordinary_text_is_shown_as_it_is)
{
	char shown[32];

	CHECK_STR(str_show("", shown, sizeof shown), "");
	CHECK_STR(str_show("a b", shown, sizeof shown), "a b");
	CHECK_STR(str_show("gr\xc3\xbc\xc3\x9f", shown, sizeof shown), "gr\xc3\xbc\xc3\x9f");
	CHECK(str_show("x", shown, sizeof shown) == shown);
}

TEST(control_characters_are_shown_as_numbers)
{
	char shown[64];

	CHECK_STR(str_show("a\nb", shown, sizeof shown), "a\\x0ab");
	CHECK_STR(str_show("\x1b[2J\x7f", shown, sizeof shown), "\\x1b[2J\\x7f");
	CHECK_STR(str_show("\xc2\x9b", shown, sizeof shown), "\\xc2\\x9b");
	CHECK_STR(str_show("\xe2\x80\xa8", shown, sizeof shown), "\\xe2\\x80\\xa8");
	CHECK_STR(str_show("\xc2\xa0", shown, sizeof shown), "\xc2\xa0");
}

TEST(bytes_that_are_not_utf8_are_shown_as_numbers)
{
	char shown[64];

	CHECK_STR(str_show("a\xff", shown, sizeof shown), "a\\xff");
	CHECK_STR(str_show("\xc3", shown, sizeof shown), "\\xc3");
	CHECK_STR(str_show("\xed\xa0\x80", shown, sizeof shown), "\\xed\\xa0\\x80");
	CHECK_STR(str_show("\xc3\xc3\xbc", shown, sizeof shown), "\\xc3\xc3\xbc");
}

TEST(every_mark_that_turns_the_direction_is_shown_as_numbers)
{
	static const char *const marks[] = {
		"\xd8\x9c",			/* U+061C */
		"\xe2\x80\x8e",			/* U+200E */
		"\xe2\x80\x8f", "\xe2\x80\xaa", /* U+202A to U+202E */
		"\xe2\x80\xab", "\xe2\x80\xac", "\xe2\x80\xad",
		"\xe2\x80\xae", "\xe2\x81\xa6", /* U+2066 to U+2069 */
		"\xe2\x81\xa7", "\xe2\x81\xa8", "\xe2\x81\xa9",
	};
	char shown[64];

	for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
		if (!starts_with(str_show(marks[i], shown, sizeof shown), "\\x"))
			test_fail(__FILE__, __LINE__, "mark %zu is shown as it is", i);
	/* Their neighbours are harmless. */
	CHECK_STR(str_show("\xe2\x80\x90\xe2\x80\xb0", shown, sizeof shown),
		  "\xe2\x80\x90\xe2\x80\xb0");
}

TEST(a_text_that_just_fits_is_shown_whole)
{
	char shown[8];

	CHECK_STR(str_show("1234567", shown, sizeof shown), "1234567");
	CHECK_STR(str_show("123\n", shown, sizeof shown), "123\\x0a");
}

TEST(a_text_that_does_not_fit_ends_in_dots)
{
	char shown[8];

	CHECK_STR(str_show("12345678", shown, sizeof shown), "1234...");
	CHECK_STR(str_show("a long text", shown, sizeof shown), "a lo...");
	CHECK_STR(str_show("1234\n", shown, sizeof shown), "1234...");
}

TEST(a_cut_never_divides_a_character_or_a_number)
{
	char shown[8];

	CHECK_STR(str_show("123\xc3\xbc"
			   "4567",
			   shown, sizeof shown),
		  "123...");
	CHECK_STR(str_show("\n\n", shown, sizeof shown), "\\x0a...");
	CHECK_STR(str_show("1\n\n", shown, sizeof shown), "1...");
	CHECK_STR(str_show("\xe2\x80\xae", shown, sizeof shown), "...");
}

TEST(nothing_is_written_past_the_size_shown)
{
	char shown[24];

	for (size_t size = 8; size < sizeof shown; size++) {
		memset(shown, '#', sizeof shown);
		str_show("ab\n\xc3\xbc\xff\xe2\x82\xac\x1b\x01 and so on and on", shown, size);
		CHECK(strlen(shown) < size);
		CHECK(shown[size] == '#');
		CHECK(ends_with(shown, "..."));
	}
}

TEST(names_that_lead_elsewhere_are_none)
{
	static const char *const good[] = {"a", "A-1", "base", "python3.12", "0_x", "v1.0-rc.1"};
	static const char *const bad[] = {"",	 ".",	 "..",	".hidden", "-x",  "_x",
					  "a/b", "a..b", "a..", "a b",	   "a\n", "\303\244"};

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		CHECK(str_is_plain_name(good[i], strlen(good[i])));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(!str_is_plain_name(bad[i], strlen(bad[i])));
}
