/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "job/network.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/*
 * In a child that shares our memory until it executes. It has no terminal, so Ctrl-C is not for it;
 * and nothing of ours but its end of the channel, not even standard error: whoever reads ours to
 * its end must not wait for it.
 */
static _Noreturn void execute(const char *program, int channel_fd, int null_fd,
			      volatile int *ret_errnum)
{
	static char name[] = NET_PROGRAM;
	char *argv[] = {name, NULL}, *env[] = {NULL};
	sigset_t none;

	setsid();
	/* The channel's end tells it, too; this one also where it hangs. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (chdir("/") == 0 && dup2(null_fd, 0) == 0 && dup2(null_fd, 1) == 1 &&
	    dup2(null_fd, 2) == 2 && dup2(channel_fd, 3) == 3 && fd_close_range(4, ~0U, true) == 0)
		execve(program, argv, env);
	*ret_errnum = errno;
	_exit(127);
}

/* A function of its own, because of what vfork() may do to variables. */
static pid_t fork_it(const char *program, int channel_fd, int null_fd, volatile int *ret_errnum)
{
	sigset_t all, old;
	pid_t pid;

	/* No handler may run while two processes share memory. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = vfork();
	if (pid == 0)
		execute(program, channel_fd, null_fd, ret_errnum);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return pid;
}

int net_spawn(struct net *net, int channel_fd, struct atoll_error *err)
{
	cleanup_fd int null_fd = -1;
	volatile int errnum = 0;
	int opened = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* Above 3, so that no dup2() overwrites it. */
	null_fd = opened < 0 ? -1 : fcntl(opened, F_DUPFD_CLOEXEC, 4);
	if (opened >= 0)
		close(opened);
	if (null_fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open '/dev/null'");
	net->pid = fork_it(net->program, channel_fd, null_fd, &errnum);
	if (net->pid < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "fork the network's process");
	net->pid_fd = (int)syscall(SYS_pidfd_open, net->pid, 0);
	if (errnum)
		return error_set(err, ATOLL_FAULT_HOST, errnum, "execute '%s'", net->program);
	return 0;
}

int net_reap(struct net *net)
{
	siginfo_t info = {0};
	int r;

	if (net->pid <= 0)
		return -1;
	if (net->pid_fd >= 0)
		syscall(SYS_pidfd_send_signal, net->pid_fd, SIGKILL, NULL, 0);
	else
		kill(net->pid, SIGKILL);
	do
		r = waitid(P_PID, (id_t)net->pid, &info, WEXITED);
	while (r < 0 && errno == EINTR);
	net->pid = 0;
	if (net->pid_fd >= 0)
		close(take_fd(&net->pid_fd));
	if (net->slot_fd >= 0)
		close(take_fd(&net->slot_fd));
	if (r < 0)
		return -1;
	return info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;
}
