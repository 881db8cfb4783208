/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "isolate/ns/cell.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>

/*
 * What others need, too
 *
 * The kernel counts some things for each user, over all namespaces: a run could take all of them,
 * and the user's own programs would fail outside. So a run gets a share: half of what there is, or
 * a number that is enough for any build. An id of the run's own does not help: what is used in a
 * user namespace is also put to the account of whoever has made it.
 *
 * Space on the host's file systems is everybody's, too: see watch.h for the floor.
 */

#define INOTIFY_INSTANCES 64
#define INOTIFY_WATCHES	  65536
#define PENDING_SIGNALS	  4096
#define QUEUE_BYTES	  (400 << 10)

static uint64_t read_number(const char *path)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[32];
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (got <= 0)
		return 0;
	text[got] = '\0';
	return strtoull(text, NULL, 10);
}

/* At most `most`, and at most half of what the caller has. */
static void share(const char *host, const char *own, uint64_t most)
{
	uint64_t half = read_number(host) / 2;
	cleanup_fd int fd = -1;
	char text[32];

	if (half == 0)
		return;
	snprintf(text, sizeof text, "%llu", (unsigned long long)(half < most ? half : most));
	/* Not where /proc/sys is read-only, as in some containers. */
	fd = open(own, O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, text, strlen(text)) < 0)
		return;
}

void quota_limit_user(const struct cell *cell)
{
	share("/proc/sys/fs/inotify/max_user_instances", "/proc/sys/user/max_inotify_instances",
	      INOTIFY_INSTANCES);
	/* The keeper of hidden names needs one for each directory, and is ours. */
	if (!cell->needs_keeper)
		share("/proc/sys/fs/inotify/max_user_watches", "/proc/sys/user/max_inotify_watches",
		      INOTIFY_WATCHES);
}

static int limit(int resource, uint64_t most, struct atoll_error *err)
{
	struct rlimit now;

	if (getrlimit(resource, &now) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "read a resource limit");
	if (now.rlim_max / 2 < most)
		most = now.rlim_max / 2;
	now.rlim_cur = now.rlim_max = most;
	if (setrlimit(resource, &now) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "set a resource limit");
	return 0;
}

int quota_limit_process(struct atoll_error *err)
{
	int r = limit(RLIMIT_SIGPENDING, PENDING_SIGNALS, err);

	return r < 0 ? r : limit(RLIMIT_MSGQUEUE, QUEUE_BYTES, err);
}

int quota_check_place(const struct cell *cell, const char *path, struct atoll_error *err)
{
	struct statfs st;
	uint64_t left, floor;

	if (cell->spec->limits[SPEC_DISK].value == SPEC_UNLIMITED || statfs(path, &st) < 0)
		return 0;
	left = (uint64_t)st.f_bavail * (uint64_t)st.f_bsize;
	floor = init_space_floor((uint64_t)st.f_blocks * (uint64_t)st.f_bsize);
	if (left < floor)
		return error_set(err, ATOLL_FAULT_HOST, ENOSPC,
				 "%llu MiB are free where '%s' lies, and a run leaves %llu MiB to "
				 "others; make room, or lift the limit with --disk unlimited",
				 (unsigned long long)(left >> 20), path,
				 (unsigned long long)(floor >> 20));
	return 0;
}

int quota_check_space(const struct cell *cell, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];

		if (mount->is_writable && !mount->is_layer &&
		    (mount->kind == NS_BIND || mount->kind == NS_STAGE))
			r = quota_check_place(cell, ns_source(mount), err);
	}
	return r;
}
