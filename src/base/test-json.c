/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "base/scope.h"
#include "base/test.h"

#include <errno.h>
#include <string.h>

/* `text` with quotes; good until the next call. */
static const char *quote(const char *text, size_t size)
{
	static char quoted[256];
	cleanup_buf struct buf out = BUF_INIT(sizeof quoted - 1);

	json_quote(&out, text, size);
	snprintf(quoted, sizeof quoted, "%s", buf_error(&out) ? "(failed)" : out.data);
	return quoted;
}

#define QUOTE(literal) quote(literal, sizeof(literal) - 1)

TEST(plain_text_is_only_put_in_quotes)
{
	CHECK_STR(QUOTE(""), "\"\"");
	CHECK_STR(QUOTE("a b/c'<>&"), "\"a b/c'<>&\"");
	CHECK_STR(QUOTE("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80"),
		  "\"gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80\"");
}

/* Eight bytes are looked at together: one that is not plain is found at each place. */
TEST(what_is_not_plain_is_found_wherever_it_stands)
{
	static const struct {
		char c;
		const char *written;
	} table[] = {{'"', "\\\""},	  {'\\', "\\\\"},      {'\n', "\\n"},
		     {'\x7f', "\\u007f"}, {'\x1f', "\\u001f"}, {'\xff', "\\udcff"}};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		for (int at = 0; at < 19; at++) {
			char text[20] = "abcdefgh ~[]!#$%'()", wanted[64];

			text[at] = table[i].c;
			snprintf(wanted, sizeof wanted, "\"%.*s%s%s\"", at, text, table[i].written,
				 text + at + 1);
			CHECK_STR(quote(text, 19), wanted);
		}
	}
}

TEST(numbers_are_written_in_full)
{
	cleanup_buf struct buf out = BUF_INIT(256);
	struct json json = {&out};

	json_open(&json, NULL, '[');
	json_uint(&json, NULL, 0);
	json_uint(&json, NULL, UINT64_MAX);
	json_uint_str(&json, NULL, 120);
	json_int(&json, NULL, INT64_MIN);
	json_int(&json, NULL, 7);
	json_close(&json, ']');
	CHECK_STR(out.data, "[0,18446744073709551615,\"120\",-9223372036854775808,7]");
}

TEST(quotes_and_backslashes_are_escaped)
{
	CHECK_STR(QUOTE("\""), "\"\\\"\"");
	CHECK_STR(QUOTE("\\"), "\"\\\\\"");
	CHECK_STR(QUOTE("\\n"), "\"\\\\n\"");
	CHECK_STR(QUOTE("\",\"x\":\""), "\"\\\",\\\"x\\\":\\\"\"");
}

TEST(control_characters_are_escaped)
{
	CHECK_STR(QUOTE("\n"), "\"\\n\"");
	CHECK_STR(QUOTE("\t\r\b"), "\"\\u0009\\u000d\\u0008\"");
	CHECK_STR(QUOTE("\x01\x1f"), "\"\\u0001\\u001f\"");
	CHECK_STR(QUOTE("\x7f"), "\"\\u007f\"");
	CHECK_STR(QUOTE("\x1b[0m"), "\"\\u001b[0m\"");
}

TEST(no_byte_below_a_space_is_written_raw)
{
	for (int c = 0; c < 0x20; c++) {
		char byte = (char)c;

		for (const char *p = quote(&byte, 1); *p; p++)
			CHECK((unsigned char)*p >= 0x20);
	}
}

TEST(a_nul_within_the_size_is_escaped_and_does_not_end_the_text)
{
	CHECK_STR(QUOTE("a\0b"), "\"a\\u0000b\"");
	CHECK_STR(quote("abc", 2), "\"ab\"");
}

TEST(separators_that_end_a_line_in_javascript_are_escaped)
{
	CHECK_STR(QUOTE("a\xe2\x80\xa8z"), "\"a\\u2028z\"");
	CHECK_STR(QUOTE("a\xe2\x80\xa9z"), "\"a\\u2029z\"");
	CHECK_STR(QUOTE("\xe2\x80\xa7\xe2\x80\xaa"), "\"\xe2\x80\xa7\xe2\x80\xaa\"");
}

