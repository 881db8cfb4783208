/* SPDX-License-Identifier: Apache-2.0 */
#include "base/confine.h"
#include "base/fd.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/uapi.h"
#include "monitor/monitor.h"

#include <errno.h>
#include <stdlib.h>
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

static const uint16_t forbidden[] = {
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

static void allow_reading(int ruleset)
{
	for (size_t i = 0; i < ARRAY_SIZE(readable); i++) {
		cleanup_fd int fd = open(readable[i], O_PATH | O_CLOEXEC);
		struct stat st;

		if (fd >= 0 && fstat(fd, &st) == 0)
			confine_allow(
				ruleset, fd,
				LANDLOCK_ACCESS_FS_READ_FILE |
					(S_ISDIR(st.st_mode) ? LANDLOCK_ACCESS_FS_READ_DIR : 0));
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

static int restrict_files_and_ports(const char *url)
{
	uint64_t handled;
	cleanup_fd int ruleset = confine_ruleset(false, &handled);
	int r;

	/* Before 5.13, or switched off. */
	if (ruleset == -ENOSYS)
		return 0;
	if (ruleset < 0)
		return ruleset;
	allow_reading(ruleset);
	r = confine_allow_port(ruleset, port_of(url));
	if (r == 0)
		r = confine_allow_port(ruleset, 53);
	if (r < 0)
		return r;
	return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? -errno : 0;
}

static int forbid_calls(struct atoll_error *err)
{
	static struct confine_filter filter;

	confine_begin(&filter);
	/* Numbers of x32 are none that were looked at. */
	FILTER_STEP(&filter, FILTER_IF_FROM(1U << 30, 0, 1));
	FILTER_STEP(&filter, FILTER_RETURN(FILTER_ERROR(EPERM)));
	confine_answer(&filter, forbidden, ARRAY_SIZE(forbidden), FILTER_ERROR(EPERM));
	confine_answer_abort(&filter);
	FILTER_STEP(&filter, FILTER_RETURN(SECCOMP_RET_ALLOW));
	return confine_load(&filter, err);
}

int lock_in(const char *url)
{
	struct atoll_error err;
	int r = confine_limit(RLIMIT_CORE, 0);

	if (r == 0)
		r = confine_limit(RLIMIT_NOFILE, 256);
	if (r == 0)
		r = confine_limit(RLIMIT_AS, MEMORY_MAX);
	if (r == 0)
		r = confine_limit(RLIMIT_FSIZE, 0);
	if (r == 0)
		r = confine_capabilities(0, &err);
	if (r == 0)
		r = restrict_files_and_ports(url);
	return r == 0 ? forbid_calls(&err) : r;
}
