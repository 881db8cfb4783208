/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/uapi.h"
#include "monitor/monitor.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/*
 * What the monitor gives up before it talks to anybody
 *
 *   limits         no core file, which would have the key in it; memory; descriptors
 *   capabilities   none, and none can come back; not dumpable
 *   Landlock       nothing is written; what a resolver and TLS read can be read; only the service's
 *                  port and that of DNS are connected to, where the kernel knows that right
 *   seccomp        nothing is executed, traced, mounted, and no namespace is made or entered
 *
 * The filter is a list of what is forbidden, unlike that of egress: names are resolved by whatever
 * the host's C library is set up to use, whose calls we do not know.
 */

#define MEMORY_MAX (UINT64_C(1) << 30)

static const char *const readable[] = {
	"/etc/ssl",
	"/etc/ca-certificates",
	"/etc/pki",
	"/etc/resolv.conf",
	"/etc/hosts",
	"/etc/nsswitch.conf",
	"/etc/gai.conf",
	"/etc/host.conf",
	"/etc/services",
	"/etc/ld.so.cache",
	"/etc/localtime",
	"/usr",
	"/lib",
	"/lib64",
	"/dev/urandom",
	"/dev/null",
	"/run/systemd/resolve",
	"/run/resolvconf",
	"/etc/crypto-policies",
};

static const int forbidden[] = {
	SYS_execve,
	SYS_execveat,
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_mount,
	SYS_umount2,
	SYS_unshare,
	SYS_setns,
	SYS_pivot_root,
	SYS_chroot,
	SYS_bpf,
	SYS_keyctl,
	SYS_add_key,
	SYS_request_key,
	SYS_open_by_handle_at,
	SYS_perf_event_open,
	SYS_userfaultfd,
	SYS_init_module,
	SYS_finit_module,
	SYS_kexec_load,
	SYS_io_uring_setup,
	SYS_truncate, /* which Landlock knows from 6.2 on only */
	SYS_kill,
	SYS_tkill,
	SYS_pidfd_open,
	SYS_pidfd_send_signal,
	SYS_memfd_create,
};

static void limit(int which, rlim_t value)
{
	struct rlimit now;

	if (getrlimit(which, &now) == 0 && now.rlim_max > value)
		setrlimit(which, &(struct rlimit){value, value});
}

static int drop_privileges(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &head, none) < 0)
		return -errno;
	return 0;
}

static void allow_reading(int ruleset)
{
	for (size_t i = 0; i < ARRAY_SIZE(readable); i++) {
		struct landlock_path_beneath_attr rule = {
			.allowed_access =
				LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
		};
		cleanup_fd int fd = open(readable[i], O_PATH | O_CLOEXEC);
		struct stat st;

		if (fd < 0 || fstat(fd, &st) < 0)
			continue;
		if (!S_ISDIR(st.st_mode))
			rule.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE;
		rule.parent_fd = fd;
		syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	}
}

static uint64_t port_of(const char *url)
{
	const char *host = strstr(url, "://"), *colon;

	if (!host)
		return 0;
	host += 3;
	colon = host + (*host == '[' ? strcspn(host, "]") : 0);
	colon += strcspn(colon, ":/?#");
	if (*colon == ':')
		return strtoul(colon + 1, NULL, 10);
	return starts_with(url, "https:") ? 443 : 80;
}

/* As the kernel has it from version 6.7 on; older headers do not. */
#define RULE_NET_PORT 2
#define NET_CONNECT   2
struct net_port {
	uint64_t allowed_access, port;
};

static int restrict_files_and_ports(const char *url)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct uapi_landlock_ruleset_attr attr = {.handled_access_fs = (1 << 13) - 1};
	const uint64_t ports[] = {port_of(url), 53};
	size_t size = sizeof attr.handled_access_fs;
	cleanup_fd int ruleset = -1;

	/* Before 5.13, or switched off. */
	if (abi < 0)
		return 0;
	if (abi >= 4) {
		attr.handled_access_net = UAPI_LANDLOCK_ACCESS_NET_BIND_TCP | NET_CONNECT;
		size = offsetof(struct uapi_landlock_ruleset_attr, scoped);
	}
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset < 0)
		return -errno;
	allow_reading(ruleset);
	for (size_t i = 0; abi >= 4 && i < ARRAY_SIZE(ports); i++) {
		struct net_port rule = {.allowed_access = NET_CONNECT, .port = ports[i]};

		if (syscall(SYS_landlock_add_rule, ruleset, RULE_NET_PORT, &rule, 0) < 0)
			return -errno;
	}
	return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? -errno : 0;
}

static int forbid_calls(void)
{
	struct sock_filter code[ARRAY_SIZE(forbidden) + 7];
	struct sock_fprog program = {.filter = code};
	size_t n = 0;

	/* Numbers of another architecture, or of x32, are none that were looked at. */
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, arch));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, UAPI_NATIVE_ARCH, 1, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 1U << 30,
						 (unsigned char)(ARRAY_SIZE(forbidden) + 1), 0);
	for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++)
		code[n++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (unsigned)forbidden[i],
			(unsigned char)(ARRAY_SIZE(forbidden) - i), 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	program.len = (unsigned short)n;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 ? -errno : 0;
}

int lock_in(const char *url)
{
	int r;

	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_NOFILE, 256);
	limit(RLIMIT_AS, MEMORY_MAX);
	limit(RLIMIT_FSIZE, 0);
	r = drop_privileges();
	if (r == 0)
		r = restrict_files_and_ports(url);
	return r == 0 ? forbid_calls() : r;
}
