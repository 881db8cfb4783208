/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "httpd/query.h"

#include <stdlib.h>

static char *words;
static size_t size;

static void split(const char *text)
{
	free(words);
	words = query_split(text, strlen(text), &size);
	CHECK(words);
}

static void segments(const char *text)
{
	free(words);
	words = query_segments(text, strlen(text), &size);
	CHECK(words);
}

TEST(parameters_are_decoded)
{
	split("?path=a%2Fb+c&user=%C3%A9&flag&empty=&path=second&a=b=c");
	CHECK_STR(query_find(words, size, "path"), "a/b c");
	CHECK_STR(query_find(words, size, "user"), "é");
	CHECK_STR(query_find(words, size, "flag"), "");
	CHECK_STR(query_find(words, size, "empty"), "");
	CHECK_STR(query_find(words, size, "a"), "b=c");
	CHECK(!query_find(words, size, "none"));
	CHECK(!query_find(words, size, "second"));
}

TEST(nothing_is_no_parameter)
{
	split("");
	CHECK(!query_find(words, size, ""));
	split("?");
	CHECK(!query_find(words, size, ""));
	split("&&&");
	CHECK(!query_find(words, size, ""));
	split("?a&b&c&d&e");
	CHECK_STR(query_find(words, size, "e"), "");
}

TEST(escapes_that_make_no_sense_stay)
{
	split("a=%&b=%4&c=%zz&d=%00&e=%2500&f=%41%");
	CHECK_STR(query_find(words, size, "a"), "%");
	CHECK_STR(query_find(words, size, "b"), "%4");
	CHECK_STR(query_find(words, size, "c"), "%zz");
	CHECK_STR(query_find(words, size, "d"), "%00");
	CHECK_STR(query_find(words, size, "e"), "%00");
	CHECK_STR(query_find(words, size, "f"), "A%");
}

TEST(a_path_has_segments)
{
	segments("/a/b%2Fc+d");
	CHECK_STR(query_word(words, size, 0), "a");
	CHECK_STR(query_word(words, size, 1), "b/c+d");
	CHECK(!query_word(words, size, 2));
	segments("/");
	CHECK(!query_word(words, size, 0));
	segments("*");
	CHECK(!query_word(words, size, 0));
	segments("/a/");
	CHECK_STR(query_word(words, size, 1), "");
	CHECK(!query_word(words, size, 2));
	segments("//..//%2e%2E");
	CHECK_STR(query_word(words, size, 0), "");
	CHECK_STR(query_word(words, size, 1), "..");
	CHECK_STR(query_word(words, size, 2), "");
	CHECK_STR(query_word(words, size, 3), "..");
	CHECK(!query_word(words, size, 4));
}
