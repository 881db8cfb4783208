/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/test.h"
#include "init/init.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

/*
 * How a step gets to its working directory, without a sandbox around it
 */

/* A directory with "plain/deep", "file", "link" to plain/deep, and links to ways of /proc. */
static void make_place(char ret[PATH_MAX])
{
	cleanup_fd int dir = test_tempdir();
	char self[32];
	ssize_t got;
	int file;

	snprintf(self, sizeof self, "/proc/self/fd/%d", dir);
	got = readlink(self, ret, PATH_MAX - 1);
	CHECK(got > 0);
	ret[got] = '\0';
	CHECK(mkdirat(dir, "plain", 0700) == 0 && mkdirat(dir, "plain/deep", 0700) == 0);
	file = openat(dir, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(file >= 0);
	close(file);
	CHECK(symlinkat("plain/deep", dir, "link") == 0);
	CHECK(symlinkat("/proc/self/cwd", dir, "cwd") == 0);
	CHECK(symlinkat("/proc/self/root", dir, "root") == 0);
	CHECK(symlinkat("/proc/thread-self/fd/20", dir, "fd") == 0);
	CHECK(symlinkat("loop", dir, "loop") == 0);
}

/* In a child, as it changes the working directory. */
static int enter(const char *place, const char *name, const char *wanted)
{
	char path[2 * PATH_MAX], cwd[PATH_MAX], *whole = path;
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), r;

		snprintf(path, sizeof path, "%s%s%s", name[0] == '/' ? "" : place,
			 name[0] == '/' ? "" : "/", name);
		if (dir < 0 || dup2(dir, 20) != 20)
			_exit(254);
		r = init_enter(whole);
		if (r == 0 && wanted) {
			snprintf(path, sizeof path, "%s%s%s", wanted[0] == '/' ? "" : place,
				 wanted[0] == '/' ? "" : "/", wanted);
			if (!getcwd(cwd, sizeof cwd) || strcmp(cwd, path) != 0)
				_exit(255);
		}
		_exit(-r);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(a_directory_is_entered_by_its_name_and_through_plain_links)
{
	char place[PATH_MAX];

	make_place(place);
	CHECK_INT(enter(place, "/", "/"), 0);
	CHECK_INT(enter(place, "plain", "plain"), 0);
	CHECK_INT(enter(place, "plain/.//deep/", "plain/deep"), 0);
	CHECK_INT(enter(place, "plain/deep/..", "plain"), 0);
	CHECK_INT(enter(place, "link", "plain/deep"), 0);
	CHECK_INT(enter(place, "link/../deep", "plain/deep"), 0);
	CHECK_INT(enter(place, "/../../..", "/"), 0);
	CHECK_INT(enter(place, "/proc/self", NULL), 0); /* a link by text */
}

TEST(a_magic_link_is_not_followed)
{
	static const char *const ways[] = {"cwd",
					   "root",
					   "fd",
					   "root/usr",
					   "link/../../root/usr",
					   "/proc/self/fd/20",
					   "/proc/self/fd/20/usr",
					   "/proc/self/cwd",
					   "/proc/self/root/usr",
					   "/proc/thread-self/root",
					   "/proc/self/task/../root",
					   "/dev/fd/20"};
	char place[PATH_MAX];

	make_place(place);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		CHECK_INT(enter(place, ways[i], NULL), ELOOP);
}

TEST(what_is_no_directory_is_not_entered)
{
	char place[PATH_MAX], longest[NAME_MAX + 3];

	make_place(place);
	memset(longest, 'x', sizeof longest - 1);
	longest[sizeof longest - 1] = '\0';
	CHECK_INT(enter(place, "file", NULL), ENOTDIR);
	CHECK_INT(enter(place, "file/x", NULL), ENOTDIR);
	CHECK_INT(enter(place, "none", NULL), ENOENT);
	CHECK_INT(enter(place, "loop", NULL), ELOOP);
	CHECK_INT(enter(place, longest, NULL), ENAMETOOLONG);
}
