/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/archive.h"
#include "base/confine.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/uapi.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
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

#if HAS_ASAN
/* Its search for leaks at the end starts a tracer, for which the filter would kill us. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return 1;
}
#endif

static int set_limits(uint64_t size_max, struct atoll_error *err)
{
	if (size_max > 0 && confine_limit(RLIMIT_FSIZE, size_max) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "limit the size of files");
	if (confine_limit(RLIMIT_CORE, 0) < 0 || confine_limit(RLIMIT_NOFILE, NOFILE_MAX) < 0 ||
	    confine_limit(RLIMIT_MEMLOCK, 0) < 0 || confine_limit(RLIMIT_AS, MEMORY_MAX) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "limit what atoll-archive may use");
	return 0;
}

/* A second wall where it can be had. 1 if it stands. */
static int change_root(int dir_fd)
{
	return dir_fd >= 0 && fchdir(dir_fd) == 0 && chroot(".") == 0;
}

/* ---- Landlock ---- */

/* What is made is regular files, directories and symbolic links; nothing is removed or executed. */
#define RIGHTS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define RIGHTS_FILL                                                                                \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_DIR |                             \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_SYM | \
	 LANDLOCK_ACCESS_FS_REFER | LANDLOCK_ACCESS_FS_TRUNCATE)

static int forbid_files(int write_fd, const int *read_fds, size_t n, bool has_root,
			struct atoll_error *err)
{
	uint64_t handled = 0;
	cleanup_fd int ruleset = confine_ruleset(false, &handled);
	int r = 0;

	if (ruleset < 0 && write_fd >= 0 && !has_root)
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "this kernel has no Landlock (Linux 5.13), without which a "
				 "stranger's archive is unpacked for root only");
	if (ruleset < 0)
		return 0;
	if (write_fd >= 0)
		r = confine_allow(ruleset, write_fd, RIGHTS_FILL & handled);
	for (size_t i = 0; i < n && r == 0; i++)
		if (read_fds[i] >= 0)
			r = confine_allow(ruleset, read_fds[i], RIGHTS_READ & handled);
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

static int forbid_calls(bool fills, struct atoll_error *err)
{
	static const uint32_t copies[] = {F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC};
	/* A library that wants to read a file is told no, and goes on without. */
	static const uint16_t denied[] = {SYS_openat};
	static struct confine_filter filter;

	confine_begin(&filter);
	confine_answer(&filter, calls_common, ARRAY_SIZE(calls_common), SECCOMP_RET_ALLOW);
	if (fills)
		confine_answer(&filter, calls_fill, ARRAY_SIZE(calls_fill), SECCOMP_RET_ALLOW);
	else
		confine_answer(&filter, calls_read, ARRAY_SIZE(calls_read), SECCOMP_RET_ALLOW);
	confine_answer_memory(&filter);
	confine_answer_fcntl(&filter, copies, ARRAY_SIZE(copies));
	confine_answer_abort(&filter);
	confine_answer(&filter, denied, ARRAY_SIZE(denied), FILTER_ERROR(EACCES));
	return confine_load(&filter, err);
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
	/* A record of root's holds files of the workspace's owner: reading is kept, where it is to
	 * be read; of what, Landlock says. */
	r = confine_capabilities(write_fd < 0 ? 1U << CAP_DAC_READ_SEARCH : 0, err);
	if (r == 0)
		r = forbid_files(write_fd, read_fds, n, has_root, err);
	if (r == 0)
		r = forbid_calls(write_fd >= 0, err);
	return r < 0 ? r : check_calls(write_fd >= 0, err);
}
