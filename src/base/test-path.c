/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"

#include <limits.h>

/* What path_normalize() makes of `path`; good until the next call. */
static const char *normal(const char *path)
{
	static char plain[PATH_MAX];

	snprintf(plain, sizeof plain, "%s", path);
	path_normalize(plain);
	return plain;
}

TEST(a_plain_path_stays_as_it_is)
{
	CHECK_STR(normal("/"), "/");
	CHECK_STR(normal("/a"), "/a");
	CHECK_STR(normal("/a/b/c"), "/a/b/c");
}

TEST(empty_components_and_dots_vanish)
{
	CHECK_STR(normal("//a///b//"), "/a/b");
	CHECK_STR(normal("/./a/././b/."), "/a/b");
	CHECK_STR(normal("/a/"), "/a");
	CHECK_STR(normal("///"), "/");
	CHECK_STR(normal("/."), "/");
	CHECK_STR(normal("/./"), "/");
}

TEST(two_dots_take_the_component_before_them)
{
	CHECK_STR(normal("/a/../b"), "/b");
	CHECK_STR(normal("/a/b/.."), "/a");
	CHECK_STR(normal("/a/b/../"), "/a");
	CHECK_STR(normal("/a/b/../../c"), "/c");
	CHECK_STR(normal("/a/./../b"), "/b");
	CHECK_STR(normal("/a//../b"), "/b");
	CHECK_STR(normal("/long/../s/../longer/x"), "/longer/x");
}

TEST(two_dots_above_the_root_stay_at_the_root)
{
	CHECK_STR(normal("/.."), "/");
	CHECK_STR(normal("/../.."), "/");
	CHECK_STR(normal("/../../etc"), "/etc");
	CHECK_STR(normal("/a/../../../etc/passwd"), "/etc/passwd");
	CHECK_STR(normal("/a/.."), "/");
}

TEST(names_that_only_begin_with_dots_are_names)
{
	CHECK_STR(normal("/..."), "/...");
	CHECK_STR(normal("/a/.../b"), "/a/.../b");
	CHECK_STR(normal("/..a/.b/c.."), "/..a/.b/c..");
	CHECK_STR(normal("/a/.b/../..c"), "/a/..c");
	CHECK_STR(normal("/a/ /b"), "/a/ /b");
}

TEST(a_path_made_plain_twice_does_not_change_again)
{
	static const char *const paths[] = {"/a/../..//b/./c/", "/..", "//x/...//../y", "/"};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		char once[64];

		strcpy(once, normal(paths[i]));
		CHECK_STR(normal(once), once);
	}
}

TEST(within_means_the_directory_or_beneath_it)
{
	CHECK(path_is_within("/a", "/a"));
	CHECK(path_is_within("/a/b", "/a"));
	CHECK(path_is_within("/a/b/c", "/a/b"));
	CHECK(!path_is_within("/a", "/a/b"));
	CHECK(!path_is_within("/b", "/a"));
	CHECK(!path_is_within("/", "/a"));
}

TEST(a_longer_name_is_not_within_a_shorter_one)
{
	CHECK(!path_is_within("/ab", "/a"));
	CHECK(!path_is_within("/a-b/c", "/a"));
	CHECK(!path_is_within("/a/bc", "/a/b"));
}

TEST(everything_absolute_is_within_the_root)
{
	CHECK(path_is_within("/", "/"));
	CHECK(path_is_within("/a", "/"));
	CHECK(path_is_within("/a/b", "/"));
	CHECK(!path_is_within("a", "/"));
}

TEST(depth_counts_components_and_the_root_has_none)
{
	CHECK_INT(path_depth("/"), 0);
	CHECK_INT(path_depth("/a"), 1);
	CHECK_INT(path_depth("/a/b/c"), 3);
}

TEST(the_name_is_the_last_component)
{
	CHECK_STR(path_name("/a/b"), "b");
	CHECK_STR(path_name("/a"), "a");
	CHECK_STR(path_name("a"), "a");
	CHECK_STR(path_name("/"), "/");
}

TEST(joining_to_the_root_makes_one_slash)
{
	cleanup_free char *root = path_join("/", "x");
	cleanup_free char *deep = path_join("/a/b", "c");

	CHECK_STR(root, "/x");
	CHECK_STR(deep, "/a/b/c");
}

TEST(a_pattern_without_stars_matches_itself_and_what_lies_beneath)
{
	CHECK(path_glob("/a/b", "/a/b"));
	CHECK(path_glob("/a/b", "/a/b/c/d"));
	CHECK(!path_glob("/a/b", "/a"));
	CHECK(!path_glob("/a/b", "/a/bc"));
	CHECK(!path_glob("/a/b", "/x/a/b"));
	CHECK(!path_glob("/a/b", "/"));
	CHECK(path_glob("/", "/"));
	CHECK(path_glob("/", "/a"));
}

TEST(one_star_stays_within_one_component)
{
	CHECK(path_glob("/a/*", "/a/b"));
	CHECK(!path_glob("/a/*", "/a"));
	CHECK(path_glob("/a/*/c", "/a/b/c"));
	CHECK(!path_glob("/a/*/c", "/a/c"));
	CHECK(!path_glob("/a/*/c", "/a/b/b/c"));
	CHECK(path_glob("/*.key", "/x.key"));
	CHECK(!path_glob("/*.key", "/d/x.key"));
	CHECK(path_glob("/*", "/.hidden"));
}

