/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/archive.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/uapi.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * How the program locks itself in
 *
 *   limits         memory, descriptors, the size of a file, no core file
 *   the root       root's, which may: the directory to fill becomes the whole file system
 *   capabilities   none, and none can come back
 *   Landlock       that directory may be filled, and those to be read may be read; nothing else of
 *                  the file system, no signals and no sockets of others
 *   seccomp        the calls of a program that fills a directory from a descriptor
 *
 * seccomp is last because it forbids what the others need; each is tried out afterwards. Without
 * Landlock (before Linux 5.13, or switched off) root's import has its own root left, and an
 * ordinary user's is refused.
 */

#define MEMORY_MAX (UINT64_C(2) << 30)
#define NOFILE_MAX 512 /* a record has up to some fifty layers, and each is walked */

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

static int limit(int which, rlim_t value)
{
	struct rlimit old, new = {value, value};

	if (getrlimit(which, &old) < 0)
		return -errno;
	if (new.rlim_max > old.rlim_max)
		new.rlim_cur = new.rlim_max = old.rlim_max;
	return setrlimit(which, &new) < 0 ? -errno : 0;
}

static int set_limits(uint64_t size_max, struct atoll_error *err)
{
	if (size_max > 0 && limit(RLIMIT_FSIZE, size_max) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "limit the size of files");
	if (limit(RLIMIT_CORE, 0) < 0 || limit(RLIMIT_NOFILE, NOFILE_MAX) < 0 ||
	    limit(RLIMIT_MEMLOCK, 0) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "limit what atoll-archive may use");
	/* The address sanitizer reserves terabytes. */
	if (!HAS_ASAN && limit(RLIMIT_AS, MEMORY_MAX) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "limit its memory");
	return 0;
}

/* A second wall where it can be had. 1 if it stands. */
static int change_root(int dir_fd)
{
	return dir_fd >= 0 && fchdir(dir_fd) == 0 && chroot(".") == 0;
}

/* A record of root's holds files of the workspace's owner: reading is kept, where it is to be read;
 * of what, Landlock says. */
static int drop_capabilities(bool reads, struct atoll_error *err)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct kept[2] = {0}, now[2];

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "give privileges up");
	if (syscall(SYS_capget, &head, now) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "read capabilities");
	if (reads)
		kept[0].permitted = kept[0].effective =
			now[0].permitted & (1U << CAP_DAC_READ_SEARCH);
	if (syscall(SYS_capset, &head, kept) < 0 || syscall(SYS_capget, &head, now) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "drop capabilities");
	for (int i = 0; i < 2; i++)
		if (now[i].effective != kept[i].effective ||
		    now[i].permitted != kept[i].permitted || now[i].inheritable)
			return error_set(err, ATOLL_FAULT_BUG, 0, "capabilities did not go");
	return 0;
}

/* ---- Landlock ---- */

/* What is made is regular files, directories and symbolic links; nothing is removed or executed. */
#define RIGHTS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define RIGHTS_FILL                                                                                \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_DIR |                             \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_SYM | \
	 LANDLOCK_ACCESS_FS_REFER | LANDLOCK_ACCESS_FS_TRUNCATE)

static int make_ruleset(uint64_t *ret_handled)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct uapi_landlock_ruleset_attr attr = {.handled_access_fs = (1 << 13) - 1};
	size_t size = sizeof attr.handled_access_fs;

	if (abi < 0)
		return -errno;
	if (abi >= 2)
		attr.handled_access_fs |= LANDLOCK_ACCESS_FS_REFER;
	if (abi >= 3)
		attr.handled_access_fs |= LANDLOCK_ACCESS_FS_TRUNCATE;
	if (abi >= 4) {
		attr.handled_access_net =
			UAPI_LANDLOCK_ACCESS_NET_BIND_TCP | UAPI_LANDLOCK_ACCESS_NET_CONNECT_TCP;
		size = offsetof(struct uapi_landlock_ruleset_attr, scoped);
	}
	if (abi >= 5)
		attr.handled_access_fs |= LANDLOCK_ACCESS_FS_IOCTL_DEV;
	if (abi >= 6) {
		attr.scoped = UAPI_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | UAPI_LANDLOCK_SCOPE_SIGNAL;
		size = sizeof attr;
	}
	*ret_handled = attr.handled_access_fs;
	return (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
}

static int allow(int ruleset, int fd, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};

	return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0
		       ? -errno
		       : 0;
}

static int forbid_files(int write_fd, const int *read_fds, size_t n, bool has_root,
			struct atoll_error *err)
{
	uint64_t handled = 0;
	cleanup_fd int ruleset = make_ruleset(&handled);
	int r = 0;

	if (ruleset < 0 && write_fd >= 0 && !has_root)
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "this kernel has no Landlock (Linux 5.13), without which a "
				 "stranger's archive is unpacked for root only");
	if (ruleset < 0)
		return 0;
	if (write_fd >= 0)
		r = allow(ruleset, write_fd, RIGHTS_FILL & handled);
	for (size_t i = 0; i < n && r == 0; i++)
		if (read_fds[i] >= 0)
			r = allow(ruleset, read_fds[i], RIGHTS_READ & handled);
	if (r == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		r = -errno;
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "lock atoll-archive in by Landlock");
	if (!has_root && (open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0 || errno != EACCES))
		return error_set(err, ATOLL_FAULT_BUG, 0, "Landlock did not hold");
	return 0;
}

/* ---- seccomp ---- */

