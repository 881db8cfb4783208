/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/log-follow.h"

#include "auditcmd/events.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * `atoll log --follow`
 *
 * inotify reports writes. The writer of a log has its lock: if nothing is written for a while, the
 * lock is tried, so that a log whose writer was killed is not followed forever. The log of a
 * sandbox is unlocked between steps; it is followed until it is removed or the person interrupts.
 */

#define LOOK_MS		 250
#define QUIET_CHECKS_MAX 4 /* the number of checks without a writer before it gives up */

struct log_wait {
	int fd, log_fd;
	int n_quiet_checks;
	bool is_sandbox;
};

struct log_wait *log_wait_new(const struct events *events, bool is_sandbox)
{
	struct log_wait *wait = calloc(1, sizeof *wait);

	if (!wait)
		return NULL;
	wait->log_fd = events->fd;
	wait->is_sandbox = is_sandbox;
	wait->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	/* Without inotify (too many watches) the file is polled. */
	if (wait->fd >= 0 &&
	    inotify_add_watch(wait->fd, events->path, IN_MODIFY | IN_DELETE_SELF) < 0) {
		close(wait->fd);
		wait->fd = -1;
	}
	return wait;
}

void log_wait_free(struct log_wait *wait)
{
	if (!wait)
		return;
	if (wait->fd >= 0)
		close(wait->fd);
	free(wait);
}

/* May more come? */
static bool has_writer(int fd, bool is_sandbox)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && st.st_nlink == 0)
		return false;
	if (flock(fd, LOCK_SH | LOCK_NB) < 0)
		return errno == EWOULDBLOCK;
	flock(fd, LOCK_UN);
	return is_sandbox;
}

int log_wait_more(struct log_wait *wait)
{
	char drained[4096];
	struct pollfd pollfd = {.fd = wait->fd, .events = POLLIN};

	if (poll(&pollfd, 1, LOOK_MS) > 0) {
		while (read(pollfd.fd, drained, sizeof drained) > 0)
			;
		wait->n_quiet_checks = 0;
		return 1;
	}
	if (has_writer(wait->log_fd, wait->is_sandbox))
		return 1;
	return ++wait->n_quiet_checks < QUIET_CHECKS_MAX;
}