TEST(a_question_mark_and_a_set_never_match_a_slash)
{
	CHECK(path_glob("/a?b", "/axb"));
	CHECK(!path_glob("/a?b", "/a/b"));
	CHECK(path_glob("/[ab]/c", "/b/c"));
	CHECK(!path_glob("/[ab]/c", "/c/c"));
	CHECK(!path_glob("/a[!x]b", "/a/b"));
	CHECK(!path_glob("/a[.-0]b", "/a/b"));
}

TEST(two_stars_in_front_match_at_any_depth)
{
	CHECK(path_glob("/**/x", "/x"));
	CHECK(path_glob("/**/x", "/a/x"));
	CHECK(path_glob("/**/x", "/a/b/c/x"));
	CHECK(path_glob("/**/x", "/a/x/beneath"));
	CHECK(!path_glob("/**/x", "/a/xx"));
	CHECK(!path_glob("/**/x", "/a/b"));
	CHECK(!path_glob("/**/x", "/"));
}

TEST(two_stars_in_the_middle_stand_for_none_or_many)
{
	CHECK(path_glob("/a/**/z", "/a/z"));
	CHECK(path_glob("/a/**/z", "/a/b/z"));
	CHECK(path_glob("/a/**/z", "/a/b/c/d/z"));
	CHECK(!path_glob("/a/**/z", "/a"));
	CHECK(!path_glob("/a/**/z", "/z"));
	CHECK(!path_glob("/a/**/z", "/b/a/z"));
	CHECK(!path_glob("/a/**/z", "/a/b/c"));
}

TEST(two_stars_at_the_end_match_the_directory_itself)
{
	CHECK(path_glob("/a/**", "/a"));
	CHECK(path_glob("/a/**", "/a/b/c"));
	CHECK(!path_glob("/a/**", "/ab"));
	CHECK(!path_glob("/a/**", "/"));
	CHECK(path_glob("/**", "/"));
	CHECK(path_glob("/**", "/a/b"));
	CHECK(path_glob("/**/**", "/"));
}

TEST(two_stars_in_several_places_go_back_and_try_again)
{
	CHECK(path_glob("/**/a/b", "/a/a/b"));
	CHECK(path_glob("/**/a/b", "/a/x/a/b"));
	CHECK(path_glob("/**/a/**/b", "/x/a/y/z/b"));
	CHECK(path_glob("/**/a/**/b", "/a/b"));
	CHECK(!path_glob("/**/a/**/b", "/b/a"));
	CHECK(path_glob("/**/**/b", "/b"));
	CHECK(path_glob("/**/*/b", "/x/b"));
	CHECK(!path_glob("/**/*/b", "/b"));
	CHECK(path_glob("/**/a/*/c/**/e", "/a/a/b/c/d/d/e"));
}

TEST(two_stars_beside_other_letters_stay_within_one_component)
{
	CHECK(path_glob("/a**", "/abc"));
	CHECK(!path_glob("/a**/z", "/ab/c/z"));
	CHECK(path_glob("/**a/z", "/ba/z"));
	CHECK(!path_glob("/**a/z", "/b/a/z"));
	CHECK(path_glob("/***", "/x"));
	CHECK(!path_glob("/***", "/"));
}

TEST(a_name_that_looks_like_a_pattern_means_itself_as_well)
{
	CHECK(path_glob("/a/[x]", "/a/[x]"));
	CHECK(path_glob("/a/[x]", "/a/x"));
	CHECK(path_glob("/[!a]/b", "/[!a]/b"));
	CHECK(path_glob("/a/[x", "/a/[x"));
	CHECK(!path_glob("/a/[x", "/a/x"));
	CHECK(path_glob("/a/?", "/a/?"));
	CHECK(path_glob("/**/[x]/y", "/a/[x]/y"));
}

TEST(a_path_with_stars_in_its_names_is_no_pattern)
{
	CHECK(!path_glob("/a/b", "/a/*"));
	CHECK(!path_glob("/a/b", "/**"));
	CHECK(!path_glob("/a/b", "/a/?"));
	CHECK(path_glob("/a/**/b", "/a/**/b"));
	CHECK(!path_glob("/a/x/b", "/a/**/b"));
}

/* exFAT and NTFS have names of more than NAME_MAX bytes; they must not slip out of a rule. */
TEST(a_very_long_name_is_matched_like_any_other)
{
	char name[766], path[800], pattern[800];

	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = '\0';

	snprintf(path, sizeof path, "/a/%s", name);
	CHECK(path_glob("/a", path));
	CHECK(path_glob("/a/**", path));
	CHECK(path_glob("/a/n*n", path));
	CHECK(!path_glob("/a/n*x", path));
	snprintf(pattern, sizeof pattern, "/a/%s", name);
	CHECK(path_glob(pattern, path));
	pattern[strlen(pattern) - 1] = 'x';
	CHECK(!path_glob(pattern, path));

	snprintf(path, sizeof path, "/%s/x", name);
	CHECK(path_glob("/**/x", path));
	CHECK(!path_glob("/**/y", path));
}

TEST(a_component_past_any_path_matches_only_from_above)
{
	static char path[3 * PATH_MAX];

	memset(path, 'n', sizeof path - 1);
	path[0] = path[2] = '/';
	path[1] = 'a';
	CHECK(path_glob("/a", path));
	CHECK(path_glob("/a/**", path));
	CHECK(!path_glob("/a/m", path));
	CHECK(!path_glob(path, "/a/n"));
}

TEST(stars_question_marks_and_brackets_make_a_pattern)
{
	CHECK(path_is_pattern("/a/*"));
	CHECK(path_is_pattern("/a?"));
	CHECK(path_is_pattern("/[a"));
	CHECK(!path_is_pattern("/a]"));
	CHECK(!path_is_pattern("/a!{b}\\"));
	CHECK(!path_is_pattern(""));
}
