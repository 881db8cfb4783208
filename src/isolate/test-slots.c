/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/test.h"
#include "isolate/slots.h"

#include <atoll/error.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct atoll_error err;

static const char *fresh_dir(void)
{
	static char dir[256];

	close(test_tempdir());
	snprintf(dir, sizeof dir, "%s/run", test_tempdir_path());
	return dir;
}

TEST(a_slot_is_taken_once_and_free_when_its_descriptor_is_closed)
{
	const char *dir = fresh_dir();
	uint32_t first, second, again;
	int a = slots_take(dir, 0, &first, &err), b = slots_take(dir, 0, &second, &err);

	CHECK(a >= 0 && b >= 0);
	CHECK_INT(second - first, SLOTS_IDS);
	close(a);
	a = slots_take(dir, 0, &again, &err);
	CHECK(a >= 0);
	CHECK_INT(again, first);
	close(a);
	close(b);
}

TEST(classes_do_not_meet)
{
	const char *dir = fresh_dir();
	uint32_t offline, online;
	int a = slots_take(dir, 0, &offline, &err), b = slots_take(dir, 1, &online, &err);

	CHECK(a >= 0 && b >= 0);
	for (unsigned class = 0; class < SLOTS_CLASSES; class ++) {
		uint32_t id = class ? online : offline;

		CHECK(id >= slots_classes[class].first);
		CHECK(id - slots_classes[class].first <= SLOTS_BLOCK - SLOTS_IDS);
	}
	CHECK(slots_classes[0].first + SLOTS_BLOCK <= slots_classes[1].first);
	CHECK(slots_classes[1].first + SLOTS_BLOCK <= 0x7ffe0000u);
	close(a);
	close(b);
}

TEST(a_slot_is_held_by_whoever_has_the_descriptor_and_dies_with_the_last)
{
	const char *dir = fresh_dir();
	uint32_t first, second;
	int a = slots_take(dir, 0, &first, &err), b;
	pid_t child = fork();

	if (child == 0)
		pause();
	CHECK(child > 0);
	close(a);
	a = slots_take(dir, 0, &second, &err);
	CHECK(a >= 0 && second != first);
	kill(child, SIGKILL);
	CHECK_INT(waitpid(child, NULL, 0), child);
	b = slots_take(dir, 0, &second, &err);
	CHECK(b >= 0);
	CHECK_INT(second, first);
	close(a);
	close(b);
}

TEST(a_thousand_at_once_are_all_different)
{
	const char *dir = fresh_dir();
	uint32_t last = 0, id;
	int fds[1000];

	for (int i = 0; i < 1000; i++) {
		fds[i] = slots_take(dir, 1, &id, &err);
		CHECK(fds[i] >= 0);
		CHECK(i == 0 || id == last + SLOTS_IDS || id == slots_classes[1].first);
		last = id;
	}
	for (int i = 0; i < 1000; i++)
		close(fds[i]);
}

TEST(a_file_that_others_may_open_is_refused)
{
	const char *dir = fresh_dir();
	char path[300];
	uint32_t id;

	snprintf(path, sizeof path, "%s/" SLOTS_FILE, dir);
	close(slots_take(dir, 0, &id, &err));
	CHECK_INT(chmod(path, 0644), 0);
	CHECK(slots_take(dir, 0, &id, &err) < 0);
	CHECK_INT(unlink(path), 0);
	CHECK_INT(symlink("/dev/null", path), 0);
	CHECK(slots_take(dir, 0, &id, &err) < 0);
}
