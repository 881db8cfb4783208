/* SPDX-License-Identifier: Apache-2.0 */
#include "netctl/netctl-process.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"
#include "netctl/netctl.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

int netctl_spawn(struct netctl *net, int channel_fd, struct atoll_error *err)
{
	net->pid = program_start(net->program, NETCTL_PROGRAM, channel_fd, PROGRAM_ALONE);
	if (net->pid < 0)
		return error_set(err, ATOLL_FAULT_HOST, -net->pid, "execute '%s'", net->program);
	net->pid_fd = (int)syscall(SYS_pidfd_open, net->pid, 0);
	return 0;
}

int netctl_reap(struct netctl *net)
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
