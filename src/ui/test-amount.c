/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "ui/amount.h"

TEST(ages_and_sizes_are_read_as_people_write_them)
{
	uint64_t value;

	CHECK(amount_parse_age("7d", &value, NULL) == 0);
	CHECK_INT(value, 7 * 86400);
	CHECK(amount_parse_age("90s", &value, NULL) == 0);
	CHECK_INT(value, 90);
	CHECK(amount_parse_size("5G", &value, NULL) == 0);
	CHECK_INT(value, 5LL << 30);
	CHECK(amount_parse_size("12", &value, NULL) == 0);
	CHECK_INT(value, 12);
}

TEST(what_is_no_amount_is_refused)
{
	static const char *const bad[] = {"",	"d",   "-1d",  "1",
					  "1y", "1 d", "1d2h", "99999999999999999999s"};
	uint64_t value;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(amount_parse_age(bad[i], &value, NULL) < 0);
	CHECK(amount_parse_size("99999999999T", &value, NULL) < 0);
	CHECK(amount_parse_size("5X", &value, NULL) < 0);
}
