/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate/ns/filter.h"

#include "base/uapi.h"
#include "isolate/ns/bpf.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "load_argument() takes the low half first");

/* What a call is answered with. */
enum answer {
	SAY_ENOSYS, /* also for what the table does not name, x32's numbers (from 2^30 on) among it
		     */
	SAY_EPERM,  /* and the record is told */
	JUST_EPERM, /* for calls of which the guard sees others */
	SAY_EACCES,
	SAY_EOPNOTSUPP,
	ALLOW,
	GUARD,	/* done or refused by the guard, which sits outside */
	CHANGE, /* changes a file: likewise, unless the kernel alone decides about files */
	CHECK_OPEN,
	CHECK_OPENAT,
	CHECK_FCHMOD,
	CHECK_MODE_1, /* the mode is argument 1, counted from 0 */
	CHECK_MODE_2,
	CHECK_MODE_3,
	CHECK_MKNOD,
	CHECK_MKNODAT,
	CHECK_CLONE,
	CHECK_UNSHARE,
	CHECK_SOCKET,
	CHECK_SOCKETPAIR,
	CHECK_FCNTL,
	CHECK_SEND_2, /* the flags are argument 2 */
	CHECK_SEND_3,
	CHECK_SENDTO,
	CHECK_IOCTL,
	CHECK_PERSONALITY,
	CHECK_PRCTL,
	CHECK_SECCOMP,
	CHECK_SETRLIMIT,
	CHECK_PRLIMIT,
	CHECK_SELF,	/* argument 0 is a process, and must mean the caller */
	CHECK_PRIORITY, /* a kind and a process, likewise */
	CHECK_IOPRIO,
	CHECK_LOCAL_SOCKET,
	CHECK_STREAM_SOCKET,
	EXECUTE,     /* for the record: the kernel decides alone */
	CHANGE_OPEN, /* through a descriptor: of no interest to the record */
	CHECK_PTRACE,
	CHECK_RESTRICT,
	ANSWERS,
};

struct rule {
	enum answer answer;
	const uint16_t *calls;
	size_t n;
};

#define CALLS(...)                                                                                 \
	(const uint16_t[]){__VA_ARGS__}, sizeof((const uint16_t[]){__VA_ARGS__}) / sizeof(uint16_t)

#define CALLS_MAX 512 /* above every number in the table */

/*
 * The table
 *
 * ENOSYS says "this kernel has no such thing", and programs take the way they have for older ones.
 * EPERM says "not you", and is for what has no other way. What takes a capability is refused
 * although the kernel asks for it, too: being root in a namespace is how most of its bugs are
 * reached.
 *
 * What changes a file by its name goes to the guard, because by Landlock a sandboxed process has no
 * write right where the files are the host's.
 */
