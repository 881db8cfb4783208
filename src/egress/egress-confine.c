/* SPDX-License-Identifier: Apache-2.0 */
#include "base/confine.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/uapi.h"
#include "egress/core.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * How egress locks itself in
 *
 *   lock_become()  other ids, before any stranger's bytes are read
 *   limits         descriptors, memory, no core file with secrets in it
 *   capabilities   none, and none can come back: no_new_privs, not dumpable
 *   Landlock       no file at all, no signals and no abstract sockets of others, no bind()
 *   seccomp        the calls of a program that moves bytes between sockets
 *
 * Everything that is opened by name (resolv.conf, the trust file, listening sockets) is open
 * before. seccomp is last because it forbids what the others need; each is tried out afterwards,
 * and what does not hold ends egress.
 */

#define NOFILE_WANTED 32768
#define NOFILE_SPARE  256 /* not of flows: channel, DNS, lingerers, published ports */
#define MEMORY_MAX    (UINT64_C(2) << 30)

#if HAS_ASAN
/* Its search for leaks at the end starts a tracer, for which the filter would kill us. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return 1;
}
#endif

static size_t nofile = 1024;

size_t lock_flows_max(void)
{
	size_t most = nofile > NOFILE_SPARE + 64 ? (nofile - NOFILE_SPARE) / 2 : 32;

	return most < FLOWS_MAX ? most : FLOWS_MAX;
}

int lock_become(uid_t uid, gid_t gid, struct atoll_error *err)
{
	if (uid == (uid_t)-1)
		return 0;
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "become uid %u, gid %u", uid, gid);
	if (getuid() != uid || geteuid() != uid || getgid() != gid || getegid() != gid ||
	    getgroups(0, NULL) != 0 || (uid != 0 && setuid(0) == 0))
		return error_set(err, ATOLL_FAULT_BUG, 0, "uid %u did not hold", uid);
	return 0;
}

static int set_limits(struct atoll_error *err)
{
	struct rlimit files;

	if (confine_limit(RLIMIT_CORE, 0) < 0 || confine_limit(RLIMIT_NOFILE, NOFILE_WANTED) < 0 ||
	    confine_limit(RLIMIT_MEMLOCK, 0) < 0 || confine_limit(RLIMIT_MSGQUEUE, 0) < 0 ||
	    confine_limit(RLIMIT_AS, MEMORY_MAX) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "limit what egress may use");
	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
		nofile = files.rlim_cur;
	return 0;
}

/* Every right that the kernel knows and none of them granted. A kernel without Landlock (before
 * 5.13, or switched off) leaves seccomp, which refuses every call that takes a path. */
static int forbid_files(struct atoll_error *err)
{
	uint64_t handled = 0;
	/* Connecting is what it is for; by address that is judged before. */
	cleanup_fd int ruleset = confine_ruleset(true, &handled);

	if (ruleset == -ENOSYS)
		return 0;
	if (ruleset < 0 || syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "lock egress in by Landlock");
	if (open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0 || errno != EACCES)
		return error_set(err, ATOLL_FAULT_BUG, 0, "Landlock did not hold");
	return 0;
}

/* ---- seccomp ---- */

static const uint16_t allowed[] = {
	/* sockets */
	SYS_read,
	SYS_write,
	SYS_readv,
	SYS_writev,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_sendto,
	SYS_sendmsg,
	SYS_splice, /* egress-relay.c, over a pipe that is there already */
	SYS_accept4,
	SYS_connect,
	SYS_getsockname,
	SYS_getpeername,
	SYS_getsockopt,
	SYS_setsockopt,
	SYS_shutdown,
	SYS_close,
	/* waiting; poll is for the last moments, when there is no loop any more */
	SYS_epoll_ctl,
	SYS_epoll_pwait,
	SYS_ppoll,
	SYS_clock_gettime,
	SYS_clock_nanosleep,
#ifdef SYS_epoll_wait
	SYS_epoll_wait,
	SYS_poll,
#endif
#ifdef SYS_gettimeofday
	SYS_gettimeofday,
#endif
#ifdef SYS_time
	SYS_time,
#endif
	/* memory; not executable, see below */
	SYS_munmap,
	SYS_mremap,
	SYS_brk,
	SYS_madvise,
	SYS_getrandom,
	/* threads' locks in libraries, though there is one thread */
	SYS_futex,
	SYS_sched_yield,
	SYS_rseq,
	/* who am I: asked by libraries that guard against fork() */
	SYS_getpid,
	SYS_gettid,
	SYS_getuid,
	SYS_geteuid,
	SYS_getgid,
	SYS_getegid,
	/* the end, and signals */
	SYS_exit,
	SYS_exit_group,
	SYS_rt_sigreturn,
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_restart_syscall,
	/* stdio looks what its descriptor is */
	SYS_fstat,
};

