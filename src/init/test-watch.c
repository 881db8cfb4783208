/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/scope.h"
#include "base/test.h"
#include "init/watch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* The test looks at the whole machine here, where the first process looks at its own namespace; so
 * only what is this test's own is asked about. */

static struct init_usage usage;
static struct init_config config;
static struct watch watch;

static void begin(void)
{
	usage = (struct init_usage){0};
	config = (struct init_config){
		.usage = &usage,
		.limits = {.memory = SPEC_UNLIMITED,
			   .cpu_time_ms = SPEC_UNLIMITED,
			   .pids = SPEC_UNLIMITED,
			   .disk = SPEC_UNLIMITED,
			   .files = SPEC_UNLIMITED},
		.layer_fd = -1,
	};
	watch_open(&watch);
	watch_init(&watch, &config);
}

TEST(a_count_grows_and_is_not_taken_back)
{
	struct watch_count count = {0};
	bool is_losing = false;

	CHECK_INT(watch_count_add(&count, 10, true, &is_losing), 10);
	CHECK_INT(watch_count_add(&count, 25, true, &is_losing), 25);
	/* One look missed what was being handed over: nothing is added when it is back. */
	CHECK_INT(watch_count_add(&count, 5, true, &is_losing), 25);
	CHECK_INT(watch_count_add(&count, 27, true, &is_losing), 27);
	CHECK(!is_losing);
}

TEST(what_has_vanished_stays_counted)
{
	struct watch_count count = {0};
	bool is_losing = false;

	watch_count_add(&count, 100, true, &is_losing);
	watch_count_add(&count, 40, true, &is_losing);
	CHECK_INT(watch_count_add(&count, 45, true, &is_losing), 100);
	CHECK(is_losing);
	/* 55 are lost; from here on they are added to every sum. */
	CHECK_INT(watch_count_add(&count, 50, true, &is_losing), 105);
	CHECK_INT(watch_count_add(&count, 60, true, &is_losing), 115);
}

TEST(looks_in_which_processes_ended_prove_no_loss_until_there_are_many)
{
	struct watch_count count = {0};
	bool is_losing = false;

	watch_count_add(&count, 100, false, &is_losing);
	for (int i = 0; i < 15; i++)
		CHECK_INT(watch_count_add(&count, 40 + i, false, &is_losing), 100);
	CHECK(!is_losing);
	/* It was only on its way. */
	CHECK_INT(watch_count_add(&count, 101, false, &is_losing), 101);
	for (int i = 0; i < 15; i++)
		watch_count_add(&count, 60, false, &is_losing);
	CHECK(!is_losing);
	CHECK_INT(watch_count_add(&count, 50, false, &is_losing), 101);
	CHECK(is_losing);
	/* 41 are lost, by the best of these looks. */
	CHECK_INT(watch_count_add(&count, 70, false, &is_losing), 111);
}

TEST(a_look_without_limits_finds_nothing_wrong)
{
	struct watch_verdict verdict;

	begin();
	CHECK_INT(watch_look(&watch, &verdict), 0);
	CHECK_INT(verdict.limit, SPEC_LIMIT_COUNT);
	CHECK(usage.processes_peak > 0 && usage.memory_peak > 0);
	CHECK(watch.next_ns > 0);
}

TEST(memory_beyond_the_limit_is_named_with_what_was_used)
{
	struct watch_verdict verdict;

	begin();
	config.limits.memory = 4 << 10; /* less than this test has itself */
	CHECK_INT(watch_look(&watch, &verdict), 0);
	CHECK_INT(verdict.limit, SPEC_MEMORY);
	CHECK_INT(verdict.value, 4 << 10);
	CHECK(verdict.used > verdict.value && usage.memory_peak == verdict.used);
}