static const struct rule rules[] = {
	/* Files: reading, and writing what is open. */
	{ALLOW, CALLS(SYS_read, SYS_readv, SYS_pread64, SYS_preadv, SYS_preadv2)},
	{ALLOW, CALLS(SYS_write, SYS_writev, SYS_pwrite64, SYS_pwritev, SYS_pwritev2)},
	{ALLOW, CALLS(SYS_close, SYS_close_range, SYS_lseek, SYS_flock)},
	{CHECK_FCNTL, CALLS(SYS_fcntl)},
	{ALLOW, CALLS(SYS_dup, SYS_dup3, SYS_pipe2, SYS_ftruncate)},
	{GUARD, CALLS(SYS_fallocate)}, /* to be counted: it fills a disk without writing */
	{ALLOW, CALLS(SYS_sendfile, SYS_splice, SYS_tee, SYS_vmsplice, SYS_copy_file_range)},
	{ALLOW, CALLS(SYS_fsync, SYS_fdatasync, SYS_sync, SYS_syncfs, SYS_sync_file_range)},
	{ALLOW, CALLS(SYS_readahead, SYS_fadvise64, SYS_cachestat)},
	{ALLOW, CALLS(SYS_fstat, SYS_newfstatat, SYS_statx, SYS_statfs, SYS_fstatfs)},
	{ALLOW, CALLS(SYS_faccessat, SYS_faccessat2, SYS_readlinkat, SYS_getdents64)},
	{ALLOW, CALLS(SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_umask)},
	{ALLOW, CALLS(SYS_inotify_init1, SYS_inotify_add_watch, SYS_inotify_rm_watch)},
	{ALLOW, CALLS(SYS_io_setup, SYS_io_destroy, SYS_io_submit, SYS_io_cancel)},
	{ALLOW, CALLS(SYS_io_getevents, SYS_io_pgetevents)},
	{ALLOW, CALLS(SYS_getxattr, SYS_lgetxattr, SYS_fgetxattr, SYS_getxattrat)},
	{ALLOW, CALLS(SYS_listxattr, SYS_llistxattr, SYS_flistxattr, SYS_listxattrat)},
	{ALLOW, CALLS(SYS_file_getattr)},
	/* The kernel asks for the owner, and for a capability where somebody trusts the mark.
	 * Landlock does not know these calls, so where files are the host's, mounts have to be
	 * read-only. */
	/* An access list is a mode by another name. The newer calls have all in memory; libraries
	 * fall back to the older ones. */
	{CHANGE, CALLS(SYS_setxattr, SYS_lsetxattr, SYS_removexattr, SYS_lremovexattr)},
	{CHANGE_OPEN, CALLS(SYS_fsetxattr, SYS_fremovexattr)},
	{SAY_ENOSYS, CALLS(SYS_setxattrat, SYS_removexattrat)},
	{ALLOW, CALLS(SYS_fchown, SYS_fchownat, SYS_utimensat)},

	/* Files: changing by name, and the mode bits of all. */
	{CHECK_OPENAT, CALLS(SYS_openat)},
	{GUARD, CALLS(SYS_openat2)}, /* its flags are in memory: never continued, see call-open.c */
	{CHANGE, CALLS(SYS_renameat, SYS_renameat2, SYS_linkat, SYS_symlinkat, SYS_unlinkat)},
	{CHANGE, CALLS(SYS_mkdirat)}, /* the kernel makes no set-id directory here */
	{CHANGE, CALLS(SYS_truncate)},
	{CHECK_FCHMOD, CALLS(SYS_fchmod)},
	{CHECK_MODE_2, CALLS(SYS_fchmodat, SYS_fchmodat2)},
	{CHECK_MKNODAT, CALLS(SYS_mknodat)},
	/* chattr(1) by another name than ioctl, see check_ioctl(). */
	{SAY_EOPNOTSUPP, CALLS(SYS_file_setattr)},
	/* Handles name files past every directory; a filesystem without them answers like this. */
	{SAY_EOPNOTSUPP, CALLS(SYS_name_to_handle_at)},
	{SAY_EPERM, CALLS(SYS_open_by_handle_at)},
	/* Watches whole mounts, and can hold up those who open there. */
	{SAY_EPERM, CALLS(SYS_fanotify_init, SYS_fanotify_mark)},

	/* Memory. */
	{ALLOW, CALLS(SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_brk, SYS_madvise)},
	{ALLOW, CALLS(SYS_msync, SYS_mincore, SYS_remap_file_pages, SYS_mseal)},
	{GUARD, CALLS(SYS_memfd_create)}, /* to be known: memory that nobody has to map */
	{ALLOW, CALLS(SYS_mlock, SYS_mlock2, SYS_munlock, SYS_mlockall, SYS_munlockall)},
	{ALLOW, CALLS(SYS_pkey_mprotect, SYS_pkey_alloc, SYS_pkey_free, SYS_map_shadow_stack)},
	{ALLOW,
	 CALLS(SYS_mbind, SYS_get_mempolicy, SYS_set_mempolicy, SYS_set_mempolicy_home_node)},
	/* They move pages that others share, and tell where those are. */
	{SAY_EPERM, CALLS(SYS_move_pages, SYS_migrate_pages)},
	/* Memory that no debugger and no dump sees. Nothing needs it. */
	{SAY_ENOSYS, CALLS(SYS_memfd_secret)},
	/* Lets an exploit hold the kernel in the middle of a copy. */
	{SAY_ENOSYS, CALLS(SYS_userfaultfd)},

	/* Processes and threads. */
	{CHECK_CLONE, CALLS(SYS_clone)},
	/* Its flags are in memory. The C libraries and Go fall back to clone. */
	{SAY_ENOSYS, CALLS(SYS_clone3)},
	{EXECUTE, CALLS(SYS_execve, SYS_execveat)},
	{ALLOW, CALLS(SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid)},
	{ALLOW, CALLS(SYS_getpid, SYS_getppid, SYS_gettid, SYS_set_tid_address)},
	{ALLOW, CALLS(SYS_getpgid, SYS_setpgid, SYS_getsid, SYS_setsid)},
	{ALLOW, CALLS(SYS_futex, SYS_futex_waitv, SYS_futex_wake, SYS_futex_wait)},
	{ALLOW, CALLS(SYS_futex_requeue, SYS_set_robust_list, SYS_get_robust_list)},
	{ALLOW, CALLS(SYS_rseq, SYS_membarrier, SYS_getcpu, SYS_restart_syscall)},
	{ALLOW, CALLS(SYS_pidfd_open, SYS_pidfd_send_signal, SYS_pidfd_getfd)},
	{ALLOW, CALLS(SYS_process_madvise, SYS_process_mrelease)},
	{ALLOW, CALLS(SYS_getrlimit, SYS_getrusage, SYS_times)},
	{CHECK_SETRLIMIT, CALLS(SYS_setrlimit)},
	{CHECK_PRLIMIT, CALLS(SYS_prlimit64)},
	{ALLOW, CALLS(SYS_uname, SYS_sysinfo, SYS_getrandom)},
	/* Debuggers: Landlock keeps them to processes of the same sandbox. */
	{ALLOW, CALLS(SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp)},

	/* Scheduling; more than one's share takes a capability. */
	{ALLOW, CALLS(SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_setaffinity)},
	{ALLOW,
	 CALLS(SYS_sched_getparam, SYS_sched_setparam, SYS_sched_getattr, SYS_sched_setattr)},
	{ALLOW, CALLS(SYS_sched_getscheduler, SYS_sched_setscheduler, SYS_sched_rr_get_interval)},
	{ALLOW, CALLS(SYS_sched_get_priority_max, SYS_sched_get_priority_min)},
	{ALLOW, CALLS(SYS_getpriority, SYS_setpriority, SYS_ioprio_get, SYS_ioprio_set)},

	/* Who one is: the kernel lets go of rights only, and no_new_privs keeps them from coming
	   back. */
	{ALLOW, CALLS(SYS_getuid, SYS_geteuid, SYS_getresuid, SYS_getgid, SYS_getegid)},
	{ALLOW, CALLS(SYS_getresgid, SYS_getgroups, SYS_capget, SYS_capset)},
	{ALLOW, CALLS(SYS_setuid, SYS_setreuid, SYS_setresuid, SYS_setfsuid)},
	{ALLOW, CALLS(SYS_setgid, SYS_setregid, SYS_setresgid, SYS_setfsgid, SYS_setgroups)},

	/* Signals, time, waiting. */
	{ALLOW, CALLS(SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo)},
	{ALLOW, CALLS(SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending)},
	{ALLOW, CALLS(SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_sigaltstack, SYS_signalfd4)},
	{ALLOW, CALLS(SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday)},
	{ALLOW, CALLS(SYS_nanosleep, SYS_clock_nanosleep, SYS_getitimer, SYS_setitimer)},
	{ALLOW, CALLS(SYS_timer_create, SYS_timer_delete, SYS_timer_getoverrun)},
	{ALLOW, CALLS(SYS_timer_gettime, SYS_timer_settime)},
	{ALLOW, CALLS(SYS_timerfd_create, SYS_timerfd_gettime, SYS_timerfd_settime)},
	{ALLOW, CALLS(SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2)},
	{ALLOW, CALLS(SYS_ppoll, SYS_pselect6, SYS_eventfd2)},

	/* Sockets, and talk within the IPC namespace. */
	{CHECK_SOCKET, CALLS(SYS_socket)},
	{CHECK_SOCKETPAIR, CALLS(SYS_socketpair)},
	{GUARD, CALLS(SYS_bind, SYS_connect)}, /* addresses are in memory */
	{CHECK_SEND_2, CALLS(SYS_sendmsg)},
	{CHECK_SENDTO, CALLS(SYS_sendto)},
	{CHECK_SEND_3, CALLS(SYS_sendmmsg)},
	{ALLOW, CALLS(SYS_listen, SYS_accept, SYS_accept4, SYS_shutdown)},
	{ALLOW, CALLS(SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg)},
	{ALLOW, CALLS(SYS_getsockname, SYS_getpeername, SYS_getsockopt, SYS_setsockopt)},
	{ALLOW, CALLS(SYS_shmget, SYS_shmat, SYS_shmdt, SYS_shmctl)},
	{ALLOW, CALLS(SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl)},
	{ALLOW, CALLS(SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl)},
	{ALLOW, CALLS(SYS_mq_open, SYS_mq_unlink, SYS_mq_timedsend, SYS_mq_timedreceive)},
	{ALLOW, CALLS(SYS_mq_notify, SYS_mq_getsetattr)},

	/* Switches with many positions. */
	{CHECK_IOCTL, CALLS(SYS_ioctl)},
	{CHECK_PRCTL, CALLS(SYS_prctl)},
	{CHECK_PERSONALITY, CALLS(SYS_personality)},

	/* Locking oneself in further is welcome. */
	{CHECK_SECCOMP, CALLS(SYS_seccomp)},
	{ALLOW, CALLS(SYS_landlock_create_ruleset, SYS_landlock_add_rule)},
	{CHECK_RESTRICT, CALLS(SYS_landlock_restrict_self)},
	/* Shows which protections the host runs, and can change one's label. */
	{SAY_ENOSYS, CALLS(SYS_lsm_get_self_attr, SYS_lsm_set_self_attr, SYS_lsm_list_modules)},

	/* Namespaces and mounts: what the sandbox is made of. */
	{CHECK_UNSHARE, CALLS(SYS_unshare)},
	{SAY_EPERM, CALLS(SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot)},
	{SAY_ENOSYS, CALLS(SYS_open_tree, SYS_open_tree_attr, SYS_move_mount, SYS_mount_setattr)},
	{SAY_ENOSYS, CALLS(SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick)},
	/* The mount table's other door; /proc/self/mountinfo is what we prepared. */
	{SAY_ENOSYS, CALLS(SYS_statmount, SYS_listmount)},

	/* Kernel surface with a history of ways out. */
	/* Would open, connect and send without passing here. libuv and others use threads instead.
	 */
	{SAY_ENOSYS, CALLS(SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register)},
	{SAY_EPERM, CALLS(SYS_bpf)},
	{SAY_EACCES,
	 CALLS(SYS_perf_event_open)}, /* as under perf_event_paranoid, which tools explain */
	/* Keyrings belong to the user, not to a namespace: the host's keys would be found. */
	{SAY_ENOSYS, CALLS(SYS_add_key, SYS_request_key, SYS_keyctl)},

	/* The machine's own matters. */
	{SAY_EPERM, CALLS(SYS_kexec_load, SYS_kexec_file_load, SYS_reboot)},
	{SAY_EPERM, CALLS(SYS_init_module, SYS_finit_module, SYS_delete_module)},
	{SAY_EPERM, CALLS(SYS_swapon, SYS_swapoff, SYS_acct, SYS_quotactl, SYS_quotactl_fd)},
	{SAY_EPERM, CALLS(SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime)},
	{SAY_EPERM, CALLS(SYS_sethostname, SYS_setdomainname, SYS_syslog)},
	{SAY_EPERM, CALLS(SYS_vhangup)}, /* would take the terminal from the host's programs */

	/* No longer in the kernel. */
	{SAY_ENOSYS, CALLS(SYS_lookup_dcookie, SYS_nfsservctl)},

#ifdef __x86_64__
	/* The older forms, which aarch64 never had. */
	{ALLOW, CALLS(SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_getdents)},
	{ALLOW, CALLS(SYS_poll, SYS_select, SYS_epoll_create, SYS_epoll_wait)},
	{ALLOW, CALLS(SYS_pipe, SYS_dup2, SYS_eventfd, SYS_signalfd, SYS_inotify_init)},
	{ALLOW, CALLS(SYS_fork, SYS_vfork, SYS_getpgrp, SYS_pause, SYS_alarm, SYS_time)},
	{ALLOW, CALLS(SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat)},
	{CHECK_OPEN, CALLS(SYS_open)},
	{CHANGE, CALLS(SYS_rename, SYS_link, SYS_symlink, SYS_unlink, SYS_mkdir, SYS_rmdir)},
	{CHECK_MODE_1, CALLS(SYS_creat, SYS_chmod)},
	{CHECK_MKNOD, CALLS(SYS_mknod)},
	{ALLOW, CALLS(SYS_arch_prctl)}, /* the C library sets its thread pointer by it */
	/* Stands in code that the kernel puts into a process traced by the host, which dies when it
	 * is refused. From anywhere else the kernel kills the caller. (6.11; since 6.14 not asked)
	 */
	{ALLOW, CALLS(SYS_uretprobe)},
	{SAY_ENOSYS, CALLS(SYS_uprobe)}, /* likewise, but no kernel that has it asks */
	/* Segments for 16-bit and 32-bit code. */
	{SAY_ENOSYS, CALLS(SYS_modify_ldt, SYS_set_thread_area, SYS_get_thread_area)},
	{SAY_EPERM, CALLS(SYS_iopl, SYS_ioperm)},
	{SAY_ENOSYS, CALLS(SYS_uselib, SYS_ustat, SYS_sysfs, SYS__sysctl)},
	{SAY_ENOSYS, CALLS(SYS_create_module, SYS_get_kernel_syms, SYS_query_module)},
	{SAY_ENOSYS, CALLS(SYS_getpmsg, SYS_putpmsg, SYS_afs_syscall, SYS_tuxcall)},
	{SAY_ENOSYS, CALLS(SYS_security, SYS_vserver, SYS_epoll_ctl_old, SYS_epoll_wait_old)},
#endif
};

