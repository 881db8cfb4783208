/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "egress/secret-screen.h"
#include "egress/unit.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char value[] = "sk-Secret/12.xYz9", shown[] = "sk-Aaaaaa/00.aAa0";
#define SIZE (sizeof value - 1)

#define cleanup_screen cleanup_with(screen_done)

static struct screen make(void)
{
	struct screen screen = {0};

	CHECK(sodium_init() >= 0);
	CHECK_INT(screen_add_value(&screen, value, shown, SIZE), 0);
	return screen;
}

/* The filtered text; valid until the next call. */
static const char *hidden(const struct screen *screen, const char *text)
{
	static char room[4096];

	snprintf(room, sizeof room, "%s", text);
	screen_hide(screen, room, strlen(room));
	return room;
}

static bool is_hidden(const struct screen *screen, const char *text)
{
	char before[4096];

	snprintf(before, sizeof before, "%s", text);
	return strcmp(hidden(screen, text), before) != 0;
}

TEST(a_value_is_hidden_as_it_is)
{
	cleanup_screen struct screen screen = make();

	CHECK_STR(hidden(&screen, "[sk-Secret/12.xYz9]"), "[sk-Aaaaaa/00.aAa0]");
	CHECK_STR(hidden(&screen, "sk-sk-Secret/12.xYz9sk-Secret/12.xYz9"),
		  "sk-sk-Aaaaaa/00.aAa0sk-Aaaaaa/00.aAa0");
	CHECK_STR(hidden(&screen, "sk-secret/12.xyz9 SK-SECRET/12.XYZ9"),
		  "sk-Aaaaaa/00.aAa0 sk-Aaaaaa/00.aAa0");
	CHECK_STR(hidden(&screen, "sk-Secret/12.xYz8 k-Secret/12.xYz9"),
		  "sk-Secret/12.xYz8 k-Secret/12.xYz9");
}

TEST(an_empty_answer_needs_no_memory)
{
	cleanup_screen struct screen screen = make();

	screen_hide(&screen, NULL, 0);
	CHECK_INT(screen_tail(&screen, NULL, 0), 0);
}

TEST(escapes_are_seen_through_and_keep_their_size)
{
	cleanup_screen struct screen screen = make();

	CHECK_STR(hidden(&screen, "\"sk-Secret\\/12.xYz9\""), "\"sk-Aaaaaa\\/00.aAa0\"");
	CHECK_STR(hidden(&screen, "?k=sk-Secret%2F12.xYz9&"), "?k=sk-Aaaaaa%2f00.aAa0&");
	CHECK_STR(hidden(&screen, "?k=sk-Secret%252F12.xYz9&"), "?k=sk-Aaaaaa%252f00.aAa0&");
	CHECK_STR(hidden(&screen, "sk-\\u0053ecret/12.x\\x59z9"), "sk-\\u0041aaaaa/00.a\\x41a0");
	CHECK_STR(hidden(&screen, "sk-\\\\u0053ecret/12.xYz9"), "sk-\\\\u0041aaaaa/00.aAa0");
	CHECK_STR(hidden(&screen, "sk-\\123ecret/12.xYz9"), "sk-\\101aaaaa/00.aAa0");
	CHECK_STR(hidden(&screen, "sk-&#83;ecret&#x2F;12.xYz9"), "sk-&#65;aaaaa&#x2f;00.aAa0");
	CHECK(is_hidden(&screen, "sk-&#83ecret/12.xYz9") &&
	      is_hidden(&screen, "sk-&#x000000000053;ecret/12.xYz9"));
	CHECK(is_hidden(&screen, "sk-Secret&sol;12&period;xYz9"));
	/* 'c' has two digits, what stands for 't' three. */
	CHECK_STR(hidden(&screen, "sk-Se&#99;ret/12.xYz9"), "sk-Aa&#97;aaa/00.aAa0");
}

/* A reading that starts before the value must not hide where the value starts. */
TEST(an_escape_in_front_of_a_value_hides_nothing)
{
	cleanup_screen struct screen screen = {0};

	CHECK(sodium_init() >= 0);
	CHECK_INT(screen_add_value(&screen, "41b/c0d123", "00a/a0a000", 10), 0);
	CHECK_STR(hidden(&screen, "%41b/c0d123 "), "%00a/a0a000 ");
	CHECK_STR(hidden(&screen, "%2541b%2Fc0d123 "), "%2500a%2fa0a000 ");
	CHECK_STR(hidden(&screen, "\\41b/c0d123 "), "\\00a/a0a000 ");
	CHECK_STR(hidden(&screen, "\\u0041b/c0d123 "), "\\u0000a/a0a000 ");
	CHECK_STR(hidden(&screen, "&#41b/c0d123 "), "&#00a/a0a000 ");
}

