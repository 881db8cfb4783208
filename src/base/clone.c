/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clone.h"

#include "base/fd.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int enter_group(int group_fd, pid_t pid)
{
	cleanup_fd int fd = openat(group_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	char text[16];

	snprintf(text, sizeof text, "%d", pid);
	return fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
}

static pid_t clone_old(const struct clone_args *args)
{
	unsigned long flags = (unsigned long)(args->flags & ~CLONE_INTO_CGROUP) |
			      (unsigned long)args->exit_signal;
	/* The descriptor of the child takes the place of its parent's thread id. */
	long pid = syscall(SYS_clone, flags, NULL, (void *)(uintptr_t)args->pidfd, NULL, 0);
	int r;

	if (pid < 0)
		return -errno;
	if (pid == 0 || !(args->flags & CLONE_INTO_CGROUP))
		return (pid_t)pid;
	r = enter_group((int)args->cgroup, (pid_t)pid);
	if (r == 0)
		return (pid_t)pid;
	kill((pid_t)pid, SIGKILL);
	while (waitpid((pid_t)pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}

pid_t clone_process(const struct clone_args *args)
{
	long pid = syscall(SYS_clone3, args, sizeof *args);

	if (pid >= 0)
		return (pid_t)pid;
	/* EPERM may as well be the kernel's own word on the namespaces: then it says so again. */
	if (errno == ENOSYS || errno == EPERM)
		return clone_old(args);
	return -errno;
}