/*
 * The checks
 *
 * Each is built from its end, see bpf.h: what stands below is asked first. `to` has the places of
 * the answers made so far.
 */

/* The low half: all that is checked here is an int, an unsigned int or a umode_t to the kernel, or
 * flags that end there. What a caller left in the upper half means nothing. */
static unsigned load_argument(struct bpf *bpf, unsigned n, unsigned next)
{
	return bpf_load(bpf, offsetof(struct seccomp_data, args) + n * sizeof(uint64_t), next);
}

static unsigned refuse(struct bpf *bpf, int errnum)
{
	return bpf_return(bpf, SECCOMP_RET_ERRNO | (uint32_t)errnum);
}

/* A set-id file would be one on the host, too, where it works. */
static unsigned check_mode(struct bpf *bpf, const unsigned *to, unsigned mode, unsigned good)
{
	unsigned asks = bpf_if(bpf, BPF_JSET, S_ISUID | S_ISGID, to[JUST_EPERM], good);

	return load_argument(bpf, mode, asks);
}

/*
 * Opening to read is left to Landlock, mostly. The mode counts only when a file may be made.
 *
 * Access mode 3 asks for no right to read and for none to write, so Landlock's WRITE_FILE does not
 * apply to it, and with O_TRUNC the kernel empties the file all the same. Mode 3 is for ioctl() on
 * a few drivers; no program truncates by it. Access mode 0 with O_TRUNC passes Landlock in the same
 * way, but programs make lock files by it: the guard opens these itself and never continues them.
 */