TEST(every_byte_that_is_not_utf8_becomes_a_lone_surrogate)
{
	CHECK_STR(QUOTE("\xff"), "\"\\udcff\"");
	CHECK_STR(QUOTE("\x80"), "\"\\udc80\"");
	CHECK_STR(QUOTE("a\xfe\xc3\xbc"), "\"a\\udcfe\xc3\xbc\"");
	CHECK_STR(QUOTE("\xc0\xaf"), "\"\\udcc0\\udcaf\"");
	CHECK_STR(QUOTE("\xed\xb3\xbf"), "\"\\udced\\udcb3\\udcbf\"");
	CHECK_STR(QUOTE("\xf4\x90\x80\x80"), "\"\\udcf4\\udc90\\udc80\\udc80\"");
}

TEST(a_character_cut_off_at_the_end_keeps_its_bytes)
{
	CHECK_STR(QUOTE("a\xe2\x82"), "\"a\\udce2\\udc82\"");
	CHECK_STR(quote("\xe2\x80\xa8", 2), "\"\\udce2\\udc80\"");
	CHECK_STR(QUOTE("\xc3\""), "\"\\udcc3\\\"\"");
	CHECK_STR(QUOTE("\xe2\x82\n"), "\"\\udce2\\udc82\\n\"");
}

TEST(members_of_an_object_are_parted_by_commas)
{
	cleanup_buf struct buf out = BUF_INIT(256);
	struct json json = {.out = &out};

	json_open(&json, NULL, '{');
	json_str(&json, "a", "x");
	json_uint(&json, "b", 1);
	json_bool(&json, "c", true);
	json_bool(&json, "d", false);
	json_none(&json, "e");
	json_str(&json, "f", NULL);
	json_strn(&json, "g", "xyz", 2);
	json_close(&json, '}');
	CHECK_STR(out.data, "{\"a\":\"x\",\"b\":1,\"c\":true,\"d\":false,\"e\":null,\"f\":null,"
			    "\"g\":\"xy\"}");
}

TEST(commas_are_right_around_nested_and_empty_values)
{
	cleanup_buf struct buf out = BUF_INIT(256);
	struct json json = {.out = &out};

	json_open(&json, NULL, '[');
	json_open(&json, NULL, '[');
	json_close(&json, ']');
	json_open(&json, NULL, '{');
	json_close(&json, '}');
	json_open(&json, NULL, '{');
	json_open(&json, "k", '[');
	json_int(&json, NULL, 1);
	json_int(&json, NULL, 2);
	json_close(&json, ']');
	json_open(&json, "l", '{');
	json_close(&json, '}');
	json_none(&json, "m");
	json_close(&json, '}');
	json_int(&json, NULL, 3);
	json_close(&json, ']');
	CHECK_STR(out.data, "[[],{},{\"k\":[1,2],\"l\":{},\"m\":null},3]");
}

TEST(a_value_at_the_top_has_neither_comma_nor_key)
{
	cleanup_buf struct buf out = BUF_INIT(64);
	struct json json = {.out = &out};

	json_str(&json, NULL, "x");
	CHECK_STR(out.data, "\"x\"");
}

TEST(keys_are_escaped_like_values)
{
	cleanup_buf struct buf out = BUF_INIT(64);
	struct json json = {.out = &out};

	json_open(&json, NULL, '{');
	json_none(&json, "a\"\n\xff");
	json_none(&json, "");
	json_close(&json, '}');
	CHECK_STR(out.data, "{\"a\\\"\\n\\udcff\":null,\"\":null}");
}

TEST(numbers_reach_both_ends_of_their_range)
{
	cleanup_buf struct buf out = BUF_INIT(128);
	struct json json = {.out = &out};

	json_open(&json, NULL, '[');
	json_uint(&json, NULL, 0);
	json_uint(&json, NULL, UINT64_MAX);
	json_int(&json, NULL, INT64_MIN);
	json_int(&json, NULL, INT64_MAX);
	json_close(&json, ']');
	CHECK_STR(out.data, "[0,18446744073709551615,-9223372036854775808,9223372036854775807]");
}

TEST(json_that_does_not_fit_is_told_by_the_buffer)
{
	cleanup_buf struct buf out = BUF_INIT(8);
	struct json json = {.out = &out};

	json_open(&json, NULL, '[');
	json_str(&json, NULL, "far too long");
	json_close(&json, ']');
	CHECK_INT(buf_error(&out), -E2BIG);
	CHECK(strlen(out.data) <= 8);
}
