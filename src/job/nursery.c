/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"
#include "isolate/isolate.h"
#include "job/hold-inner.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Where holders come from if their starter is large
 *
 * A holder is a fork of whoever starts it. A daemon with threads, libraries and connections is a
 * bad parent: a fork of it takes long, has its page tables, and inherits whatever another thread
 * was just doing. So it starts a small program first (atoll-nursery), which does nothing but fork
 * holders: one message with the sandbox's id and the pipe at which the holder answers. The nursery
 * leads a session, so that holders need not; it ends with the daemon, and holders do not.
 */

/* Set before there are threads, and never another number from then on. */
static int nursery_fd = -1;
static pid_t nursery_pid;

int hold_nursery_open(const char *program, struct atoll_error *err)
{
	cleanup_fd int ours = -1, theirs = -1;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a socket for the nursery");
	ours = pair[0], theirs = pair[1];
	pid = program_start(program, "atoll-nursery", theirs, PROGRAM_ATTACHED);
	if (pid < 0) /* it is still gone, and tried again */
		return error_set(err, ATOLL_FAULT_HOST, -pid, "execute '%s'", program);
	nursery_pid = pid;
	/* A thread may be using the one of an earlier nursery: it is replaced under its number. */
	if (nursery_fd < 0)
		nursery_fd = take_fd(&ours);
	else if (dup3(ours, nursery_fd, O_CLOEXEC) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "take the nursery's socket");
	return 0;
}

bool hold_nursery_is_gone(void)
{
	return nursery_pid > 0 && waitpid(nursery_pid, NULL, WNOHANG) != 0;
}

void hold_nursery_close(void)
{
	if (nursery_fd >= 0)
		close(nursery_fd);
	nursery_fd = -1;
}

/* False: there is none, or it is gone; the caller forks by itself. */
bool hold_nursery_start(const char *id, int status_fd)
{
	return nursery_fd >= 0 && fd_send(nursery_fd, id, strlen(id), &status_fd, 1) == 0;
}

/* ---- in the nursery ---- */

_Noreturn void hold_nursery_serve(int fd)
{
	setsid();
	signal(SIGCHLD, SIG_IGN); /* nobody waits for holders */
	prctl(PR_SET_NAME, "atoll-nursery");
	isolate_remember();
	for (;;) {
		char id[ATOLL_ID_SIZE] = "";
		int status_fd = -1;
		size_t n = 1;
		ssize_t size = fd_receive(fd, id, sizeof id - 1, 0, &status_fd, &n);

		if (size <= 0)
			_exit(0);
		if (n == 1) {
			isolate_refresh();
			if (fork() == 0) {
				setpgid(0, 0);
				hold_main(id, status_fd);
			}
			close(status_fd);
		}
	}
}
