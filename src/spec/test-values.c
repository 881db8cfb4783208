/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "base/test.h"
#include "spec/spec.h"

static uint64_t parsed(enum spec_limit_id id, const char *text)
{
	uint64_t value = 0;

	if (spec_parse_limit(id, text, &value, NULL) < 0)
		return 0;
	return value;
}

static const char *formatted(enum spec_limit_id id, uint64_t value)
{
	static char text[64];

	spec_format_limit(id, value, text, sizeof text);
	return text;
}

TEST(sizes_count_in_powers_of_1024)
{
	CHECK_INT(parsed(SPEC_MEMORY, "4194304"), 4194304);
	CHECK_INT(parsed(SPEC_MEMORY, "4194304B"), 4194304);
	CHECK_INT(parsed(SPEC_MEMORY, "512M"), 512LL << 20);
	CHECK_INT(parsed(SPEC_MEMORY, "512m"), 512LL << 20);
	CHECK_INT(parsed(SPEC_MEMORY, "4Gi"), 4LL << 30);
	CHECK_INT(parsed(SPEC_MEMORY, "1.5GiB"), 3LL << 29);
	CHECK_INT(parsed(SPEC_MEMORY, "0.25T"), 1LL << 38);
	CHECK_INT(parsed(SPEC_MEMORY, "1P"), 1LL << 50);
	CHECK_INT(parsed(SPEC_OUTPUT, "1"), 1);
}

TEST(times_are_seconds_unless_a_unit_says_otherwise)
{
	CHECK_INT(parsed(SPEC_WALL, "60"), 60000);
	CHECK_INT(parsed(SPEC_WALL, "250ms"), 250);
	CHECK_INT(parsed(SPEC_WALL, "90s"), 90000);
	CHECK_INT(parsed(SPEC_WALL, "10m"), 600000);
	CHECK_INT(parsed(SPEC_WALL, "10min"), 600000);
	CHECK_INT(parsed(SPEC_WALL, "1h30m"), 5400000);
	CHECK_INT(parsed(SPEC_WALL, "0.5s"), 500);
	CHECK_INT(parsed(SPEC_WALL, "1.5"), 1500);
	CHECK_INT(parsed(SPEC_WALL, "365d"), 365LL * 86400000);
}

TEST(cpus_have_thousandths_and_counts_have_none)
{
	CHECK_INT(parsed(SPEC_CPUS, "2"), 2000);
	CHECK_INT(parsed(SPEC_CPUS, "1.5"), 1500);
	CHECK_INT(parsed(SPEC_CPUS, "0.125"), 125);
	CHECK_INT(parsed(SPEC_PIDS, "512"), 512);
	CHECK_INT(parsed(SPEC_PIDS, "512.0"), 0);
}

TEST(unlimited_is_a_word_and_never_a_number)
{
	for (enum spec_limit_id id = 0; id < SPEC_LIMIT_COUNT; id++) {
		CHECK(parsed(id, "unlimited") == (id == SPEC_GRACE ? 0 : SPEC_UNLIMITED));
		CHECK_INT(parsed(id, "18446744073709551615"), 0);
		CHECK_INT(parsed(id, "-1"), 0);
		CHECK_INT(parsed(id, "Unlimited"), 0);
	}
}

TEST(the_time_to_end_may_be_nothing_and_is_never_without_end)
{
	struct atoll_error err = {0};
	uint64_t value = 7;

	CHECK(spec_parse_limit(SPEC_GRACE, "0s", &value, NULL) == 0 && value == 0);
	CHECK(spec_parse_limit(SPEC_GRACE, "unlimited", &value, &err) < 0);
	CHECK_STR(err.text,
		  "grace 'unlimited' is not a time; allowed is 0s to 10m; for example 5s");
}

TEST(what_is_no_number_is_refused)
{
	static const char *const bad[] = {
		"",
		"0",
		" 4G",
		"4G ",
		"4 G",
		"10gg",
		"1e99",
		"18446744073709551616",
		"0x10000000",
		"4000000_0",
		"+4G",
		"4GB",
		"4,5G",
		"1.G",
		".5G",
		"04G",
		"4G4M",
		"1.1234567G",
		"G",
		"inf",
		"nan",
		"4G\n",
		"99999999999999999999999999P",
		"all",
		"0.0",
		"null",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct atoll_error err = {0};
		uint64_t value = 7;

		CHECK(spec_parse_limit(SPEC_MEMORY, bad[i], &value, &err) < 0);
		CHECK_INT(err.fault, ATOLL_FAULT_REQUEST);
		CHECK(strstr(err.text, "allowed is 4M to 1P"));
		CHECK(strstr(err.text, "for example 512M"));
		CHECK_INT(value, 7);
	}
}

TEST(every_limit_is_whole)
{
	for (enum spec_limit_id id = 0; id < SPEC_LIMIT_COUNT; id++) {
		const struct spec_limit_info *info = &spec_limits[id];
		char least[32] = "", most[32] = "";

		CHECK(sscanf(info->range, "%31s to %31s", least, most) == 2);
		CHECK_INT(parsed(id, least), info->least);
		CHECK_INT(parsed(id, most), info->most);
		CHECK(parsed(id, info->example) > 0);
		CHECK(info->preset == SPEC_UNLIMITED ||
		      (info->preset >= info->least && info->preset <= info->most));
	}
}

TEST(numbers_are_shown_the_way_people_write_them)
{
	CHECK_STR(formatted(SPEC_MEMORY, 4LL << 30), "4 GiB");
	CHECK_STR(formatted(SPEC_MEMORY, 3LL << 29), "1.5 GiB");
	CHECK_STR(formatted(SPEC_MEMORY, (1LL << 30) + (1LL << 20)), "1025 MiB");
	CHECK_STR(formatted(SPEC_OUTPUT, 1000), "1000 bytes");
	CHECK_STR(formatted(SPEC_WALL, 600000), "10 min");
	CHECK_STR(formatted(SPEC_WALL, 5400000), "1 h 30 min");
	CHECK_STR(formatted(SPEC_WALL, 1250), "1 s 250 ms");
	CHECK_STR(formatted(SPEC_CPUS, 1500), "1.5");
	CHECK_STR(formatted(SPEC_CPUS, 2000), "2");
	CHECK_STR(formatted(SPEC_PIDS, 1024), "1024");
	CHECK_STR(formatted(SPEC_CPUS, SPEC_UNLIMITED), "unlimited");
}
