/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/archive.h"
#include "base/test.h"

#include <errno.h>

static const char *clean(const char *name)
{
	static char ret[ARC_NAME_MAX];
	struct atoll_error err = {0};
	size_t depth;

	return arc_clean_name(name, ret, &depth, &err) == 0 ? ret : NULL;
}

TEST(plain_names_stay_and_odd_ones_become_plain)
{
	CHECK_STR(clean("a"), "a");
	CHECK_STR(clean("./a/b"), "a/b");
	CHECK_STR(clean("a//b/./c/"), "a/b/c");
	CHECK_STR(clean("..a/b.."), "..a/b..");
	CHECK_STR(clean("..."), "...");
	CHECK_STR(clean("./"), "");
	CHECK_STR(clean("."), "");
	CHECK_STR(clean("\xff\n"), "\xff\n");
}

TEST(names_that_lead_elsewhere_are_refused)
{
	CHECK(!clean(""));
	CHECK(!clean("/"));
	CHECK(!clean("/a"));
	CHECK(!clean("//a"));
	CHECK(!clean(".."));
	CHECK(!clean("../a"));
	CHECK(!clean("a/../b"));
	CHECK(!clean("a/.."));
	CHECK(!clean("./../a"));
}

TEST(names_that_are_too_long_or_too_deep_are_refused)
{
	char text[2 * ARC_NAME_MAX];

	memset(text, 'a', sizeof text);
	text[255] = '\0';
	CHECK(clean(text));
	text[255] = 'a';
	text[256] = '\0';
	CHECK(!clean(text));
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = i % 2 ? '/' : 'a';
	text[2 * ARC_DEPTH_MAX - 1] = '\0';
	CHECK(clean(text));
	text[2 * ARC_DEPTH_MAX - 1] = '/';
	text[2 * ARC_DEPTH_MAX + 1] = '\0';
	CHECK(!clean(text));
	/* Long by its whole, with parts that are not. */
	memset(text, 'b', sizeof text);
	for (size_t i = 200; i < sizeof text; i += 201)
		text[i] = '/';
	text[sizeof text - 1] = '\0';
	CHECK(!clean(text));
}

TEST(a_link_stays_if_it_goes_up_only_at_its_beginning_and_not_above_the_top)
{
	CHECK(arc_link_stays("a", 1));
	CHECK(arc_link_stays("a/b/c", 1));
	CHECK(arc_link_stays(".", 1));
	CHECK(arc_link_stays("../a", 2));
	CHECK(arc_link_stays("./../a", 2));
	CHECK(arc_link_stays("../../a", 3));
	CHECK(!arc_link_stays("..", 1));
	CHECK(!arc_link_stays("../a", 1));
	CHECK(!arc_link_stays("../../a", 2));
	CHECK(!arc_link_stays("/", 5));
	CHECK(!arc_link_stays("/etc/passwd", 5));
	CHECK(!arc_link_stays("", 5));
	/* If "x" is a link to ".", this is the directory above the top. */
	CHECK(!arc_link_stays("x/..", 1));
	CHECK(!arc_link_stays("x/../y", 9));
	CHECK(!arc_link_stays("../x/../y", 9));
}

TEST(whiteouts_are_known_at_any_depth)
{
	CHECK(arc_is_whiteout(".wh.x"));
	CHECK(arc_is_whiteout("a/b/.wh..wh..opq"));
	CHECK(arc_is_whiteout("a/.wh.x/b"));
	CHECK(!arc_is_whiteout("a/.whx"));
	CHECK(!arc_is_whiteout("a.wh.x"));
	CHECK(!arc_is_whiteout(""));
}

TEST(attributes_of_users_are_taken_and_those_of_overlays_are_hostile)
{
	bool is_hostile;

	CHECK(arc_takes_attribute("user.note", &is_hostile) && !is_hostile);
	CHECK(!arc_takes_attribute("security.capability", &is_hostile) && !is_hostile);
	CHECK(!arc_takes_attribute("user.overlay.opaque", &is_hostile) && is_hostile);
	CHECK(!arc_takes_attribute("trusted.overlay.redirect", &is_hostile) && is_hostile);
}
