/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "isolate/isolate.h"
#include "isolate/ns/cell.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

/*
 * What is mounted, and what is taken out of the system's trees, remembered
 *
 * For `root: layer` all of /etc and friends is looked at, some ten thousand names, for what others
 * may not read (system.c). A process that starts many sandboxes keeps the answer, with a watch on
 * every directory that it came from: the kernel queues an event before the change returns to
 * whoever makes it, so an answer without events behind it is as good as a fresh one. A change of
 * mounts is told by /proc/self/mountinfo, whose text is kept as well: every user's start asks for
 * it, and for the kernel to write it takes longer than most of what else is asked. What cannot be
 * watched is looked at each time.
 *
 * A child has the answer and not the watches, which it closes: to it the answer is good for the
 * moment after it was looked at, for the one cell that it was forked for.
 */

#define TREES_MAX     32
#define MOUNTS_MAX    (4 << 20)
#define CHILD_TIME_NS 1000000000
#define CHANGES                                                                                    \
	(IN_ATTRIB | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVED_FROM | IN_MOVED_TO |        \
	 IN_MOVE_SELF | IN_ONLYDIR)

static struct known {
	bool is_on, is_valid;
	bool has_trees; /* to look at: root's layers alone take something out */
	pid_t owner;	/* whose the descriptors are: elsewhere the numbers may mean others */
	int watch_fd, mounts_fd;
	int64_t checked_ns;
	struct buf mounts;
	size_t n_watches;
	struct ns_mount trees[TREES_MAX];
	size_t n;
} known = {.watch_fd = -1, .mounts_fd = -1};

bool known_watch(int watch_fd, int dir_fd)
{
	char path[32];

	snprintf(path, sizeof path, "/proc/self/fd/%d", dir_fd);
	if (inotify_add_watch(watch_fd, path, CHANGES) < 0)
		return false;
	known.n_watches++;
	return true;
}

static bool is_ours(void)
{
	return known.owner == getpid();
}

static void forget(void)
{
	for (size_t i = 0; i < known.n; i++) {
		for (size_t k = 0; k < known.trees[i].n_masks; k++)
			free(known.trees[i].masks[k]);
		free(known.trees[i].masks);
	}
	known.n = 0;
	known.is_valid = false;
	if (known.watch_fd >= 0 && is_ours())
		close(known.watch_fd);
	known.watch_fd = -1;
}

/* Watched anew from the beginning: there may be other directories now. */
static bool look(void)
{
	const char *path;

	forget();
	known.watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (known.watch_fd < 0)
		return false;
	for (size_t i = 0; (path = system_tree(i)) && known.n < TREES_MAX; i++) {
		struct ns_mount *tree = &known.trees[known.n++];
		const size_t before = known.n_watches;

		*tree = (struct ns_mount){.path = (char *)path};
		if (system_scan(tree, known.watch_fd, NULL) < 0)
			return false;
		/* Not there, so there is nothing that would tell when it is. */
		if (known.n_watches == before)
			known.n--;
	}
	return true;
}

static bool has_changed(void)
{
	struct pollfd fds[] = {{known.watch_fd, POLLIN, 0}, {known.mounts_fd, POLLPRI, 0}};

	return poll(fds, 2, 0) != 0;
}

/* Reading it is what makes the next change be told. */
static bool read_mounts(void)
{
	if (known.mounts_fd >= 0)
		close(known.mounts_fd);
	known.mounts_fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	buf_done(&known.mounts);
	known.mounts = (struct buf)BUF_INIT(MOUNTS_MAX);
	return known.mounts_fd >= 0 && fd_read_all(known.mounts_fd, &known.mounts) == 0 &&
	       known.mounts.used > 0;
}

void isolate_remember(void)
{
	known.is_on = true;
	known.has_trees = geteuid() == 0;
	known.owner = getpid();
	ns_missing_call(false); /* to be known to the children */
	start_find_arguments(); /* likewise */
	isolate_refresh();
}

bool isolate_refresh(void)
{
	if (!known.is_on || !is_ours())
		return true;
	/* Before it is looked at: what comes later is not in the answer. */
	known.checked_ns = clock_monotonic_ns();
	if (known.is_valid && !has_changed())
		return true;
	known.is_valid = read_mounts() && (!known.has_trees || look());
	if (!known.is_valid)
		forget();
	return false;
}

void isolate_confirm(int64_t checked_ns)
{
	if (!is_ours())
		known.checked_ns = checked_ns;
}

void isolate_forget(void)
{
	forget();
	buf_done(&known.mounts);
	known.is_on = false;
	if (known.mounts_fd >= 0 && is_ours())
		close(known.mounts_fd);
	known.mounts_fd = -1;
}

/* Does the answer still hold? */
static bool is_current(void)
{
	if (!known.is_valid)
		return false;
	return is_ours() ? !has_changed() : clock_monotonic_ns() - known.checked_ns < CHILD_TIME_NS;
}

const char *known_mounts(void)
{
	return is_current() ? known.mounts.data : NULL;
}

bool known_copy(struct ns_mount *mount, struct atoll_error *err)
{
	const struct ns_mount *tree = known.trees;

	if (!is_current())
		return false;
	while (tree < known.trees + known.n && !streq(tree->path, mount->path))
		tree++;
	if (tree == known.trees + known.n)
		return false;
	/* Without memory it is looked at anew, and fails there. Masks are kept beneath their mount,
	 * and taken by their whole path. */
	for (size_t i = 0; i < tree->n_masks; i++) {
		cleanup_free char *path = NULL;

		if (asprintf(&path, "%s/%s", mount->path, tree->masks[i]) < 0) {
			path = NULL;
			return false;
		}
		if (ns_add_mask(mount, path, err) < 0)
			return false;
	}
	return true;
}