TEST(memory_that_a_group_counts_is_not_watched)
{
	struct watch_verdict verdict;

	begin();
	config.limits.is_memory_counted = true;
	config.limits.memory = 4 << 10;
	CHECK_INT(watch_look(&watch, &verdict), 0);
	CHECK_INT(verdict.limit, SPEC_LIMIT_COUNT);
	CHECK_INT(usage.memory_peak, 0);
}

/* How much one look's sum by shares grows by `n` children that only share what we have written. */
static uint64_t peak_with_children(int n, uint64_t limit)
{
	struct watch_verdict verdict;
	pid_t children[8];

	for (int i = 0; i < n; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			pause();
			_exit(0);
		}
	}
	begin();
	config.limits.memory = limit;
	watch_look(&watch, &verdict);
	for (int i = 0; i < n; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	return usage.memory_peak;
}

TEST(pages_shared_by_fork_count_once_when_it_matters)
{
	const size_t size = 64 << 20;
	char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t alone, together, cheap;

	CHECK(pages != MAP_FAILED);
	memset(pages, 1, size);
	alone = peak_with_children(0, 1); /* a limit of one byte: asks for shares */
	together = peak_with_children(4, 1);
	cheap = peak_with_children(4, SPEC_UNLIMITED);
	munmap(pages, size);
	/* Other programs of the machine come and go meanwhile. */
	CHECK(together < alone + 2 * size);
	CHECK(cheap > together + 2 * size);
}

TEST(a_reservation_beyond_the_limit_is_refused)
{
	begin();
	config.limits.disk = 100;
	CHECK(watch_reserve(&watch, 60));
	CHECK(!watch_reserve(&watch, 41));
	CHECK(watch_reserve(&watch, 40));
	CHECK_INT(usage.written, 100);
	CHECK(!watch_reserve(&watch, UINT64_MAX));
}

static int64_t until_next_ms(void)
{
	return (watch.next_ns - clock_monotonic_ns() + 999999) / 1000000;
}

TEST(who_comes_is_looked_at_soon_and_who_has_gone_within_the_usual_time)
{
	struct watch_verdict verdict;

	begin();
	watch_rest(&watch);
	watch_leave(&watch); /* nobody was there */
	CHECK(until_next_ms() > 1000);
	watch_wake(&watch);
	CHECK(until_next_ms() <= 10);
	watch_leave(&watch);
	CHECK(until_next_ms() > 10 && until_next_ms() <= 100);
	/* Others that come and go do not put it off any more. */
	for (int i = 0; i < 5; i++) {
		const int64_t next_ns = watch.next_ns;

		watch_wake(&watch);
		watch_leave(&watch);
		CHECK_INT(watch.next_ns, next_ns);
	}
	CHECK(watch_look(&watch, &verdict) == 0);
	watch.next_ns = clock_monotonic_ns();
	watch_leave(&watch); /* that one has been seen */
	CHECK(until_next_ms() <= 0);
}

TEST(the_floor_of_free_space_is_a_twentieth_and_at_most_a_gibibyte)
{
	CHECK_INT(init_space_floor(100 << 20), 5 << 20);
	CHECK_INT(init_space_floor(UINT64_C(1) << 40), 1 << 30);
	CHECK_INT(init_space_floor(0), 0);
}