static unsigned refuse_mode_3(struct bpf *bpf, const unsigned *to, unsigned flags, unsigned next)
{
	unsigned place = load_argument(bpf, flags, next);

	place = bpf_if(bpf, BPF_JEQ, O_ACCMODE | O_TRUNC, to[SAY_EACCES], place);
	return bpf_and(bpf, O_ACCMODE | O_TRUNC, place);
}

static unsigned check_open(struct bpf *bpf, const unsigned *to, unsigned flags, unsigned with_mode,
			   unsigned to_read)
{
	const uint32_t tmpfile = 020000000; /* O_TMPFILE without its O_DIRECTORY */
	const uint32_t makes = O_CREAT | tmpfile;
	unsigned changes, any;

	changes = bpf_if(bpf, BPF_JSET, makes, with_mode, to[CHANGE]);
	if (to[CHANGE] != to[ALLOW])
		changes = refuse_mode_3(bpf, to, flags, changes);
	any = bpf_if(bpf, BPF_JSET, O_ACCMODE | O_TRUNC | makes, changes, to_read);
	return load_argument(bpf, flags, any);
}

/* Opening to read, for the record: by a whole path or from the working directory, because who has a
 * directory open has got there before; no directory, which says little; and not what only names a
 * place. */
static unsigned see_reading(struct bpf *bpf, const unsigned *to, unsigned flags, bool has_dir)
{
	unsigned place = to[GUARD];

	if (has_dir)
		place = load_argument(bpf, 0,
				      bpf_if(bpf, BPF_JEQ, (uint32_t)AT_FDCWD, place, to[ALLOW]));
	place = bpf_if(bpf, BPF_JSET, O_DIRECTORY | O_PATH, to[ALLOW], place);
	return load_argument(bpf, flags, place);
}

/* Files, pipes and sockets. No device, not even 0:0, which overlayfs takes for "deleted". */
static void check_mknod(struct bpf *bpf, unsigned *to)
{
	static const uint32_t kinds[] = {S_IFSOCK, S_IFIFO, S_IFREG, 0};
	unsigned place = to[JUST_EPERM];

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		place = bpf_if(bpf, BPF_JEQ, kinds[i], to[CHANGE], place);
	place = bpf_and(bpf, S_IFMT, place);
	place = bpf_if(bpf, BPF_JSET, S_ISUID | S_ISGID, to[JUST_EPERM], place);
	to[CHECK_MKNODAT] = load_argument(bpf, 2, place);
#ifdef SYS_mknod
	to[CHECK_MKNOD] = load_argument(bpf, 1, place);
#endif
}

/* CLONE_NEWTIME is not among them: its bit is part of the signal number in clone(). */
static unsigned check_clone(struct bpf *bpf, const unsigned *to)
{
	const uint32_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
				    CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

	return load_argument(bpf, 0, bpf_if(bpf, BPF_JSET, namespaces, to[SAY_EPERM], to[ALLOW]));
}

/* Named are the flags that are no namespace, so that a new kernel's are refused. */
static unsigned check_unshare(struct bpf *bpf, const unsigned *to)
{
	const uint32_t harmless =
		CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;

	return load_argument(bpf, 0, bpf_if(bpf, BPF_JSET, ~harmless, to[SAY_EPERM], to[ALLOW]));
}

/* With the socket type loaded. SOCK_DGRAM, and SOCK_RAW which means the same here, is left out: a
 * datagram goes to any socket by its path without connect(), named in sendmsg()'s memory where a
 * filter cannot look. What programs do with one (syslog, sd_notify) they can do without. */
static unsigned check_unix_type(struct bpf *bpf, const unsigned *to, unsigned other)
{
	unsigned packets = bpf_if(bpf, BPF_JEQ, SOCK_SEQPACKET, to[ALLOW], other);

	return bpf_and(bpf, 0xf, bpf_if(bpf, BPF_JEQ, SOCK_STREAM, to[ALLOW], packets));
}

/* TCP and UDP. MPTCP gets its own errno, by which Go and others take TCP; raw sockets, ping and the
 * rest are none of a sandbox's business. */
static unsigned check_internet(struct bpf *bpf, const unsigned *to, unsigned no_protocol)
{
	unsigned tcp, udp, place;

	udp = bpf_if(bpf, BPF_JEQ, IPPROTO_UDP, to[ALLOW], to[SAY_EPERM]);
	udp = load_argument(bpf, 2, bpf_if(bpf, BPF_JEQ, 0, to[ALLOW], udp));
	tcp = bpf_if(bpf, BPF_JEQ, IPPROTO_MPTCP, no_protocol, to[SAY_EPERM]);
	tcp = bpf_if(bpf, BPF_JEQ, IPPROTO_TCP, to[ALLOW], tcp);
	tcp = load_argument(bpf, 2, bpf_if(bpf, BPF_JEQ, 0, to[ALLOW], tcp));
	place = bpf_if(bpf, BPF_JEQ, SOCK_DGRAM, udp, to[SAY_EPERM]);
	place = bpf_if(bpf, BPF_JEQ, SOCK_STREAM, tcp, place);
	return load_argument(bpf, 1, bpf_and(bpf, 0xf, place));
}

