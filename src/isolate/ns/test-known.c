/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate/ns/cell.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/test.h"
#include "isolate/isolate.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What is remembered, and for how long; in a tree that is nobody else's: /opt, on a mount of its
 * own. */

static bool make_opt(void)
{
	struct stat st;

	return geteuid() == 0 && stat("/opt", &st) == 0 && S_ISDIR(st.st_mode) &&
	       unshare(CLONE_NEWNS) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("test", "/opt", "tmpfs", 0, "mode=0755") == 0;
}

static void make_private(const char *path)
{
	CHECK_INT(fd_write_text(path, "x"), 0);
	CHECK_INT(chmod(path, 0600), 0);
}

/* How many names are known to be taken out; -1: not known. */
static int count(const char *path)
{
	struct ns_mount mount = {.path = (char *)path};
	struct atoll_error err;
	int n = known_copy(&mount, &err) ? (int)mount.n_masks : -1;

	for (size_t i = 0; i < mount.n_masks; i++)
		free(mount.masks[i]);
	free(mount.masks);
	return n;
}

/* As a holder does it: the descriptors are closed, and their numbers are others'. */
static void be_holder(void)
{
	int numbers[64];

	fd_close_range(4, ~0U, false);
	CHECK_INT(count("/opt"), 1);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		numbers[i] = dup(2);
	isolate_forget();
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		CHECK(fcntl(numbers[i], F_GETFD) >= 0);
	CHECK_INT(count("/opt"), -1);
	isolate_refresh();
	CHECK_INT(count("/opt"), -1);
}

static void be_late(void)
{
	const struct timespec while_ = {.tv_sec = 1, .tv_nsec = 50000000};

	nanosleep(&while_, NULL);
	CHECK_INT(count("/opt"), -1);
}

/* Its parent has looked meanwhile. */
static void be_confirmed(void)
{
	const struct timespec while_ = {.tv_sec = 1, .tv_nsec = 50000000};

	nanosleep(&while_, NULL);
	isolate_confirm(clock_monotonic_ns());
	CHECK_INT(count("/opt"), 1);
}

static void in_child(void (*be)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		be();
		_exit(0);
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
}

TEST(what_is_known_holds_until_something_changes)
{
	CHECK_INT(count("/opt"), -1);
	if (!make_opt())
		return;
	make_private("/opt/one");
	isolate_remember();
	CHECK_INT(count("/opt"), 1);
	make_private("/opt/two");
	CHECK_INT(count("/opt"), -1);
	CHECK(!isolate_refresh());
	CHECK_INT(count("/opt"), 2);
	isolate_forget();
	CHECK_INT(count("/opt"), -1);
}

TEST(a_child_knows_it_for_a_moment_and_one_cell)
{
	if (!make_opt())
		return;
	make_private("/opt/one");
	isolate_remember();
	in_child(be_holder);
	CHECK(isolate_refresh());
	in_child(be_late);
	CHECK(isolate_refresh());
	in_child(be_confirmed);
	CHECK_INT(count("/opt"), 1);
	isolate_forget();
}

TEST(a_tree_that_is_not_there_is_not_known)
{
	const char *path;

	if (!make_opt())
		return;
	isolate_remember();
	CHECK_INT(count("/opt"), 0);
	for (size_t i = 0; (path = system_tree(i)); i++) {
		if (access(path, F_OK) < 0)
			CHECK_INT(count(path), -1);
	}
}
