/* SPDX-License-Identifier: Apache-2.0 */
#include "base/share.h"

#include "base/test.h"

#include <sys/resource.h>
#include <unistd.h>

#define COUNT 20000

static void count_one(size_t i, void *data)
{
	((unsigned char *)data)[i]++;
}

static bool each_was_done_once(const unsigned char *times, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (times[i] != 1)
			return false;
	return true;
}

TEST(shared_work_is_done_once_each)
{
	static unsigned char times[COUNT + 1];

	share_work(0, count_one, times);
	CHECK(times[0] == 0);
	share_work(COUNT, count_one, times);
	CHECK(each_was_done_once(times, COUNT));
	CHECK(times[COUNT] == 0);
}

/* Waits until the other one has begun: with one thread alone it would never end. */
static void meet(size_t i, void *data)
{
	int *n = data;

	(void)i;
	__atomic_add_fetch(n, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(n, __ATOMIC_SEQ_CST) < 2)
		usleep(100);
}

TEST(two_do_shared_work)
{
	int n = 0;

	share_work(2, meet, &n);
	CHECK(n == 2);
}

TEST(shared_work_is_done_by_one_where_there_can_be_no_other)
{
	static unsigned char times[100];
	/* No room for a stack. */
	struct rlimit before, none;

	CHECK(getrlimit(RLIMIT_AS, &before) == 0);
	none = (struct rlimit){.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
	CHECK(setrlimit(RLIMIT_AS, &none) == 0);
	share_work(sizeof times, count_one, times);
	CHECK(setrlimit(RLIMIT_AS, &before) == 0);
	CHECK(each_was_done_once(times, sizeof times));
}