/* Without namespaces the network is the host's: TCP only, for the guard to connect. */
static void check_stream_socket(struct bpf *bpf, unsigned *to)
{
	unsigned no_protocol = refuse(bpf, EPROTONOSUPPORT);
	unsigned tcp, place;

	tcp = bpf_if(bpf, BPF_JEQ, IPPROTO_MPTCP, no_protocol, to[SAY_EPERM]);
	tcp = bpf_if(bpf, BPF_JEQ, IPPROTO_TCP, to[ALLOW], tcp);
	tcp = load_argument(bpf, 2, bpf_if(bpf, BPF_JEQ, 0, to[ALLOW], tcp));
	tcp = bpf_and(bpf, 0xf, bpf_if(bpf, BPF_JEQ, SOCK_STREAM, tcp, to[SAY_EPERM]));
	tcp = load_argument(bpf, 1, tcp);
	place = bpf_if(bpf, BPF_JEQ, AF_INET6, tcp, to[CHECK_LOCAL_SOCKET]);
	place = bpf_if(bpf, BPF_JEQ, AF_INET, tcp, place);
	to[CHECK_STREAM_SOCKET] = load_argument(bpf, 0, place);
}

/* Every other family is a kernel module that most people never load, AF_VSOCK among them, which
 * talks to the machine's host past any namespace. Of netlink only the routing part, with which C
 * libraries list interfaces; to change something there takes a capability. */
static void check_socket(struct bpf *bpf, unsigned *to)
{
	unsigned no_protocol = refuse(bpf, EPROTONOSUPPORT);
	unsigned no_family = refuse(bpf, EAFNOSUPPORT);
	unsigned local, netlink, internet, place;

	netlink = bpf_if(bpf, BPF_JEQ, NETLINK_ROUTE, to[ALLOW], no_protocol);
	netlink = load_argument(bpf, 2, netlink);
	internet = check_internet(bpf, to, no_protocol);
	local = load_argument(bpf, 1, check_unix_type(bpf, to, no_protocol));

	place = bpf_if(bpf, BPF_JEQ, AF_UNIX, local, no_family);
	to[CHECK_SOCKETPAIR] = to[CHECK_LOCAL_SOCKET] = load_argument(bpf, 0, place);
	place = bpf_if(bpf, BPF_JEQ, AF_NETLINK, netlink, no_family);
	place = bpf_if(bpf, BPF_JEQ, AF_INET6, internet, place);
	place = bpf_if(bpf, BPF_JEQ, AF_INET, internet, place);
	to[CHECK_SOCKET] = load_argument(bpf, 0, bpf_if(bpf, BPF_JEQ, AF_UNIX, local, place));
}

/* Where there is no network there is no such socket, and whoever wanted one wanted to connect. */
static void see_internet(struct bpf *bpf, unsigned *to)
{
	unsigned place = bpf_if(bpf, BPF_JEQ, AF_INET6, to[GUARD], to[CHECK_LOCAL_SOCKET]);

	place = bpf_if(bpf, BPF_JEQ, AF_INET, to[GUARD], place);
	to[CHECK_LOCAL_SOCKET] = load_argument(bpf, 0, place);
}

/* MSG_OOB on a unix socket has been a way into the kernel (CVE-2025-38236). MSG_FASTOPEN connects
 * without connect(), past the guard; where it is switched off the kernel says the same. */
static unsigned check_send(struct bpf *bpf, const unsigned *to, unsigned flags)
{
	unsigned asks =
		bpf_if(bpf, BPF_JSET, MSG_OOB | MSG_FASTOPEN, to[SAY_EOPNOTSUPP], to[ALLOW]);

	return load_argument(bpf, flags, asks);
}

/* With an address: without a network there is no way there. Both halves of the pointer count. */
static unsigned see_sending(struct bpf *bpf, const unsigned *to)
{
	const uint32_t address = offsetof(struct seccomp_data, args) + 4 * sizeof(uint64_t);
	unsigned asks, place;

	place = bpf_load(bpf, address + 4, bpf_if(bpf, BPF_JEQ, 0, to[ALLOW], to[GUARD]));
	place = bpf_load(bpf, address, bpf_if(bpf, BPF_JEQ, 0, place, to[GUARD]));
	asks = bpf_if(bpf, BPF_JSET, MSG_OOB | MSG_FASTOPEN, to[SAY_EOPNOTSUPP], place);
	return load_argument(bpf, 3, asks);
}

/*
 * A lease makes everybody else's open() of the file wait until the holder gives it back or
 * /proc/sys/fs/lease-break-time (45 s) is over: the host's git waits for the command. F_SETDELEG
 * (Linux 6.19) is the same for directories, so numbers above those of Linux 6.18 are refused as an
 * older kernel would. F_NOTIFY tells of changes by signals, past the guard, which decides about
 * inotify where there are no namespaces; kernels without CONFIG_DNOTIFY answer EINVAL.
 * Record locks, flock() and OFD locks stay: builds need them, and they end with the run.
 */
static unsigned check_fcntl(struct bpf *bpf, const unsigned *to)
{
	const uint32_t last = 1024 + 14; /* F_SET_FILE_RW_HINT */
	unsigned unknown = refuse(bpf, EINVAL), place;

	place = bpf_if(bpf, BPF_JGE, last + 1, unknown, to[ALLOW]);
	place = bpf_if(bpf, BPF_JEQ, F_NOTIFY, unknown, place);
	place = bpf_if(bpf, BPF_JEQ, F_SETLEASE, to[SAY_EPERM], place);
	return load_argument(bpf, 1, place);
}

/*
 * Terminals: putting words into the caller's shell (TIOCSTI, TIOCLINUX), taking the console's
 * output, and line disciplines, which are rarely looked at kernel code.
 *
 * Otherwise by a list of what is allowed, because every driver and filesystem has letters of its
 * own. The kernel's devices inside are terminals and null, zero, full and random; all else that a
 * command can open is a file, a directory, a pipe, a socket, or a descriptor of the kernel's such
 * as a pidfd.
 *
 * Filesystems let an owner change a file, or make one, through a descriptor that was opened to
 * read, where neither Landlock nor the guard looks: chattr(1), fs-verity, versions ('v'),
 * subvolumes and snapshots of btrfs and bcachefs, attributes of vfat ('r'), f2fs (0xf5) and others.
 * So of these only what reads, cloning, which asks for a descriptor opened to write, and sharing of
 * equal blocks. Tools know EOPNOTSUPP from NFS and others. Every other number gets ENOTTY, as from
 * a kernel that does not have it.
 *
 * A contract that passes descriptors, or grants a socket through which they come, may pass a device
 * (a GPU behind a display server): then every letter but those of filesystems is allowed. pid 1
 * answers the calls of a filter's listener, which are ioctl() of the letter '!'.
 */