TEST(a_value_with_signs_of_escapes_is_hidden_as_it_is)
{
	cleanup_screen struct screen screen = {0};

	CHECK(sodium_init() >= 0);
	CHECK_INT(screen_add_value(&screen, "a%41b\\x41&amp;", "x%00y\\z00&xyz;", 14), 0);
	CHECK_STR(hidden(&screen, "[a%41b\\x41&amp;]"), "[x%00y\\z00&xyz;]");
	CHECK(is_hidden(&screen, "a%2541b%5Cx41%26amp%3B"));
	/* Several times: "%" becomes "%25" becomes "%2525". */
	CHECK(is_hidden(&screen, "a%252541b%255Cx41%2526amp%253B"));
	CHECK(is_hidden(&screen, "\\a%252541b%255Cx41%2526amp%253B"));
	CHECK(is_hidden(&screen, "\\%2561%2525%2534%2531%2562%255c%2578%2534%2531%2526%2561%256d"
				 "%2570%253b"));
}

TEST(a_blank_behind_a_backslash_is_seen)
{
	cleanup_screen struct screen screen = {0};

	CHECK(sodium_init() >= 0);
	CHECK_INT(screen_add_value(&screen, "open sesame 1", "abcd efghij 2", 13), 0);
	CHECK(is_hidden(&screen, "open\\ sesame\\ 1") && is_hidden(&screen, "open%20sesame&#32;1"));
}

TEST(wide_characters_are_seen)
{
	cleanup_screen struct screen screen = make();

	for (size_t width = 1; width <= 4; width *= 2)
		for (size_t place = 0; place < width; place++) {
			char text[SIZE * 4 + 8] = {0}, want[SIZE * 4 + 8] = {0};

			for (size_t i = 0; i < SIZE; i++) {
				text[i * width + place] = value[i];
				want[i * width + place] = shown[i];
			}
			screen_hide(&screen, text, SIZE * width + 4);
			CHECK(memcmp(text, want, sizeof text) == 0);
		}
}

TEST(hexadecimal_and_base64_at_every_offset_are_seen)
{
	static const int variants[] = {sodium_base64_VARIANT_ORIGINAL,
				       sodium_base64_VARIANT_URLSAFE_NO_PADDING};
	cleanup_screen struct screen screen = make();
	char text[256], upper[256];

	sodium_bin2hex(text, sizeof text, (const unsigned char *)value, SIZE);
	CHECK(is_hidden(&screen, text));
	for (size_t i = 0; i <= strlen(text); i++)
		upper[i] = (char)(text[i] >= 'a' ? text[i] - 32 : text[i]);
	CHECK(is_hidden(&screen, upper));
	for (size_t i = 0; i < 6; i++) {
		char plain[128];
		unsigned char back[128];
		size_t n = 0;

		snprintf(plain, sizeof plain, "%.*s%s%.*s", (int)i % 3, "::::", value, (int)i,
			 "??????");
		sodium_bin2base64(text, sizeof text, (unsigned char *)plain, strlen(plain),
				  variants[i % 2]);
		CHECK(is_hidden(&screen, text));
		CHECK_INT(sodium_base642bin(back, sizeof back, hidden(&screen, text), strlen(text),
					    NULL, &n, NULL, variants[i % 2]),
			  0);
		/* Matches that share a character with a neighbour stay. */
		CHECK(!memmem(back, n, value + 1, SIZE - 2));
	}
}

/* Item 6 of the review: the length of what waits was the length of the right guess. */
TEST(what_waits_does_not_depend_on_the_value)
{
	static const char other[] = "sk-Zyxwvu/98.aBc7";
	cleanup_screen struct screen screen = make();

	for (size_t n = 0; n < SIZE; n++) {
		char right[64], wrong[64];

		snprintf(right, sizeof right, "%.*s", (int)n, value);
		snprintf(wrong, sizeof wrong, "%.*s", (int)n, other);
		CHECK_INT(screen_tail(&screen, right, n), screen_tail(&screen, wrong, n));
		CHECK_INT(screen_tail(&screen, right, n), n);
	}
	CHECK_INT(screen_tail(&screen, "data: {\"x\": 1}\n\n", 16), 0);
	CHECK_INT(screen_tail(&screen, "{\"x\": 1}", 8), 0);
	CHECK_INT(screen_tail(&screen, "\"sk-Sec", 7), 6);
	CHECK(screen_tail_max(&screen) < 1024);
}

TEST(a_unit_at_the_end_is_not_read_beyond_it)
{
	static const char *const cut[] = {"%",	    "%4",   "%25",   "%254", "\\",	  "\\u",
					  "\\u004", "\\x4", "\\\\",  "&",    "&#",	  "&#6",
					  "&#65",   "&#x",  "&#x41", "&am",  "\\U0000004"};

	for (size_t i = 0; i < ARRAY_SIZE(cut); i++) {
		size_t size = strlen(cut[i]);
		cleanup_free uint8_t *text = malloc(size);
		struct unit unit;

		CHECK(text);
		memcpy(text, cut[i], size);
		unit_read(text, text + size, -1, &unit);
		CHECK(unit.size >= 1 && unit.size <= size);
	}
}
