/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "init/turns.h"

#define MS INT64_C(1000000)

/* Whether callers are taken to work side by side at the end: one digit each, a millisecond apart.
 */
static bool end_mixed(const char *callers, int64_t apart_ns)
{
	struct turns turns = {0};
	int64_t now = 1000 * MS;
	bool is_mixed = false;

	for (; *callers; callers++, now += apart_ns)
		is_mixed = turns_are_mixed(&turns, *callers, now);
	return is_mixed;
}

TEST(one_after_the_other)
{
	CHECK(!end_mixed("1", MS));
	CHECK(!end_mixed("111111111", MS));
	/* a shell whose commands each end before the next */
	CHECK(!end_mixed("1222133314441555", MS));
	/* a compiler's driver and its passes */
	CHECK(!end_mixed("11222222333333311", MS));
	CHECK(!end_mixed("123456789", MS));
}

TEST(side_by_side)
{
	CHECK(end_mixed("1212", MS));
	CHECK(end_mixed("11122112", MS));
	CHECK(end_mixed("1111222211112222", MS));
	/* too far apart to matter */
	CHECK(!end_mixed("1212", 30 * MS));
}

TEST(it_passes)
{
	struct turns turns = {0};
	int64_t now = 1000 * MS;

	for (int i = 0; i < 10; i++)
		turns_are_mixed(&turns, 1 + i % 2, now += MS);
	CHECK(turns_are_mixed(&turns, 1, now += MS));
	CHECK(turns_are_mixed(&turns, 1, now += 10 * MS));
	CHECK(!turns_are_mixed(&turns, 1, now += 60 * MS));
	CHECK(!turns_are_mixed(&turns, 2, now += MS));
	CHECK(turns_are_mixed(&turns, 1, now += MS));
}

TEST(threads_that_take_turns)
{
	struct turns turns = {.is_narrow = true};
	int64_t now = 1000 * MS;

	/* nothing is known yet */
	CHECK(turns_are_narrow(&turns, 10 * MS, now));
	/* one CPU, then both, then one and a bit */
	CHECK(turns_are_narrow(&turns, 60 * MS, now += 50 * MS));
	CHECK(!turns_are_narrow(&turns, 160 * MS, now += 50 * MS));
	CHECK(turns_are_narrow(&turns, 220 * MS, now += 50 * MS));
}
