/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "job/hold.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

/*
 * Where holders come from, in a program that keeps many
 *
 * A holder is forked and never executes anything. Forked from a program with much in memory that
 * takes long, for its page tables are copied; and from one with threads, others may have been in
 * the middle of something. So there is a process that was forked early, when there were neither,
 * and does nothing else. All holders share its memory as long as they do not write there.
 */

struct wish {
	char id[ATOLL_ID_SIZE];
	char state[PATH_MAX]; /* XDG_STATE_HOME, which may have been set since; "": unset */
};

static int nursery_fd = -1;

static _Noreturn void nursery_main(int fd)
{
	struct wish wish;

	prctl(PR_SET_NAME, "atoll-nursery");
	/* Until its end, which is that of the program that it is for. */
	for (;;) {
		int status_fd = -1;
		size_t n = 1;
		ssize_t got = fd_receive(fd, &wish, sizeof wish, 0, &status_fd, &n);
		pid_t pid;

		if (got == 0 || (got < 0 && got != -EINTR))
			_exit(0);
		if (got == sizeof wish && n == 1) {
			wish.id[sizeof wish.id - 1] = wish.state[sizeof wish.state - 1] = '\0';
			if (wish.state[0])
				setenv("XDG_STATE_HOME", wish.state, 1);
			pid = hold_fork(wish.id, status_fd);
			while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
				;
		}
		if (n == 1 && status_fd >= 0)
			close(status_fd);
	}
}

/* Nothing of the caller's but the socket, which becomes 3; signals of a terminal are not for it. */
static void leave_caller(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	setsid();
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 0; null >= 0 && i < 3; i++)
		dup2(null, i);
	if (fd != 3)
		dup3(fd, 3, O_CLOEXEC);
	fd_close_range(4, UINT_MAX, false);
}

int atoll_sandboxes_prepare(struct atoll_error *err)
{
	int ends[2];
	pid_t pid;

	if (nursery_fd >= 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a socket pair");
	pid = fork();
	if (pid == 0) {
		/* Twice, so that nobody has to wait for it. */
		if (fork() > 0)
			_exit(0);
		leave_caller(ends[1]);
		nursery_main(3);
	}
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return error_set(err, ATOLL_FAULT_HOST, errno, "fork");
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	nursery_fd = ends[0];
	return 0;
}

int hold_nursery_ask(const char *id, int status_fd)
{
	const char *state = getenv("XDG_STATE_HOME");
	struct wish wish = {0};

	if (nursery_fd < 0)
		return -ENOENT;
	snprintf(wish.id, sizeof wish.id, "%s", id);
	snprintf(wish.state, sizeof wish.state, "%s", state ? state : "");
	return fd_send(nursery_fd, &wish, sizeof wish, &status_fd, 1);
}