static unsigned check_ioctl(struct bpf *bpf, const unsigned *to,
			    const struct filter_options *options)
{
	static const uint32_t terminal[] = {TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD};
	static const uint32_t harmless[] = {FS_IOC_GETFLAGS,   FS_IOC_FSGETXATTR, FS_IOC_FIEMAP,
					    FICLONE,	       FICLONERANGE,	  FIDEDUPERANGE,
					    FS_IOC_GETVERSION, FIGETBSZ};
	/* Those of drivers that have files, not devices: btrfs and bcachefs, f2fs, vfat, nilfs2,
	 * ocfs2, ceph, cifs. Without devices the last answer refuses all but the first three. */
	static const uint32_t filesystems[] = {'f', 'X', 0x94, 'v',  0xbc, 0xf5,
					       'r', 'n', 'o',  0x97, 0xcf};
	/* The program is built backwards: the last entry is compared first. */
	static const uint32_t letters[] = {
		0xff, /* pidfd */
		0xb7, /* namespaces: to ask; setns() is refused */
		'R',  /* random: to ask; to add entropy takes a capability */
		0x89, /* sockets and interfaces; to change one takes a capability */
		'T',  /* terminals, pipes, FIONREAD, FIOCLEX, FIONBIO; timerfd */
	};
	const bool may_have_devices = options->may_have_devices;
	const size_t n_letters = may_have_devices ? 0 : sizeof(letters) / sizeof(*letters);
	const size_t n = may_have_devices ? sizeof(filesystems) / sizeof(*filesystems) : 3;
	unsigned place = may_have_devices ? to[ALLOW] : refuse(bpf, ENOTTY);

	for (size_t i = 0; i < n; i++)
		place = bpf_if(bpf, BPF_JEQ, filesystems[i] << _IOC_TYPESHIFT, to[SAY_EOPNOTSUPP],
			       place);
	for (size_t i = 0; i < n_letters; i++)
		place = bpf_if(bpf, BPF_JEQ, letters[i] << _IOC_TYPESHIFT, to[ALLOW], place);
	if (options->is_first)
		place = bpf_if(bpf, BPF_JEQ, (uint32_t)SECCOMP_IOC_MAGIC << _IOC_TYPESHIFT,
			       to[ALLOW], place);
	place = bpf_and(bpf, _IOC_TYPEMASK << _IOC_TYPESHIFT, place);
	for (size_t i = 0; i < sizeof(harmless) / sizeof(*harmless); i++)
		place = bpf_if(bpf, BPF_JEQ, harmless[i], to[ALLOW], place);
	for (size_t i = 0; i < sizeof(terminal) / sizeof(*terminal); i++)
		place = bpf_if(bpf, BPF_JEQ, terminal[i], to[SAY_EPERM], place);
	return load_argument(bpf, 1, place);
}

/* To ask (all ones), and what setarch(1) does to build for 32 bits. Not what weakens a program's
 * own defences; gdb says that it could not switch address randomisation off, and goes on. */
static unsigned check_personality(struct bpf *bpf, const unsigned *to)
{
	const uint32_t harmless = PER_LINUX | PER_LINUX32 | UNAME26;
	unsigned place = bpf_if(bpf, BPF_JSET, ~harmless, to[SAY_EPERM], to[ALLOW]);

	return load_argument(bpf, 0, bpf_if(bpf, BPF_JEQ, UINT32_MAX, to[ALLOW], place));
}

/* EINVAL is how a kernel answers an option that it does not have. Numbers that never were an
 * option, or one of other processors only, are let through to hear just that: it makes the program
 * shorter. Numbers stand where Linux 6.1's header has no name. */
static unsigned check_prctl(struct bpf *bpf, const unsigned *to)
{
	const uint32_t get_auxv = 0x41555856; /* 6.4: one's own */
	unsigned unknown = refuse(bpf, EINVAL), place;
	struct bpf_range options[] = {
		{0, to[ALLOW]}, /* up to PR_GET_TIMERSLACK: one's own settings, and letting go */
		{PR_TASK_PERF_EVENTS_DISABLE, unknown}, /* and ENABLE, and PR_MCE_KILL */
		{PR_MCE_KILL_GET, to[ALLOW]},
		{PR_SET_MM, to[SAY_EPERM]},	     /* forges what /proc says about the process */
		{PR_SET_CHILD_SUBREAPER, to[ALLOW]}, /* up to PR_GET_TAGGED_ADDR_CTRL */
		/* and GET, and SYSCALL_USER_DISPATCH: calls by code that nobody expects */
		{PR_SET_IO_FLUSHER, unknown},
		{PR_PAC_SET_ENABLED_KEYS, to[ALLOW]}, /* and GET */
		{PR_SCHED_CORE, to[SAY_EPERM]},	      /* has a say in who shares a core */
		{PR_SME_SET_VL, to[ALLOW]}, /* and GET, PR_SET_MDWE, PR_SET_MEMORY_MERGE and GET */
		{69, unknown},		    /* RISC-V and PowerPC */
#ifdef __aarch64__
		{74, to[ALLOW]}, /* PR_GET_SHADOW_STACK_STATUS, SET, LOCK: the C library */
		{77, unknown},
#endif
	};

	place = bpf_search(bpf, options, sizeof(options) / sizeof(*options));
	place = bpf_if(bpf, BPF_JEQ, get_auxv, to[ALLOW], place);
	place = bpf_if(bpf, BPF_JEQ, PR_SET_PTRACER, to[ALLOW], place);
	place = bpf_if(bpf, BPF_JEQ, PR_SET_VMA, to[ALLOW], place);
	return load_argument(bpf, 0, place);
}

/* A job may filter itself further. A listener of its own could answer in the guard's place; EBUSY
 * is what the kernel says when there is one already. */
static unsigned check_seccomp(struct bpf *bpf, const unsigned *to)
{
	unsigned busy = refuse(bpf, EBUSY), place;

	place = bpf_if(bpf, BPF_JSET, SECCOMP_FILTER_FLAG_NEW_LISTENER, busy, to[ALLOW]);
	place = load_argument(bpf, 1, place);
	place = bpf_if(bpf, BPF_JEQ, SECCOMP_SET_MODE_FILTER, place, to[ALLOW]);
	return load_argument(bpf, 0, place);
}

/* The guard is told, because it is in no such domain itself: see call-openat2.c. Our own call comes
 * before the guard serves anybody. Its mark is where the kernel does not look. */
static unsigned check_restrict(struct bpf *bpf, const unsigned *to)
{
	const uint32_t high_half = offsetof(struct seccomp_data, args) + sizeof(uint64_t) + 4;

	return bpf_load(bpf, high_half,
			bpf_if(bpf, BPF_JEQ, FILTER_OWN_RULES, to[ALLOW], to[GUARD]));
}

