/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"

#include <stdlib.h>

/* The program's own, beside the one that the tests run on. */
#define qsort own_qsort
void own_qsort(void *items, size_t n, size_t size, int (*compare)(const void *, const void *));
#include "base/libc-sort.c" // NOLINT(bugprone-suspicious-include)
#undef qsort

static size_t n_compared;

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	n_compared++;
	return (x > y) - (x < y);
}

static bool is_sorted(const uint64_t *items, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (items[i - 1] > items[i])
			return false;
	return true;
}

TEST(few_and_many_are_sorted_and_none_is_lost)
{
	static uint64_t items[2 * FEW];

	for (size_t n = 0; n <= 2 * FEW; n++) {
		uint64_t sum = 0, after = 0;

		for (size_t i = 0; i < n; i++)
			sum += items[i] = (uint64_t)random() % (n + 1);
		own_qsort(items, n, sizeof *items, by_value);
		for (size_t i = 0; i < n; i++)
			after += items[i];
		CHECK(is_sorted(items, n));
		CHECK(sum == after);
	}
}

static int by_first_byte(const void *a, const void *b)
{
	return *(const unsigned char *)a - *(const unsigned char *)b;
}

TEST(items_of_other_sizes_are_sorted_as_well)
{
	char items[] = "c3.a1.d4.b2.";

	own_qsort(items, 4, 3, by_first_byte);
	CHECK_STR(items, "a1.b2.c3.d4.");
}

TEST(what_is_in_order_is_only_looked_at)
{
	uint64_t items[100];

	for (size_t i = 0; i < 100; i++)
		items[i] = i;
	n_compared = 0;
	own_qsort(items, 100, sizeof *items, by_value);
	CHECK(is_sorted(items, 100));
	CHECK(n_compared < 100);
}
