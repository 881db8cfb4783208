/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kernel definitions that the distribution's headers lack
 *
 * Debian 12 builds against the headers of Linux 6.1; a newer kernel may run beneath. Each block
 * says since when the kernel has it.
 */

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/syscall.h>

/* For which the tables of system calls have been checked. */
#if defined(__x86_64__)
#define UAPI_NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define UAPI_NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "the tables of system calls have not been checked for this architecture"
#endif

/* Landlock ABI 2 (5.19), 3 (6.2), 5 (6.10) */
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV
#define LANDLOCK_ACCESS_FS_IOCTL_DEV (1ULL << 15)
#endif

/* Landlock ABI 4 (6.7) and 6 (6.12): the whole of the structure, under our own name because
 * older headers define a shorter one. The kernel takes any size it knows. */
struct uapi_landlock_ruleset_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net;
	uint64_t scoped;
};
#define UAPI_LANDLOCK_ACCESS_NET_BIND_TCP	 (1ULL << 0)
#define UAPI_LANDLOCK_ACCESS_NET_CONNECT_TCP	 (1ULL << 1)
#define UAPI_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0)
#define UAPI_LANDLOCK_SCOPE_SIGNAL		 (1ULL << 1)
#define UAPI_LANDLOCK_RULE_NET_PORT		 2
struct uapi_landlock_net_port_attr {
	uint64_t allowed_access;
	uint64_t port;
};

/* 6.9: a descriptor of one thread */
#define UAPI_PIDFD_THREAD O_EXCL

/* 5.19: a caller that is being answered sleeps through everything but a fatal signal */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

/* 6.6: the answering thread runs on the caller's CPU; ioctl on the listener, by value */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

/* System calls by number, where <sys/syscall.h> is older than the kernel; the numbers from 424
 * on are the same on every architecture. */
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_map_shadow_stack
#define SYS_map_shadow_stack 453
#endif
#ifndef SYS_futex_wake
#define SYS_futex_wake	  454
#define SYS_futex_wait	  455
#define SYS_futex_requeue 456
#endif
#ifndef SYS_statmount
#define SYS_statmount 457
#define SYS_listmount 458
#endif
#ifndef SYS_lsm_get_self_attr
#define SYS_lsm_get_self_attr 459
#define SYS_lsm_set_self_attr 460
#define SYS_lsm_list_modules  461
#endif
#ifndef SYS_mseal
#define SYS_mseal 462
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat	  463
#define SYS_getxattrat	  464
#define SYS_listxattrat	  465
#define SYS_removexattrat 466
#endif
#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif
#ifndef SYS_file_getattr
#define SYS_file_getattr 468
#define SYS_file_setattr 469
#endif
/* 6.11 and 6.18, x86-64 only: made by the kernel's own probes, never by a program */
#if defined(__x86_64__) && !defined(SYS_uretprobe)
#define SYS_uretprobe 335
#endif
#if defined(__x86_64__) && !defined(SYS_uprobe)
#define SYS_uprobe 336
#endif

/*
 * What a C library smaller than glibc leaves out; the program is linked with one (see meson.build).
 */
#ifndef __GLIBC__
#include <asm/unistd.h>
#include <linux/mount.h>
#include <linux/stat.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef SYS_set_mempolicy_home_node
#define SYS_set_mempolicy_home_node __NR_set_mempolicy_home_node
#endif
#ifndef SYS_memfd_secret
#define SYS_memfd_secret __NR_memfd_secret
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv __NR_futex_waitv
#endif
#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd __NR_quotactl_fd
#endif
#ifndef SYS_process_mrelease
#define SYS_process_mrelease __NR_process_mrelease
#endif

/* Theirs has O_PATH in it. Ours is what the kernel looks at. */
#undef O_ACCMODE
#define O_ACCMODE 3

#define RENAME_NOREPLACE    1
#define RENAME_EXCHANGE	    2
#define RENAME_WHITEOUT	    4
#define CLOSE_RANGE_CLOEXEC 4
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

/* Plain tables there, and nothing is translated. */
#define strerrordesc_np strerror

static inline int close_range(unsigned first, unsigned last, int flags)
{
	return (int)syscall(__NR_close_range, first, last, flags);
}

static inline int open_tree(int dir_fd, const char *path, unsigned flags)
{
	return (int)syscall(__NR_open_tree, dir_fd, path, flags);
}

static inline int move_mount(int from_fd, const char *from, int to_fd, const char *to,
			     unsigned flags)
{
	return (int)syscall(__NR_move_mount, from_fd, from, to_fd, to, flags);
}

static inline int mount_setattr(int dir_fd, const char *path, unsigned flags,
				struct mount_attr *attr, size_t size)
{
	return (int)syscall(__NR_mount_setattr, dir_fd, path, flags, attr, size);
}

static inline int statx(int dir_fd, const char *path, int flags, unsigned mask, struct statx *ret)
{
	return (int)syscall(__NR_statx, dir_fd, path, flags, mask, ret);
}

static inline int renameat2(int from_fd, const char *from, int to_fd, const char *to,
			    unsigned flags)
{
	if (!flags)
		return renameat(from_fd, from, to_fd, to);
	return (int)syscall(__NR_renameat2, from_fd, from, to_fd, to, flags);
}
#endif