/* Both halves of a pointer. */
static unsigned check_null(struct bpf *bpf, unsigned n, unsigned yes, unsigned no)
{
	const uint32_t address = offsetof(struct seccomp_data, args) + n * sizeof(uint64_t);

	return bpf_load(bpf, address,
			bpf_if(bpf, BPF_JEQ, 0,
			       bpf_load(bpf, address + 4, bpf_if(bpf, BPF_JEQ, 0, yes, no)), no));
}

/*
 * One's own limits only: the first process runs under the same id, and must keep its own.
 *
 * RLIMIT_CORE stays 1, for which the kernel writes no file and starts no handler (seal.c). For 0 it
 * would start the handler of core_pattern: a program of the host's, as root, with the memory of
 * whoever crashes as its input. ssh-agent, gpg and others set 0 and end if they cannot, so they are
 * told that it was done: there is no core file with either.
 */
static void check_limits(struct bpf *bpf, unsigned *to)
{
	unsigned done = bpf_return(bpf, SECCOMP_RET_ERRNO), core, own;

	core = check_null(bpf, 2, to[ALLOW], check_null(bpf, 3, done, to[SAY_EPERM]));
	own = load_argument(bpf, 1, bpf_if(bpf, BPF_JEQ, RLIMIT_CORE, core, to[ALLOW]));
	to[CHECK_PRLIMIT] = load_argument(bpf, 0, bpf_if(bpf, BPF_JEQ, 0, own, to[SAY_EPERM]));
	to[CHECK_SETRLIMIT] =
		load_argument(bpf, 0, bpf_if(bpf, BPF_JEQ, RLIMIT_CORE, done, to[ALLOW]));
}

/* Without a pid namespace the user's other processes could be slowed down. PRIO_USER (and its like
 * for input and output) means all of them, also with 0. */
static void check_process(struct bpf *bpf, unsigned *to)
{
	const uint32_t ioprio_who_process = 1;
	unsigned self = bpf_if(bpf, BPF_JEQ, 0, to[ALLOW], to[SAY_EPERM]), second;

	to[CHECK_SELF] = load_argument(bpf, 0, self);
	second = load_argument(bpf, 1, self);
	to[CHECK_PRIORITY] =
		load_argument(bpf, 0, bpf_if(bpf, BPF_JEQ, PRIO_PROCESS, second, to[SAY_EPERM]));
	to[CHECK_IOPRIO] = load_argument(
		bpf, 0, bpf_if(bpf, BPF_JEQ, ioprio_who_process, second, to[SAY_EPERM]));
}

/*
 * What differs for the first process
 *
 * It has no guard but itself. Templates that it forks later inherit this filter and add their own:
 * the kernel obeys the stricter answer, and an errno is stricter than asking the guard. So where
 * the record is told of refused calls they are answered by SECCOMP_RET_TRACE, which yields to the
 * guard's, and which the kernel answers with ENOSYS where no tracer has asked for such calls.
 * Nobody under this filter may be such a tracer.
 */
static unsigned check_ptrace(struct bpf *bpf, const unsigned *to)
{
	const uint32_t trace_seccomp = 1 << 7, set_options = 0x4200, seize = 0x4206;
	const uint32_t old_set_options = 21; /* PTRACE_OLDSETOPTIONS, which x86 still has */
	unsigned place = load_argument(
		bpf, 3, bpf_if(bpf, BPF_JSET, trace_seccomp, to[JUST_EPERM], to[ALLOW]));

	place = bpf_if(bpf, BPF_JEQ, seize, place,
		       bpf_if(bpf, BPF_JEQ, set_options, place,
			      bpf_if(bpf, BPF_JEQ, old_set_options, place, to[ALLOW])));
	return load_argument(bpf, 0, place);
}

static void answer_first(const struct filter_options *options, struct bpf *bpf,
			 unsigned to[ANSWERS])
{
	to[SAY_EPERM] = to[JUST_EPERM];
	if (options->sees && options->forks_templates) {
		to[SAY_EPERM] = bpf_return(bpf, SECCOMP_RET_TRACE);
		to[CHECK_PTRACE] = check_ptrace(bpf, to);
	}
	to[EXECUTE] = to[options->forks_templates ? ALLOW : JUST_EPERM];
}

/* Without templates it never executes or traces anything, and seals nobody. */
static const struct rule last_rules[] = {
	{SAY_EPERM, CALLS(SYS_ptrace, SYS_process_vm_writev, SYS_process_madvise, SYS_seccomp)},
	{SAY_EPERM, CALLS(SYS_setuid, SYS_setreuid, SYS_setgid, SYS_setregid)},
	{SAY_EPERM, CALLS(SYS_personality, SYS_accept, SYS_accept4, SYS_io_setup, SYS_io_submit)},
	{SAY_EPERM, CALLS(SYS_shmget, SYS_shmat, SYS_msgget, SYS_semget, SYS_mq_open)},
};

