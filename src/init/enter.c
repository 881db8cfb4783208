/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "init/init.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

/*
 * How a step gets to its working directory
 *
 * The name of it comes from a client, and what lies there was perhaps made inside: a link to
 * /proc/self/fd/3 would lead to whatever the step's process has open. Nothing of the host's is open
 * in it (doc/threat-model.md, "Descriptors that processes inside may hold"); this is the second
 * wall: no magic link is followed, and the directory must have a name in the sandbox's root.
 *
 * Called by template-process.c in the step's process, and by the back end's `seal` for a run's
 * command. Both have their filter by then, which sends every openat2() to the guard, and the guard
 * cannot read the memory of a step before that has executed. So what RESOLVE_IN_ROOT and
 * RESOLVE_NO_MAGICLINKS mean is done here: part after part is opened without following it, from the
 * root on, and the text of a plain link goes before the rest. Kernels differ in nothing of that.
 */

#define LINKS_MAX	40 /* as in the kernel */
#define PROC_ROOT_INODE 1

struct walk {
	int dir;
	unsigned n_links;
	char rest[PATH_MAX];
};

/* The next part of the rest, which is shortened by it; "" at the end. */
static int take_part(struct walk *walk, char ret[NAME_MAX + 1])
{
	char *at = walk->rest + strspn(walk->rest, "/");
	size_t length = strcspn(at, "/");

	if (length > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(ret, at, length);
	ret[length] = '\0';
	memmove(walk->rest, at + length, strlen(at + length) + 1);
	return 0;
}

/* In /proc only the links of its own top are texts (self, thread-self, mounts, net); those of a
 * process lead to an object past every name. No other file system that is mounted inside has such
 * links. */
static bool is_magic(const struct walk *walk, int link_fd)
{
	struct statfs fs;
	struct stat st;

	if (fstatfs(link_fd, &fs) < 0 || fstat(walk->dir, &st) < 0)
		return true;
	return fs.f_type == PROC_SUPER_MAGIC && st.st_ino != PROC_ROOT_INODE;
}

static int enter_root(struct walk *walk)
{
	if (walk->dir >= 0)
		close(walk->dir);
	walk->dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return walk->dir < 0 ? -errno : 0;
}

/* Its text, then what was left. */
static int follow(struct walk *walk, int link_fd)
{
	char text[PATH_MAX];
	size_t left = strlen(walk->rest);
	ssize_t got;

	if (++walk->n_links > LINKS_MAX || is_magic(walk, link_fd))
		return -ELOOP;
	got = readlinkat(link_fd, "", text, sizeof text);
	if (got <= 0)
		return got < 0 ? -errno : -ENOENT;
	if ((size_t)got + left >= sizeof walk->rest)
		return -ENAMETOOLONG;
	memmove(walk->rest + got, walk->rest, left + 1);
	memcpy(walk->rest, text, (size_t)got);
	return text[0] == '/' ? enter_root(walk) : 0;
}

static int step_into(struct walk *walk, const char *part)
{
	cleanup_fd int fd = openat(walk->dir, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return follow(walk, fd);
	close(walk->dir);
	walk->dir = take_fd(&fd);
	return 0;
}

/* The kernel puts "(unreachable)" before the path of a directory outside the root. By the call
 * itself: the C library would look for another way. */
static bool has_name(void)
{
	char path[PATH_MAX];

	return syscall(SYS_getcwd, path, sizeof path) > 0 && path[0] == '/';
}

int init_enter(const char *path)
{
	struct walk walk = {.dir = -1};
	char part[NAME_MAX + 1];
	int r = strlen(path) < sizeof walk.rest ? enter_root(&walk) : -ENAMETOOLONG;

	if (r == 0)
		strcpy(walk.rest, path);
	while (r == 0 && (r = take_part(&walk, part)) == 0 && part[0])
		r = step_into(&walk, part);
	if (r == 0 && fchdir(walk.dir) < 0)
		r = -errno;
	if (walk.dir >= 0)
		close(walk.dir);
	return r == 0 && !has_name() ? -EXDEV : r;
}