static const uint16_t calls_common[] = {
	/* bytes between descriptors */
	SYS_read, SYS_write, SYS_pread64, SYS_pwrite64, SYS_lseek, SYS_close, SYS_fstat,
	SYS_newfstatat,
	/* by descriptor; Landlock says what may be opened */
	SYS_openat2,
	/* memory; not executable, see below */
	SYS_munmap, SYS_mremap, SYS_brk, SYS_madvise, SYS_getrandom,
	/* threads' locks in libraries, though there is one thread */
	SYS_futex, SYS_sched_yield, SYS_rseq,
	/* who am I, what time is it: asked by libraries */
	SYS_getpid, SYS_gettid, SYS_clock_gettime,
	/* the end, and signals */
	SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_rt_sigaction, SYS_rt_sigprocmask,
	SYS_restart_syscall};

static const uint16_t calls_fill[] = {
	SYS_mkdirat,   SYS_symlinkat, SYS_linkat,    SYS_fchmod,
	SYS_utimensat, SYS_fsetxattr, SYS_ftruncate, SYS_umask,
};

/* tree.c opens as it goes, and opens what shuts its owner out by changing its mode for the moment.
 */
static const uint16_t calls_read[] = {
	SYS_openat,	SYS_fchmodat,
#ifdef SYS_chmod
	SYS_chmod,
#endif
	SYS_readlinkat, SYS_fgetxattr, SYS_flistxattr, SYS_getdents64,
};

struct program {
	struct sock_filter steps[160];
	size_t n;
};

static void step(struct program *program, struct sock_filter one)
{
	if (program->n < ARRAY_SIZE(program->steps))
		program->steps[program->n] = one;
	program->n++;
}

#define LOAD(field)  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
/* Skip `yes` steps if it is so, else `no`. */
#define IF(value, yes, no)    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define IF_ANY(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, yes, no)
#define STEP(...)	      step(program, (struct sock_filter)__VA_ARGS__)

static void allow_calls(struct program *program, const uint16_t *calls, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		STEP(IF(calls[i], 0, 1));
		STEP(RETURN(SECCOMP_RET_ALLOW));
	}
}

static void check_executable(struct program *program, uint16_t call)
{
	STEP(IF(call, 0, 4));
	STEP(LOAD(args[2]));
	STEP(IF_ANY(PROT_EXEC, 0, 1));
	STEP(RETURN(SECCOMP_RET_ERRNO | EACCES));
	STEP(RETURN(SECCOMP_RET_ALLOW));
}

/* A copy of a descriptor. */
static void check_fcntl(struct program *program)
{
	static const uint32_t commands[] = {F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC};

	STEP(IF(SYS_fcntl, 0, 2 + 2 * ARRAY_SIZE(commands)));
	STEP(LOAD(args[1]));
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		STEP(IF(commands[i], 0, 1));
		STEP(RETURN(SECCOMP_RET_ALLOW));
	}
	STEP(RETURN(SECCOMP_RET_ERRNO | EACCES));
}

/* abort() may end this process, nobody another. */
static void check_tgkill(struct program *program)
{
	STEP(IF(SYS_tgkill, 0, 4));
	STEP(LOAD(args[0]));
	STEP(IF((uint32_t)getpid(), 0, 1));
	STEP(RETURN(SECCOMP_RET_ALLOW));
	STEP(RETURN(SECCOMP_RET_ERRNO | EPERM));
}

static int forbid_calls(bool fills, struct atoll_error *err)
{
	static struct program room;
	struct program *program = &room;
	struct sock_fprog load;

	STEP(LOAD(arch));
	STEP(IF(UAPI_NATIVE_ARCH, 1, 0));
	STEP(RETURN(SECCOMP_RET_KILL_PROCESS));
	STEP(LOAD(nr));
	allow_calls(program, calls_common, ARRAY_SIZE(calls_common));
	if (fills)
		allow_calls(program, calls_fill, ARRAY_SIZE(calls_fill));
	else
		allow_calls(program, calls_read, ARRAY_SIZE(calls_read));
	check_executable(program, SYS_mmap);
	check_executable(program, SYS_mprotect);
	check_fcntl(program);
	check_tgkill(program);
	/* A library that wants to read a file is told no, and goes on without. */
	STEP(IF(SYS_openat, 0, 1));
	STEP(RETURN(SECCOMP_RET_ERRNO | EACCES));
	STEP(RETURN(SECCOMP_RET_ERRNO | ENOSYS));
	if (program->n > ARRAY_SIZE(program->steps))
		return error_set(err, ATOLL_FAULT_BUG, 0, "the filter is too long");
	load = (struct sock_fprog){(unsigned short)program->n, program->steps};
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &load) != 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "lock atoll-archive in by seccomp");
	return 0;
}

static int check_calls(bool fills, struct atoll_error *err)
{
	if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != ENOSYS ||
	    (fills && (open("/", O_RDONLY) >= 0 || errno != EACCES)) || syscall(SYS_getppid) >= 0 ||
	    errno != ENOSYS || unlink("/nothing") == 0 || errno != ENOSYS)
		return error_set(err, ATOLL_FAULT_BUG, 0, "seccomp did not hold");
	return 0;
}

int arc_lock_in(int write_fd, const int *read_fds, size_t n, uint64_t size_max,
		struct atoll_error *err)
{
	bool has_root;
	int r = set_limits(size_max, err);

	if (r < 0)
		return r;
	has_root = change_root(write_fd);
	r = drop_capabilities(write_fd < 0, err);
	if (r == 0)
		r = forbid_files(write_fd, read_fds, n, has_root, err);
	if (r == 0)
		r = forbid_calls(write_fd >= 0, err);
	return r < 0 ? r : check_calls(write_fd >= 0, err);
}