/* Gives every answer a place in the program. */
static void build_answers(const struct filter_options *options, struct bpf *bpf,
			  unsigned to[ANSWERS])
{
	unsigned to_read;

	to[SAY_ENOSYS] = refuse(bpf, ENOSYS);
	to[JUST_EPERM] = refuse(bpf, EPERM);
	to[SAY_EACCES] = refuse(bpf, EACCES);
	to[SAY_EOPNOTSUPP] = refuse(bpf, EOPNOTSUPP);
	to[ALLOW] = bpf_return(bpf, SECCOMP_RET_ALLOW);
	to[GUARD] = options->is_first ? to[ALLOW] : bpf_return(bpf, SECCOMP_RET_USER_NOTIF);
	to[SAY_EPERM] = to[options->sees ? GUARD : JUST_EPERM];
	to[EXECUTE] = to[options->sees ? GUARD : ALLOW];
	if (options->is_first)
		answer_first(options, bpf, to);
	to[CHANGE_OPEN] = to[options->leaves_files ? ALLOW : GUARD];
	to[CHANGE] = to[options->leaves_files && !options->sees ? ALLOW : GUARD];

	to[CHECK_MODE_1] = to[CHECK_FCHMOD] = check_mode(bpf, to, 1, to[CHANGE]);
	if (to[CHANGE_OPEN] != to[CHANGE])
		to[CHECK_FCHMOD] = check_mode(bpf, to, 1, to[CHANGE_OPEN]);
	to[CHECK_MODE_2] = check_mode(bpf, to, 2, to[CHANGE]);
	to[CHECK_MODE_3] = check_mode(bpf, to, 3, to[CHANGE]);
	to_read = to[options->guards_reading ? GUARD : ALLOW];
	if (options->sees && !options->guards_reading)
		to_read = see_reading(bpf, to, 2, true);
	to[CHECK_OPENAT] = check_open(bpf, to, 2, to[CHECK_MODE_3], to_read);
#ifdef SYS_open
	if (options->sees && !options->guards_reading)
		to_read = see_reading(bpf, to, 1, false);
	to[CHECK_OPEN] = check_open(bpf, to, 1, to[CHECK_MODE_2], to_read);
#endif
	check_mknod(bpf, to);
	to[CHECK_CLONE] = check_clone(bpf, to);
	to[CHECK_UNSHARE] = check_unshare(bpf, to);
	check_socket(bpf, to);
	if (options->sees && options->is_bare && !options->has_proxy)
		see_internet(bpf, to);
	to[CHECK_SEND_2] = check_send(bpf, to, 2);
	to[CHECK_SEND_3] = check_send(bpf, to, 3);
	to[CHECK_SENDTO] = options->sees_sending ? see_sending(bpf, to) : to[CHECK_SEND_3];
	to[CHECK_FCNTL] = check_fcntl(bpf, to);
	to[CHECK_IOCTL] = check_ioctl(bpf, to, options);
	to[CHECK_PERSONALITY] = check_personality(bpf, to);
	to[CHECK_PRCTL] = check_prctl(bpf, to);
	to[CHECK_SECCOMP] = check_seccomp(bpf, to);
	check_limits(bpf, to);
	to[CHECK_RESTRICT] = check_restrict(bpf, to);
	if (options->is_first) /* a template's own filter and limits */
		to[CHECK_SECCOMP] = to[CHECK_PRLIMIT] = to[CHECK_SETRLIMIT] = to[ALLOW];
	if (options->is_bare) /* each step costs time at every start */
		check_process(bpf, to);
	if (options->has_proxy)
		check_stream_socket(bpf, to);
}

/*
 * What differs where there are no namespaces
 *
 * A network, message queues and shared memory would be the host's. Times and owners can be changed
 * wherever the kernel lets an owner, because no mount is read-only and Landlock does not know
 * these calls.
 */
static const struct rule bare_rules[] = {
	{CHECK_LOCAL_SOCKET, CALLS(SYS_socket)},
	{SAY_ENOSYS, CALLS(SYS_shmget, SYS_shmat, SYS_shmdt, SYS_shmctl)},
	{SAY_ENOSYS, CALLS(SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl)},
	{SAY_ENOSYS, CALLS(SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl)},
	{SAY_ENOSYS, CALLS(SYS_mq_open, SYS_mq_unlink, SYS_mq_timedsend, SYS_mq_timedreceive)},
	{SAY_ENOSYS, CALLS(SYS_mq_notify, SYS_mq_getsetattr)},
	{CHECK_SELF, CALLS(SYS_sched_setaffinity, SYS_sched_setparam, SYS_sched_setattr)},
	{CHECK_SELF, CALLS(SYS_sched_setscheduler)},
	{CHECK_PRIORITY, CALLS(SYS_setpriority)},
	{CHECK_IOPRIO, CALLS(SYS_ioprio_set)},
	{GUARD, CALLS(SYS_fchown, SYS_fchownat, SYS_utimensat)},
	{GUARD, CALLS(SYS_inotify_add_watch)},
#ifdef __x86_64__
	{GUARD, CALLS(SYS_chown, SYS_lchown)},
	/* Three older forms of utimensat; C libraries use the newest. */
	{SAY_ENOSYS, CALLS(SYS_utime, SYS_utimes, SYS_futimesat)},
#endif
};

/* And there, with a proxy: a socket that nothing was bound to gets a port of the host's by
 * listening. */
static const struct rule proxy_rules[] = {
	{CHECK_STREAM_SOCKET, CALLS(SYS_socket)},
	{GUARD, CALLS(SYS_listen)},
};

static void apply(const struct rule *list, size_t n, uint8_t calls[CALLS_MAX])
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < list[i].n; k++)
			calls[list[i].calls[k]] = list[i].answer;
}

static void fill_calls(const struct filter_options *options, uint8_t calls[CALLS_MAX])
{
	memset(calls, SAY_ENOSYS, CALLS_MAX);
	apply(rules, sizeof(rules) / sizeof(*rules), calls);
	if (options->is_first) {
		if (!options->forks_templates)
			apply(last_rules, sizeof(last_rules) / sizeof(*last_rules), calls);
		else if (options->sees)
			calls[SYS_ptrace] = CHECK_PTRACE;
		return;
	}
	if (options->is_bare)
		apply(bare_rules, sizeof(bare_rules) / sizeof(*bare_rules), calls);
	if (options->has_proxy)
		apply(proxy_rules, sizeof(proxy_rules) / sizeof(*proxy_rules), calls);
	if (options->keeps_affinity)
		calls[SYS_sched_setaffinity] = SAY_EPERM;
}

size_t filter_build(const struct filter_options *options, struct sock_filter program[FILTER_MAX])
{
	unsigned to[ANSWERS] = {0}, kill, place;
	struct bpf_range ranges[CALLS_MAX];
	uint8_t calls[CALLS_MAX];
	struct bpf bpf;
	size_t n = 0;

	bpf_init(&bpf, program, FILTER_MAX);
	/* 32-bit code, int 0x80 included, has numbers of its own that nobody has checked. */
	kill = bpf_return(&bpf, SECCOMP_RET_KILL_PROCESS);
	build_answers(options, &bpf, to);

	fill_calls(options, calls);
	for (size_t i = 0; i < CALLS_MAX; i++)
		if (i == 0 || to[calls[i]] != to[calls[i - 1]])
			ranges[n++] = (struct bpf_range){i, to[calls[i]]};

	place = bpf_search(&bpf, ranges, n);
	place = bpf_load(&bpf, offsetof(struct seccomp_data, nr), place);
	place = bpf_if(&bpf, BPF_JEQ, UAPI_NATIVE_ARCH, place, kill);
	bpf_load(&bpf, offsetof(struct seccomp_data, arch), place);
	return bpf_finish(&bpf);
}
