/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "base/uapi.h"
#include "egress/core.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifndef HAS_ASAN
#define HAS_ASAN 0
#endif

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

static int limit(int which, rlim_t value)
{
	struct rlimit old, new = {value, value};

	if (getrlimit(which, &old) < 0)
		return -errno;
	if (new.rlim_max > old.rlim_max)
		new.rlim_cur = new.rlim_max = old.rlim_max;
	return setrlimit(which, &new) < 0 ? -errno : 0;
}

static int set_limits(struct atoll_error *err)
{
	struct rlimit files;

	if (limit(RLIMIT_CORE, 0) < 0 || limit(RLIMIT_NOFILE, NOFILE_WANTED) < 0 ||
	    limit(RLIMIT_MEMLOCK, 0) < 0 || limit(RLIMIT_MSGQUEUE, 0) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "limit what egress may use");
	/* The address sanitizer reserves terabytes. */
	if (!HAS_ASAN && limit(RLIMIT_AS, MEMORY_MAX) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "limit the memory of egress");
	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
		nofile = files.rlim_cur;
	return 0;
}

static int drop_capabilities(struct atoll_error *err)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0}, now[2];

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "give privileges up");
	if (syscall(SYS_capset, &head, none) < 0 || syscall(SYS_capget, &head, now) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "drop capabilities");
	for (int i = 0; i < 2; i++)
		if (now[i].effective || now[i].permitted || now[i].inheritable)
			return error_set(err, ATOLL_FAULT_BUG, 0, "capabilities did not go");
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
		return error_set(err, ATOLL_FAULT_BUG, 0, "no_new_privs did not hold");
	return 0;
}

/* Every right that the kernel knows and none of them granted. A kernel without Landlock (before
 * 5.13, or switched off) leaves seccomp, which refuses every call that takes a path. */
static int forbid_files(struct atoll_error *err)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct uapi_landlock_ruleset_attr attr = {.handled_access_fs = (1 << 13) - 1};
	cleanup_fd int ruleset = -1;
	size_t size = sizeof attr.handled_access_fs;

	if (abi < 0)
		return 0;
	if (abi >= 2)
		attr.handled_access_fs |= LANDLOCK_ACCESS_FS_REFER;
	if (abi >= 3)
		attr.handled_access_fs |= LANDLOCK_ACCESS_FS_TRUNCATE;
	if (abi >= 4) {
		/* Connecting is what it is for; by address that is judged before. */
		attr.handled_access_net = UAPI_LANDLOCK_ACCESS_NET_BIND_TCP;
		size = offsetof(struct uapi_landlock_ruleset_attr, scoped);
	}
	if (abi >= 5)
		attr.handled_access_fs |= LANDLOCK_ACCESS_FS_IOCTL_DEV;
	if (abi >= 6) {
		attr.scoped = UAPI_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | UAPI_LANDLOCK_SCOPE_SIGNAL;
		size = sizeof attr;
	}
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
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
	SYS_splice, /* relay.c, over a pipe that is there already */
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

struct program {
	struct sock_filter steps[256];
	size_t n;
};

static void step(struct program *program, struct sock_filter one)
{
	if (program->n < ARRAY_SIZE(program->steps))
		program->steps[program->n] = one;
	program->n++;
}

#define LOAD(field)   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what)  BPF_STMT(BPF_RET | BPF_K, what)
#define ERROR(errnum) (SECCOMP_RET_ERRNO | (errnum))
/* Skip `yes` steps if it is so, else `no`. */
#define IF(value, yes, no)    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define IF_ANY(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, yes, no)

#define STEP(...) step(program, (struct sock_filter)__VA_ARGS__)

static void answer_calls(struct program *program, const uint16_t *calls, size_t n, uint32_t answer)
{
	for (size_t i = 0; i < n; i++) {
		STEP(IF(calls[i], 0, 1));
		STEP(RETURN(answer));
	}
}

/* The low half of an argument, and that the high half is empty where it has to be. */
static void check_socket(struct program *program)
{
	STEP(IF(SYS_socket, 0, 9));
	STEP(LOAD(args[0]));
	STEP(IF(AF_INET, 1, 0));
	STEP(IF(AF_INET6, 0, 5));
	STEP(LOAD(args[1]));
	STEP(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf)); /* the type without its flags */
	STEP(IF(SOCK_STREAM, 1, 0));
	STEP(IF(SOCK_DGRAM, 0, 1));
	STEP(RETURN(SECCOMP_RET_ALLOW));
	STEP(RETURN(ERROR(EACCES)));
}

static void check_executable(struct program *program, uint16_t call)
{
	STEP(IF(call, 0, 4));
	STEP(LOAD(args[2]));
	STEP(IF_ANY(PROT_EXEC, 0, 1));
	STEP(RETURN(ERROR(EACCES)));
	STEP(RETURN(SECCOMP_RET_ALLOW));
}

/* The flags of a descriptor: no locks, no owners of signals, no leases. */
static void check_fcntl(struct program *program)
{
	static const uint32_t commands[] = {F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC};

	STEP(IF(SYS_fcntl, 0, 2 + 2 * ARRAY_SIZE(commands)));
	STEP(LOAD(args[1]));
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		STEP(IF(commands[i], 0, 1));
		STEP(RETURN(SECCOMP_RET_ALLOW));
	}
	STEP(RETURN(ERROR(EACCES)));
}

static void check_ioctl(struct program *program)
{
	STEP(IF(SYS_ioctl, 0, 5));
	STEP(LOAD(args[1]));
	STEP(IF(FIONREAD, 1, 0));
	STEP(IF(FIONBIO, 0, 1));
	STEP(RETURN(SECCOMP_RET_ALLOW));
	STEP(RETURN(ERROR(ENOTTY)));
}

/* abort() may end this process, nobody another. */
static void check_tgkill(struct program *program)
{
	STEP(IF(SYS_tgkill, 0, 4));
	STEP(LOAD(args[0]));
	STEP(IF((uint32_t)getpid(), 0, 1));
	STEP(RETURN(SECCOMP_RET_ALLOW));
	STEP(RETURN(ERROR(EPERM)));
}

static int forbid_calls(struct atoll_error *err)
{
	static struct program room;
	struct program *program = &room;
	struct sock_fprog load;

	STEP(LOAD(arch));
	STEP(IF(UAPI_NATIVE_ARCH, 1, 0));
	STEP(RETURN(SECCOMP_RET_KILL_PROCESS));
	STEP(LOAD(nr));
	answer_calls(program, allowed, ARRAY_SIZE(allowed), SECCOMP_RET_ALLOW);
	check_socket(program);
	check_executable(program, SYS_mmap);
	check_executable(program, SYS_mprotect);
	check_fcntl(program);
	check_ioctl(program);
	check_tgkill(program);
	answer_calls(program, deadly, ARRAY_SIZE(deadly), SECCOMP_RET_KILL_PROCESS);
	answer_calls(program, denied, ARRAY_SIZE(denied), ERROR(EACCES));
	STEP(RETURN(ERROR(ENOSYS)));
	if (program->n > ARRAY_SIZE(program->steps))
		return error_set(err, ATOLL_FAULT_BUG, 0, "the filter of egress is too long");
	load = (struct sock_fprog){(unsigned short)program->n, program->steps};
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &load) != 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "lock egress in by seccomp");
	return 0;
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
		r = drop_capabilities(err);
	if (r == 0)
		r = forbid_files(err);
	if (r == 0)
		r = forbid_calls(err);
	return r < 0 ? r : check_calls(err);
}