TEST(files_in_a_layer_are_counted_where_others_make_some_as_well)
{
	cleanup_fd int dir = test_tempdir();
	struct watch_verdict verdict;
	bool is_partial;

	CHECK(mkdirat(dir, "upper", 0700) == 0);
	begin();
	config.layer_fd = dup(dir);
	config.limits.files = 3;
	watch_open(&watch);
	watch_init(&watch, &config);
	CHECK_INT(watch_look(&watch, &verdict), 0);
	CHECK_INT(verdict.limit, SPEC_LIMIT_COUNT);
	for (int i = 0; i < 9; i++) { /* outside, where they are nobody's business */
		char name[] = "other-0";

		name[6] = (char)('0' + i);
		CHECK(mkdirat(dir, name, 0700) == 0);
	}
	CHECK(mkdirat(dir, "upper/a", 0700) == 0 && mkdirat(dir, "upper/a/b", 0700) == 0);
	CHECK(symlinkat("nowhere", dir, "upper/a/c") == 0);
	CHECK_INT((long long)watch_count_names(dir, "upper", 100, &is_partial), 3);
	CHECK_INT(watch_look(&watch, &verdict), 0);
	CHECK_INT(verdict.limit, SPEC_LIMIT_COUNT);
	CHECK(mkdirat(dir, "upper/d", 0700) == 0);
	/* At once, or a little later if somebody else has just removed some on this file system. */
	for (int i = 0; i < 100 && verdict.limit != SPEC_FILES; i++) {
		CHECK_INT(watch_look(&watch, &verdict), 0);
		if (verdict.limit != SPEC_FILES)
			usleep(100000);
	}
	CHECK_INT(verdict.limit, SPEC_FILES);
	CHECK_INT((long long)verdict.used, 4);
}

/* `n` levels down, each with two more names that come before and after the way; the lowest. */
static int make_deep(int dir, int n)
{
	int fd = openat(dir, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC), next;

	for (int i = 0; i < n; i++) {
		CHECK(mkdirat(fd, "a", 0700) == 0 && mkdirat(fd, "down", 0700) == 0 &&
		      mkdirat(fd, "z", 0700) == 0);
		next = openat(fd, "down", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(next >= 0);
		close(fd);
		fd = next;
	}
	return fd;
}

static void remove_deep(int fd, int n)
{
	for (int i = 0; i < n; i++) {
		int next = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		close(fd);
		fd = next;
		unlinkat(fd, "down", AT_REMOVEDIR);
		unlinkat(fd, "a", AT_REMOVEDIR);
		unlinkat(fd, "z", AT_REMOVEDIR);
	}
	close(fd);
}

TEST(names_are_counted_also_in_a_deep_tree)
{
	static const struct {
		int levels;
		bool is_partial;
	} trees[] = {{127, false}, {128, false}, {129, false}, {130, false},
		     {256, false}, {257, false}, {700, false}};
	cleanup_fd int dir = test_tempdir();
	bool is_partial;

	CHECK(mkdirat(dir, "deep", 0700) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(trees); i++) {
		int lowest = make_deep(dir, trees[i].levels), before = dup(dir), after;
		uint64_t n, some;

		close(before);
		n = watch_count_names(dir, "deep", UINT64_MAX - 1, &is_partial);
		some = watch_count_names(dir, "deep", 300, &is_partial);
		CHECK(some == (n > 300 ? 301 : n));
		watch_count_names(dir, "deep", UINT64_MAX - 1, &is_partial);
		after = dup(dir);
		close(after);
		remove_deep(lowest, trees[i].levels);
		CHECK_INT(is_partial, trees[i].is_partial);
		if (!is_partial)
			CHECK_INT((long long)n, 3LL * trees[i].levels);
		CHECK_INT(after, before); /* it has closed what it opened */
	}
}

TEST(what_is_written_to_a_root_is_counted)
{
	cleanup_fd int dir = test_tempdir();
	struct init_zone zone = {.path = test_tempdir_path(), .kind = INIT_ZONE_GUARDED};
	struct watch_verdict verdict;

	CHECK(dir >= 0);
	begin();
	config.zones = &zone;
	config.n_zones = 1;
	watch_open(&watch);
	watch_init(&watch, &config);
	if (watch.own_io_fd < 0)
		test_skip("a kernel that counts what processes write");
	CHECK_INT((long long)watch.n_roots, 1);
	config.limits.disk = 1; /* the machine has written more than a byte */
	CHECK_INT(watch_look(&watch, &verdict), 0);
	CHECK_INT(verdict.limit, SPEC_DISK);
	CHECK(usage.written > 1);
}
