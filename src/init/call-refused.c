/* SPDX-License-Identifier: Apache-2.0 */
#include "init/call.h"

#include "base/scope.h"
#include "base/uapi.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

/*
 * Calls that the filter refuses
 *
 * Without a full record it does so by itself; with one they come here to be told of, and get the
 * same answer. Nothing that is refused by its number, or for numbers in its arguments, is let go on
 * from here.
 */

static const struct {
	int nr;
	const char *name;
} names[] = {
	{SYS_open_by_handle_at, "open_by_handle_at"},
	{SYS_fanotify_init, "fanotify_init"},
	{SYS_fanotify_mark, "fanotify_mark"},
	{SYS_move_pages, "move_pages"},
	{SYS_migrate_pages, "migrate_pages"},
	{SYS_setns, "setns"},
	{SYS_mount, "mount"},
	{SYS_umount2, "umount2"},
	{SYS_pivot_root, "pivot_root"},
	{SYS_chroot, "chroot"},
	{SYS_bpf, "bpf"},
	{SYS_kexec_load, "kexec_load"},
	{SYS_kexec_file_load, "kexec_file_load"},
	{SYS_reboot, "reboot"},
	{SYS_init_module, "init_module"},
	{SYS_finit_module, "finit_module"},
	{SYS_delete_module, "delete_module"},
	{SYS_swapon, "swapon"},
	{SYS_swapoff, "swapoff"},
	{SYS_acct, "acct"},
	{SYS_quotactl, "quotactl"},
	{SYS_quotactl_fd, "quotactl_fd"},
	{SYS_settimeofday, "settimeofday"},
	{SYS_clock_settime, "clock_settime"},
	{SYS_adjtimex, "adjtimex"},
	{SYS_clock_adjtime, "clock_adjtime"},
	{SYS_sethostname, "sethostname"},
	{SYS_setdomainname, "setdomainname"},
	{SYS_syslog, "syslog"},
	{SYS_vhangup, "vhangup"},
	{SYS_clone, "clone"},
	{SYS_unshare, "unshare"},
	{SYS_socket, "socket"},
	{SYS_fcntl, "fcntl"},
	{SYS_ioctl, "ioctl"},
	{SYS_personality, "personality"},
	{SYS_prctl, "prctl"},
	{SYS_prlimit64, "prlimit64"},
	{SYS_sched_setaffinity, "sched_setaffinity"},
	{SYS_sched_setparam, "sched_setparam"},
	{SYS_sched_setattr, "sched_setattr"},
	{SYS_sched_setscheduler, "sched_setscheduler"},
	{SYS_setpriority, "setpriority"},
	{SYS_ioprio_set, "ioprio_set"},
#ifdef __x86_64__
	{SYS_iopl, "iopl"},
	{SYS_ioperm, "ioperm"},
#endif
};

static const char *name_of(int nr)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (names[i].nr == nr)
			return names[i].name;
	}
	return NULL;
}

/* What it was asked for, where one name stands for many things. */
static void write_object(const struct call *call, char *ret, size_t size)
{
	const char *name = name_of(call->nr);
	const uint32_t a = (uint32_t)call->args[0], b = (uint32_t)call->args[1];

	if (!name)
		snprintf(ret, size, "number %d", call->nr);
	else if (call->nr == SYS_socket)
		snprintf(ret, size, "%s(%u, %u, %u)", name, a, b & 0xf, (uint32_t)call->args[2]);
	else if (call->nr == SYS_ioctl || call->nr == SYS_fcntl)
		snprintf(ret, size, "%s(%#x)", name, b);
	else if (call->nr == SYS_clone || call->nr == SYS_unshare || call->nr == SYS_prctl ||
		 call->nr == SYS_personality)
		snprintf(ret, size, "%s(%#x)", name, a);
	else
		snprintf(ret, size, "%s", name);
}

/* Without namespaces and without a network: as if the kernel had no such thing. */
static bool is_no_network(const struct call *call)
{
	const struct init_config *config = call->guard->config;
	const uint32_t family = (uint32_t)call->args[0];

	return call->nr == SYS_socket && config->is_bare && !config->proxy_port &&
	       (family == AF_INET || family == AF_INET6);
}

static int refuse_network(struct call *call)
{
	const struct sense_refusal refusal = {.action = "connect",
					      .rule = "network",
					      .object = "a socket to the Internet",
					      .flag = "--allow",
					      .path = "HOST:PORT"};

	sense_refused(call, &refusal);
	return -EAFNOSUPPORT;
}

int call_refused(struct call *call)
{
	char object[64];
	const struct sense_refusal refusal = {
		.action = "call", .rule = "system calls", .object = object};

	if (is_no_network(call))
		return refuse_network(call);
	write_object(call, object, sizeof object);
	sense_refused(call, &refusal);
	return -EPERM;
}
