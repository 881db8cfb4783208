/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "httpd/time.h"

TEST(times_are_written_and_read_back)
{
	char text[32];
	int64_t ms;

	api_time(INT64_C(1794770843749), text);
	CHECK_STR(text, "2026-11-15T19:27:23.749Z");
	CHECK(api_parse_time(text, &ms));
	CHECK(ms == INT64_C(1794770843749));
	CHECK(api_parse_time("2026-11-15T20:27:23.7491+01:00", &ms));
	CHECK(ms == INT64_C(1794770843749));
	api_time(INT64_MAX, text);
	CHECK_STR(text, "9999-12-31T23:59:59.999Z");
	api_time(-1, text);
	CHECK_STR(text, "1969-12-31T23:59:59.999Z");
	api_time(INT64_MIN, text);
	CHECK_STR(text, "0000-01-01T00:00:00.000Z");
}

TEST(times_of_files_are_written_to_the_nanosecond)
{
	static const struct {
		int64_t ns;
		const char *text;
	} table[] = {
		{0, "1970-01-01T00:00:00.000000000Z"},
		{-1, "1969-12-31T23:59:59.999999999Z"},
		{INT64_C(1794770843000000007), "2026-11-15T19:27:23.000000007Z"},
		{INT64_C(1794787199999999999), "2026-11-15T23:59:59.999999999Z"},
		{INT64_C(1794787200000000000), "2026-11-16T00:00:00.000000000Z"},
		{INT64_C(-86400000000000), "1969-12-31T00:00:00.000000000Z"},
		{INT64_MAX, "2262-04-11T23:47:16.854775807Z"},
		{INT64_MIN, "1677-09-21T00:12:43.145224192Z"},
	};
	char text[32];

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		api_time_ns(table[i].ns, text);
		CHECK_STR(text, table[i].text);
	}
}

TEST(what_is_no_time_is_none)
{
	static const char *const bad[] = {"",
					  "2026",
					  "2026-11-15",
					  "2026-13-15T00:00:00Z",
					  "2026-02-30T00:00:00Z",
					  "2026-11-15T24:00:01Z",
					  "2026-11-15T00:00:00",
					  "2026-11-15T00:00:00.Z",
					  "2026-11-15T00:00:00Zx",
					  "2026-11-15T00:00:00+99:00"};
	int64_t ms;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (api_parse_time(bad[i], &ms))
			test_fail(__FILE__, __LINE__, "%s", bad[i]);
	}
}
