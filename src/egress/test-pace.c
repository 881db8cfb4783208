/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "egress/core.h"
#include "spec/spec.h"

TEST(a_bucket_gives_its_rate_and_no_more_however_often_it_is_looked_at)
{
	struct bucket bucket;
	uint64_t taken = 0;
	int64_t again;

	bucket_init(&bucket, 1000003, 10000, 0);
	bucket_take(&bucket, 10000);
	for (int64_t now = 0; now <= 10 * SECOND_NS; now += 7919) {
		uint64_t most = bucket_look(&bucket, 1, now, &again);

		bucket_take(&bucket, most);
		taken += most;
	}
	CHECK(taken <= 10000030);
	CHECK(taken >= 10000030 - 2000);
}

TEST(a_bucket_says_when_there_will_be_enough)
{
	struct bucket bucket;
	int64_t again = 0;

	bucket_init(&bucket, 1000, 500, 0);
	bucket_take(&bucket, 500);
	CHECK_INT(bucket_look(&bucket, 100, 0, &again), 0);
	CHECK(again >= SECOND_NS / 10 && again <= SECOND_NS / 10 + 10);
	CHECK(bucket_look(&bucket, 100, again, &again) >= 100);
	/* Never more than it holds, however long nobody came. */
	CHECK_INT(bucket_look(&bucket, 1, 1000 * SECOND_NS, &again), 500);
	/* Nor is more waited for than it can hold. */
	bucket_take(&bucket, 500);
	CHECK_INT(bucket_look(&bucket, 1000, 1000 * SECOND_NS, &again), 0);
	CHECK(again <= 1000 * SECOND_NS + SECOND_NS / 2 + 10);
}

TEST(no_rate_is_no_limit_and_a_rate_of_nothing_is_nothing)
{
	struct bucket bucket;
	int64_t again = 0;

	bucket_init(&bucket, SPEC_UNLIMITED, 1, 0);
	CHECK(bucket_look(&bucket, 1, 0, &again) == UINT64_MAX);
	bucket_take(&bucket, 1 << 30);
	CHECK(bucket_look(&bucket, 1, 0, &again) == UINT64_MAX);
	bucket_init(&bucket, 0, 1, 0);
	bucket_take(&bucket, 1);
	CHECK_INT(bucket_look(&bucket, 1, 100 * SECOND_NS, &again), 0);
	CHECK(again > 0);
}

TEST(large_rates_do_not_overflow)
{
	struct bucket bucket;
	int64_t again = 0;

	bucket_init(&bucket, UINT64_MAX - 1, UINT64_MAX / 8, 0);
	bucket_take(&bucket, UINT64_MAX / 8);
	CHECK(bucket_look(&bucket, 1, INT64_MAX / 2, &again) == UINT64_MAX / 8);
}
