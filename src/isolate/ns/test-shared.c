/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate/ns/cell.h"

#include "base/fd.h"
#include "base/str.h"
#include "base/test.h"
#include "base/uapi.h"

#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What lies in the one layer, which no path inside leads to: built here in namespaces of a child's
 * own, over a small system. */

static bool enter(void)
{
	char map[64];
	const uid_t uid = geteuid();
	const gid_t gid = getegid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return false;
	fd_write_text("/proc/self/setgroups", "deny");
	snprintf(map, sizeof map, "0 %u 1", uid);
	if (fd_write_text("/proc/self/uid_map", map) < 0)
		return false;
	snprintf(map, sizeof map, "0 %u 1", gid);
	return fd_write_text("/proc/self/gid_map", map) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("test", "/tmp", "tmpfs", 0, "mode=0755") == 0;
}

static void make_system(void)
{
	static const char *const dirs[] = {"/tmp/root",
					   "/tmp/stage",
					   "/tmp/host",
					   "/tmp/host/usr",
					   "/tmp/host/usr/bin",
					   "/tmp/host/root",
					   "/tmp/host/var",
					   "/tmp/host/var/lib",
					   "/tmp/host/var/lib/dpkg",
					   "/tmp/host/var/log",
					   "/tmp/host/var/lib/others"};

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		CHECK_INT(mkdir(dirs[i], 0755), 0);
	CHECK_INT(fd_write_text("/tmp/host/secret", "x"), 0);
	CHECK_INT(fd_write_text("/tmp/host/usr/shown", "x"), 0);
	CHECK_INT(fd_write_text("/tmp/host/usr/hidden", "x"), 0);
}

static void look_at(struct ns_mount *mount, const char *host)
{
	struct stat st;

	CHECK_INT(stat(host, &st), 0);
	mount->dev = st.st_dev;
	mount->ino = st.st_ino;
}

static bool has(const char *path)
{
	struct stat st;
	char whole[128];

	snprintf(whole, sizeof whole, "/tmp/stage/system/%s", path);
	return lstat(whole, &st) == 0;
}

static void build(bool has_changed)
{
	char *masks[] = {(char *)"hidden"};
	struct ns_mount mounts[] = {
		{.kind = NS_STAGE, .path = (char *)"/", .is_base = true},
		{.kind = NS_BIND, .path = (char *)"/usr", .is_shared = true, .is_dir = true},
		{.kind = NS_BIND,
		 .path = (char *)"/var/lib/dpkg",
		 .is_shared = true,
		 .is_dir = true},
	};
	struct cell cell = {.mounts = mounts, .n_mounts = ARRAY_SIZE(mounts)};
	struct atoll_error err = {0};

	make_system();
	mounts[0].tree_fd = open_tree(AT_FDCWD, "/tmp/host", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	mounts[1].masks = masks;
	mounts[1].n_masks = 1;
	look_at(&mounts[1], "/tmp/host/usr");
	look_at(&mounts[2], has_changed ? "/tmp/host/var/log" : "/tmp/host/var/lib/dpkg");
	CHECK_INT(chdir("/tmp/root"), 0);
	if (has_changed) {
		CHECK(shared_build(&cell, &err) < 0);
		CHECK_STR(err.text, "'/var/lib/dpkg' has changed while starting");
		return;
	}
	CHECK_INT(shared_build(&cell, &err), 0);
	CHECK(has("usr/shown") && has("usr/bin") && has("var/lib/dpkg"));
	CHECK(!has("usr/hidden") && !has("secret") && !has("root") && !has("var/log") &&
	      !has("var/lib/others"));
	CHECK_INT(mkdir("usr", 0755), 0);
	CHECK_INT(shared_place(&mounts[1], &err), 0);
	CHECK_INT(fd_write_text("usr/new", "x"), 0);
	CHECK(access("/tmp/stage/" SHARED_UPPER "/usr/new", F_OK) == 0);
	CHECK(access("/tmp/host/usr/new", F_OK) < 0 && access("usr/../secret", F_OK) < 0);
}

static void in_child(bool has_changed)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (!enter())
			_exit(77);
		build(has_changed);
		_exit(0);
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		test_skip("user namespaces");
	CHECK_INT(status, 0);
}

TEST(the_one_layer_has_the_trees_and_nothing_else)
{
	in_child(false);
}

TEST(a_tree_that_has_changed_is_refused)
{
	in_child(true);
}