/* Nothing of ours or of a library's would ever try. */
static const uint16_t deadly[] = {
	SYS_execve,
	SYS_execveat,
	SYS_ptrace,
	SYS_clone,
	SYS_clone3,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_bpf,
	SYS_init_module,
	SYS_finit_module,
	SYS_kexec_load,
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_setns,
	SYS_unshare,
	SYS_io_uring_setup,
	SYS_userfaultfd,
	SYS_perf_event_open,
#ifdef SYS_fork
	SYS_fork,
	SYS_vfork,
#endif
};

/* A library that wants to read a file is told no, and goes on without. */
static const uint16_t denied[] = {
	SYS_openat, SYS_openat2, SYS_bind, SYS_listen, SYS_socketpair,
#ifdef SYS_open
	SYS_open,   SYS_creat,
#endif
};

/* The low half of an argument, and that the high half is empty where it has to be. */
static void check_socket(struct confine_filter *filter)
{
	FILTER_STEP(filter, FILTER_IF(SYS_socket, 0, 9));
	FILTER_STEP(filter, FILTER_LOAD(args[0]));
	FILTER_STEP(filter, FILTER_IF(AF_INET, 1, 0));
	FILTER_STEP(filter, FILTER_IF(AF_INET6, 0, 5));
	FILTER_STEP(filter, FILTER_LOAD(args[1]));
	FILTER_STEP(filter,
		    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf)); /* the type without its flags */
	FILTER_STEP(filter, FILTER_IF(SOCK_STREAM, 1, 0));
	FILTER_STEP(filter, FILTER_IF(SOCK_DGRAM, 0, 1));
	FILTER_STEP(filter, FILTER_RETURN(SECCOMP_RET_ALLOW));
	FILTER_STEP(filter, FILTER_RETURN(FILTER_ERROR(EACCES)));
}

static void check_ioctl(struct confine_filter *filter)
{
	FILTER_STEP(filter, FILTER_IF(SYS_ioctl, 0, 5));
	FILTER_STEP(filter, FILTER_LOAD(args[1]));
	FILTER_STEP(filter, FILTER_IF(FIONREAD, 1, 0));
	FILTER_STEP(filter, FILTER_IF(FIONBIO, 0, 1));
	FILTER_STEP(filter, FILTER_RETURN(SECCOMP_RET_ALLOW));
	FILTER_STEP(filter, FILTER_RETURN(FILTER_ERROR(ENOTTY)));
}

static int forbid_calls(struct atoll_error *err)
{
	/* The flags of a descriptor: no locks, no owners of signals, no leases. */
	static const uint32_t flags[] = {F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC};
	static struct confine_filter filter;

	confine_begin(&filter);
	confine_answer(&filter, allowed, ARRAY_SIZE(allowed), SECCOMP_RET_ALLOW);
	check_socket(&filter);
	confine_answer_memory(&filter);
	confine_answer_fcntl(&filter, flags, ARRAY_SIZE(flags));
	check_ioctl(&filter);
	confine_answer_abort(&filter);
	confine_answer(&filter, deadly, ARRAY_SIZE(deadly), SECCOMP_RET_KILL_PROCESS);
	confine_answer(&filter, denied, ARRAY_SIZE(denied), FILTER_ERROR(EACCES));
	return confine_load(&filter, err);
}

static int check_calls(struct atoll_error *err)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	if ((fd < 0 && errno == EACCES) || socket(AF_UNIX, SOCK_STREAM, 0) >= 0 ||
	    errno != EACCES || open("/", O_RDONLY) >= 0 || errno != EACCES ||
	    syscall(SYS_getppid) >= 0 || errno != ENOSYS || setuid(0) == 0 || errno != ENOSYS)
		return error_set(err, ATOLL_FAULT_BUG, 0, "seccomp did not hold");
	return 0;
}

int lock_in(struct atoll_error *err)
{
	int r = set_limits(err);

	if (r == 0)
		r = confine_capabilities(0, err);
	if (r == 0)
		r = forbid_files(err);
	if (r == 0)
		r = forbid_calls(err);
	return r < 0 ? r : check_calls(err);
}
