/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate/ns/filter.h"

#include "base/test.h"
#include "base/uapi.h"
#include "isolate/ns/bpf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define YES	    SECCOMP_RET_ALLOW
#define ASK	    SECCOMP_RET_USER_NOTIF
#define NO(errnum_) (SECCOMP_RET_ERRNO | (errnum_))

#if defined(__x86_64__)
#define ARCH		     AUDIT_ARCH_X86_64
#define FOREIGN		     AUDIT_ARCH_I386
#define NUMBERS_LOW_END	     336 /* then nothing up to 424 */
#define NUMBERS_IN_A_HOLE(n) false
#else
#define ARCH		     AUDIT_ARCH_AARCH64
#define FOREIGN		     AUDIT_ARCH_ARM
#define NUMBERS_LOW_END	     295
#define NUMBERS_IN_A_HOLE(n) ((n) >= 244 && (n) < 260) /* kept for other architectures */
#endif
#define NUMBERS_HIGH_START 424
#define NUMBERS_END	   470

static struct sock_filter program[FILTER_MAX];
static size_t length;

static void build(void)
{
	length = filter_build(&(struct filter_options){0}, program);
}

/* Runs the program as the kernel would. Says through `ret_looked` whether it read an argument. */
static uint32_t run(const struct seccomp_data *data, bool *ret_looked)
{
	uint32_t a = 0;

	*ret_looked = false;
	for (size_t pc = 0; pc < length; pc++) {
		const struct sock_filter *step = &program[pc];
		bool is_so = false;

		switch (step->code) {
		case BPF_RET | BPF_K:
			return step->k;
		case BPF_LD | BPF_W | BPF_ABS:
			CHECK(step->k % 4 == 0 && step->k + 4 <= sizeof(*data));
			memcpy(&a, (const char *)data + step->k, sizeof(a));
			*ret_looked |= step->k >= offsetof(struct seccomp_data, args);
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= step->k;
			continue;
		case BPF_JMP | BPF_JA:
			pc += step->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			is_so = a == step->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			is_so = a >= step->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			is_so = a & step->k;
			break;
		default:
			test_fail(__FILE__, __LINE__, "step %zu has code %#x", pc, step->code);
		}
		pc += is_so ? step->jt : step->jf;
	}
	test_fail(__FILE__, __LINE__, "ran off the end");
}

struct arguments {
	uint64_t word[6];
};

static uint32_t ask(uint32_t nr, struct arguments arguments)
{
	struct seccomp_data data = {.nr = (int)nr, .arch = ARCH};
	bool looked;

	memcpy(data.args, arguments.word, sizeof(data.args));
	return run(&data, &looked);
}

/* The same answer is due when the upper halves hold what is left of something else. */
#define CHECK_CALL(want, name, ...)                                                                \
	do {                                                                                       \
		struct arguments args_ = {{__VA_ARGS__}};                                          \
		CHECK_INT(ask(SYS_##name, args_), want);                                           \
		for (size_t i_ = 0; i_ < 6; i_++)                                                  \
			args_.word[i_] |= 0xdeadbeef00000000 + (i_ << 32);                         \
		CHECK_INT(ask(SYS_##name, args_), want);                                           \
	} while (0)

struct expectation {
	int nr;
	uint32_t answer;
};

/* With all arguments 0. What is not here is allowed, or unknown. */
static const struct expectation expectations[] = {
	/* changes by name: the guard */
	{SYS_openat2, ASK},
	{SYS_renameat, ASK},
	{SYS_renameat2, ASK},
	{SYS_linkat, ASK},
	{SYS_symlinkat, ASK},
	{SYS_unlinkat, ASK},
	{SYS_mkdirat, ASK},
	{SYS_mknodat, ASK},
	{SYS_truncate, ASK},
	{SYS_fchmod, ASK},
	{SYS_fchmodat, ASK},
	{SYS_fchmodat2, ASK},
	{SYS_setxattr, ASK},
	{SYS_lsetxattr, ASK},
	{SYS_fsetxattr, ASK},
	{SYS_removexattr, ASK},
	{SYS_lremovexattr, ASK},
	{SYS_fremovexattr, ASK},
	{SYS_setxattrat, NO(ENOSYS)},
	{SYS_removexattrat, NO(ENOSYS)},
	{SYS_bind, ASK},
	{SYS_connect, ASK},
	{SYS_fallocate, ASK},
	{SYS_memfd_create, ASK},
	{SYS_landlock_restrict_self, ASK},
	/* "no such thing" */
	{SYS_clone3, NO(ENOSYS)},
	{SYS_io_uring_setup, NO(ENOSYS)},
	{SYS_io_uring_enter, NO(ENOSYS)},
	{SYS_io_uring_register, NO(ENOSYS)},
	{SYS_userfaultfd, NO(ENOSYS)},
	{SYS_memfd_secret, NO(ENOSYS)},
	{SYS_add_key, NO(ENOSYS)},
	{SYS_request_key, NO(ENOSYS)},
	{SYS_keyctl, NO(ENOSYS)},
	{SYS_open_tree, NO(ENOSYS)},
	{SYS_open_tree_attr, NO(ENOSYS)},
	{SYS_move_mount, NO(ENOSYS)},
	{SYS_fsopen, NO(ENOSYS)},
	{SYS_fsconfig, NO(ENOSYS)},
	{SYS_fsmount, NO(ENOSYS)},
	{SYS_fspick, NO(ENOSYS)},
	{SYS_mount_setattr, NO(ENOSYS)},
	{SYS_statmount, NO(ENOSYS)},
	{SYS_listmount, NO(ENOSYS)},
	{SYS_lsm_get_self_attr, NO(ENOSYS)},
	{SYS_lsm_set_self_attr, NO(ENOSYS)},
	{SYS_lsm_list_modules, NO(ENOSYS)},
	{SYS_lookup_dcookie, NO(ENOSYS)},
	{SYS_nfsservctl, NO(ENOSYS)},
	/* "not you" */
	{SYS_ioctl, NO(ENOTTY)}, /* with 0 */
	{SYS_bpf, NO(EPERM)},
	{SYS_perf_event_open, NO(EACCES)},
	{SYS_setns, NO(EPERM)},
	{SYS_mount, NO(EPERM)},
	{SYS_umount2, NO(EPERM)},
	{SYS_pivot_root, NO(EPERM)},
	{SYS_chroot, NO(EPERM)},
	{SYS_kexec_load, NO(EPERM)},
	{SYS_kexec_file_load, NO(EPERM)},
	{SYS_init_module, NO(EPERM)},
	{SYS_finit_module, NO(EPERM)},
	{SYS_delete_module, NO(EPERM)},
	{SYS_reboot, NO(EPERM)},
	{SYS_swapon, NO(EPERM)},
	{SYS_swapoff, NO(EPERM)},
	{SYS_acct, NO(EPERM)},
	{SYS_quotactl, NO(EPERM)},
	{SYS_quotactl_fd, NO(EPERM)},
	{SYS_syslog, NO(EPERM)},
	{SYS_settimeofday, NO(EPERM)},
	{SYS_clock_settime, NO(EPERM)},
	{SYS_adjtimex, NO(EPERM)},
	{SYS_clock_adjtime, NO(EPERM)},
	{SYS_sethostname, NO(EPERM)},
	{SYS_setdomainname, NO(EPERM)},
	{SYS_vhangup, NO(EPERM)},
	{SYS_open_by_handle_at, NO(EPERM)},
	{SYS_fanotify_init, NO(EPERM)},
	{SYS_fanotify_mark, NO(EPERM)},
	{SYS_migrate_pages, NO(EPERM)},
	{SYS_move_pages, NO(EPERM)},
	/* "not here" */
	{SYS_name_to_handle_at, NO(EOPNOTSUPP)},
	{SYS_file_setattr, NO(EOPNOTSUPP)},
	{SYS_socket, NO(EAFNOSUPPORT)},
	{SYS_socketpair, NO(EAFNOSUPPORT)},
#ifdef __x86_64__
	{SYS_creat, ASK},
	{SYS_rename, ASK},
	{SYS_link, ASK},
	{SYS_symlink, ASK},
	{SYS_unlink, ASK},
	{SYS_mkdir, ASK},
	{SYS_rmdir, ASK},
	{SYS_mknod, ASK},
	{SYS_chmod, ASK},
	{SYS_iopl, NO(EPERM)},
	{SYS_ioperm, NO(EPERM)},
	{SYS_modify_ldt, NO(ENOSYS)},
	{SYS_set_thread_area, NO(ENOSYS)},
	{SYS_get_thread_area, NO(ENOSYS)},
	{SYS_uselib, NO(ENOSYS)},
	{SYS_ustat, NO(ENOSYS)},
	{SYS_sysfs, NO(ENOSYS)},
	{SYS__sysctl, NO(ENOSYS)},
	{SYS_create_module, NO(ENOSYS)},
	{SYS_get_kernel_syms, NO(ENOSYS)},
	{SYS_query_module, NO(ENOSYS)},
	{SYS_getpmsg, NO(ENOSYS)},
	{SYS_putpmsg, NO(ENOSYS)},
	{SYS_afs_syscall, NO(ENOSYS)},
	{SYS_tuxcall, NO(ENOSYS)},
	{SYS_security, NO(ENOSYS)},
	{SYS_vserver, NO(ENOSYS)},
	{SYS_epoll_ctl_old, NO(ENOSYS)},
	{SYS_epoll_wait_old, NO(ENOSYS)},
#endif
};

/* Allowed or not by their arguments; every other call is decided by its number alone. */
static const int looked_at[] = {SYS_openat,
				SYS_mknodat,
				SYS_fchmod,
				SYS_fchmodat,
				SYS_fchmodat2,
				SYS_clone,
				SYS_unshare,
				SYS_socket,
				SYS_socketpair,
				SYS_sendto,
				SYS_sendmsg,
				SYS_sendmmsg,
				SYS_ioctl,
				SYS_prctl,
				SYS_seccomp,
				SYS_fcntl,
				SYS_landlock_restrict_self,
#ifdef __x86_64__
				SYS_open,
				SYS_creat,
				SYS_mknod,
				SYS_chmod,
#endif
				SYS_personality,
				SYS_setrlimit,
				SYS_prlimit64};

static bool is_known(uint32_t nr)
{
	return (nr < NUMBERS_LOW_END || (nr >= NUMBERS_HIGH_START && nr < NUMBERS_END)) &&
	       !NUMBERS_IN_A_HOLE(nr);
}

static uint32_t expected(uint32_t nr)
{
	for (size_t i = 0; i < sizeof(expectations) / sizeof(*expectations); i++)
		if (expectations[i].nr == (int)nr)
			return expectations[i].answer;
	return is_known(nr) ? YES : NO(ENOSYS);
}

static bool is_looked_at(uint32_t nr)
{
	for (size_t i = 0; i < sizeof(looked_at) / sizeof(*looked_at); i++)
		if (looked_at[i] == (int)nr)
			return true;
	return false;
}

TEST(the_program_is_short_and_its_jumps_stay_inside)
{
	build();
	printf("# %zu instructions\n", length);
	CHECK(length > 50 && length < 240);
	for (size_t i = 0; i < length; i++) {
		const struct sock_filter *step = &program[i];

		if (step->code == (BPF_JMP | BPF_JA))
			CHECK(i + 1 + step->k < length);
		else if (BPF_CLASS(step->code) == BPF_JMP)
			CHECK(i + 1 + step->jt < length && i + 1 + step->jf < length);
	}
	CHECK(BPF_CLASS(program[length - 1].code) == BPF_RET);
}

TEST(every_number_has_the_expected_answer)
{
	build();
	for (uint32_t nr = 0; nr < 1024; nr++) {
		uint32_t have = ask(nr, (struct arguments){0});

		if (have != expected(nr))
			test_fail(__FILE__, __LINE__, "call %u is answered %#x, not %#x", nr, have,
				  expected(nr));
	}
}

/* The kernel remembers these and does not run the program for them. */
TEST(ordinary_calls_are_decided_by_their_number_alone)
{
	build();
	for (uint32_t nr = 0; nr < 1024; nr++) {
		struct seccomp_data data = {.nr = (int)nr, .arch = ARCH};
		bool looked;

		run(&data, &looked);
		if (looked != is_looked_at(nr))
			test_fail(__FILE__, __LINE__, "call %u: arguments are %sread", nr,
				  looked ? "" : "not ");
	}
}

TEST(limits_of_others_are_left_alone)
{
	build();
	CHECK_INT(ask(SYS_prlimit64, (struct arguments){0}), YES);
	CHECK_INT(ask(SYS_prlimit64, (struct arguments){{1}}), NO(EPERM));
}

TEST(the_limit_of_core_files_stays)
{
	const uint64_t high = UINT64_C(1) << 32;

	build();
	CHECK_INT(ask(SYS_setrlimit, (struct arguments){{RLIMIT_CORE, 8}}), NO(0));
	CHECK_INT(ask(SYS_setrlimit, (struct arguments){{RLIMIT_CORE | high, 8}}), NO(0));
	CHECK_INT(ask(SYS_setrlimit, (struct arguments){{RLIMIT_NOFILE, 8}}), YES);
	CHECK_INT(ask(SYS_prlimit64, (struct arguments){{0, RLIMIT_CORE, 0, 8}}), YES);
	CHECK_INT(ask(SYS_prlimit64, (struct arguments){{0, RLIMIT_CORE, 8, 0}}), NO(0));
	CHECK_INT(ask(SYS_prlimit64, (struct arguments){{0, RLIMIT_CORE, high, 0}}), NO(0));
	CHECK_INT(ask(SYS_prlimit64, (struct arguments){{0, RLIMIT_CORE, 8, 8}}), NO(EPERM));
	CHECK_INT(ask(SYS_prlimit64, (struct arguments){{0, RLIMIT_CORE, 8, high}}), NO(EPERM));
	CHECK_INT(ask(SYS_prlimit64, (struct arguments){{0, RLIMIT_NOFILE, 8, 8}}), YES);
}

TEST(the_guard_is_told_of_rules_that_are_not_ours)
{
	build();
	CHECK_INT(ask(SYS_landlock_restrict_self, (struct arguments){{3, 0}}), ASK);
	CHECK_INT(ask(SYS_landlock_restrict_self,
		      (struct arguments){{3, (uint64_t)FILTER_OWN_RULES << 32}}),
		  YES);
}

TEST(numbers_of_other_worlds_are_unknown)
{
	static const uint32_t odd[] = {0x40000000, 0x7fffffff, 0x80000000, 0xffffffff};

	build();
	for (uint32_t nr = 0; nr < 1024; nr++)
		CHECK_INT(ask(nr | 0x40000000, (struct arguments){0}), NO(ENOSYS));
	for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++)
		CHECK_INT(ask(odd[i], (struct arguments){0}), NO(ENOSYS));
}

TEST(a_foreign_architecture_is_killed)
{
	static const uint32_t arches[] = {FOREIGN, 0, ARCH ^ 1, AUDIT_ARCH_RISCV64};
	bool looked;

	build();
	for (size_t i = 0; i < sizeof(arches) / sizeof(*arches); i++)
		for (int nr = 0; nr < 512; nr++) {
			struct seccomp_data data = {.nr = nr, .arch = arches[i]};

			CHECK_INT(run(&data, &looked), SECCOMP_RET_KILL_PROCESS);
		}
}

TEST(opening_to_read_passes_and_to_change_is_asked)
{
	build();
	CHECK_CALL(YES, openat, AT_FDCWD, 0, O_RDONLY | O_CLOEXEC, 07777);
	CHECK_CALL(YES, openat, AT_FDCWD, 0, O_PATH | O_DIRECTORY | O_NOFOLLOW);
	CHECK_CALL(YES, openat, AT_FDCWD, 0, O_RDONLY | O_NONBLOCK | O_APPEND | O_NOATIME);
	CHECK_CALL(ASK, openat, AT_FDCWD, 0, O_WRONLY);
	CHECK_CALL(ASK, openat, AT_FDCWD, 0, O_RDWR, 07777);
	CHECK_CALL(ASK, openat, AT_FDCWD, 0, O_ACCMODE);
	/* truncates without a right that Landlock asks for */
	CHECK_CALL(NO(EACCES), openat, AT_FDCWD, 0, O_ACCMODE | O_TRUNC);
	CHECK_CALL(NO(EACCES), openat, AT_FDCWD, 0, O_ACCMODE | O_TRUNC | O_CREAT, 0600);
	CHECK_CALL(ASK, openat, AT_FDCWD, 0, O_RDONLY | O_TRUNC, 07777);
	CHECK_CALL(ASK, openat, AT_FDCWD, 0, O_RDONLY | O_CREAT, 01777);
	CHECK_CALL(ASK, openat, AT_FDCWD, 0, O_TMPFILE | O_RDWR, 0600);
	CHECK_CALL(ASK, openat, AT_FDCWD, 0, O_TMPFILE & ~O_DIRECTORY, 0600);
	CHECK_CALL(NO(EPERM), openat, AT_FDCWD, 0, O_WRONLY | O_CREAT, 04755);
	CHECK_CALL(NO(EPERM), openat, AT_FDCWD, 0, O_RDONLY | O_CREAT, 02755);
	CHECK_CALL(NO(EPERM), openat, AT_FDCWD, 0, O_TMPFILE | O_WRONLY, 06755);
#ifdef SYS_open
	CHECK_CALL(YES, open, 0, O_RDONLY | O_DIRECTORY, 07777);
	CHECK_CALL(ASK, open, 0, O_WRONLY, 07777);
	CHECK_CALL(ASK, open, 0, O_CREAT, 0777);
	CHECK_CALL(NO(EPERM), open, 0, O_CREAT, 02000);
	CHECK_CALL(NO(EPERM), open, 0, O_TMPFILE | O_RDWR, 04000);
	CHECK_CALL(ASK, creat, 0, 0644);
	CHECK_CALL(NO(EPERM), creat, 0, 04644);
#endif
}

TEST(nobody_makes_a_set_id_file)
{
	static const uint64_t bits[] = {04000, 02000, 06000, 04755, 02711, 0104755, 07777};

	build();
	for (size_t i = 0; i < sizeof(bits) / sizeof(*bits); i++) {
		CHECK_CALL(NO(EPERM), fchmod, 3, bits[i]);
		CHECK_CALL(NO(EPERM), fchmodat, 3, 0, bits[i]);
		CHECK_CALL(NO(EPERM), fchmodat2, 3, 0, bits[i], AT_SYMLINK_NOFOLLOW);
		CHECK_CALL(NO(EPERM), mknodat, 3, 0, S_IFREG | bits[i]);
#ifdef SYS_chmod
		CHECK_CALL(NO(EPERM), chmod, 0, bits[i]);
		CHECK_CALL(NO(EPERM), mknod, 0, S_IFREG | bits[i]);
#endif
	}
	CHECK_CALL(ASK, fchmod, 06000, 01777, 06000);
	CHECK_CALL(ASK, fchmodat, 06000, 06000, 0755, 06000);
	CHECK_CALL(ASK, fchmodat2, 06000, 06000, 0755, 06000);
#ifdef SYS_chmod
	CHECK_CALL(ASK, chmod, 06000, 0644, 06000);
#endif
}

TEST(nobody_makes_a_device)
{
	build();
	for (uint64_t kind = 0; kind <= S_IFMT; kind += 0010000) {
		bool may = kind == 0 || kind == S_IFREG || kind == S_IFIFO || kind == S_IFSOCK;

		CHECK_CALL(may ? ASK : NO(EPERM), mknodat, AT_FDCWD, 0, kind | 0666);
#ifdef SYS_mknod
		CHECK_CALL(may ? ASK : NO(EPERM), mknod, 0, kind | 0666);
#endif
	}
}

TEST(no_way_into_new_namespaces)
{
	static const uint64_t namespaces[] = {CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS,
					      CLONE_NEWIPC, CLONE_NEWUSER,   CLONE_NEWPID,
					      CLONE_NEWNET};
	const uint64_t thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
				CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID |
				CLONE_CHILD_CLEARTID;

	build();
	for (size_t i = 0; i < sizeof(namespaces) / sizeof(*namespaces); i++) {
		CHECK_CALL(NO(EPERM), clone, namespaces[i] | SIGCHLD);
		CHECK_CALL(NO(EPERM), clone, namespaces[i] | CLONE_VM | CLONE_VFORK);
		CHECK_CALL(NO(EPERM), unshare, namespaces[i]);
		CHECK_CALL(NO(EPERM), unshare, namespaces[i] | CLONE_FS);
	}
	CHECK_CALL(NO(EPERM), unshare, 0x80); /* CLONE_NEWTIME */
	CHECK_CALL(YES, clone, SIGCHLD, namespaces[0]);
	CHECK_CALL(YES, clone, thread);
	CHECK_CALL(YES, clone, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD);
	CHECK_CALL(YES, clone, 0xff); /* a signal number, not CLONE_NEWTIME */
	CHECK_CALL(YES, unshare, 0, CLONE_NEWNS);
	CHECK_CALL(YES, unshare, CLONE_FS | CLONE_FILES | CLONE_SYSVSEM);
}

TEST(only_chosen_socket_families_answer)
{
	build();
	for (uint64_t family = 0; family < 64; family++) {
		bool is_chosen = family == AF_UNIX || family == AF_INET || family == AF_INET6 ||
				 family == AF_NETLINK;

		for (uint64_t type = 0; type < 16; type++) {
			if (!is_chosen)
				CHECK_CALL(NO(EAFNOSUPPORT), socket, family, type);
			if (family != AF_UNIX)
				CHECK_CALL(NO(EAFNOSUPPORT), socketpair, family, type);
		}
	}
	CHECK_CALL(NO(EAFNOSUPPORT), socket, 0xffffffff, SOCK_STREAM);
}

TEST(unix_sockets_are_connected_ones)
{
	const uint64_t flags = SOCK_CLOEXEC | SOCK_NONBLOCK;

	build();
	for (uint64_t type = 0; type < 16; type++) {
		bool may = type == SOCK_STREAM || type == SOCK_SEQPACKET;

		CHECK_CALL(may ? YES : NO(EPROTONOSUPPORT), socket, AF_UNIX, type);
		CHECK_CALL(may ? YES : NO(EPROTONOSUPPORT), socket, AF_UNIX, type | flags, 1);
		CHECK_CALL(may ? YES : NO(EPROTONOSUPPORT), socketpair, AF_UNIX, type | flags);
	}
}

TEST(internet_sockets_are_tcp_and_udp)
{
	static const uint64_t families[] = {AF_INET, AF_INET6};
	const uint64_t flags = SOCK_CLOEXEC | SOCK_NONBLOCK;

	build();
	for (size_t i = 0; i < 2; i++) {
		uint64_t family = families[i];

		CHECK_CALL(YES, socket, family, SOCK_STREAM);
		CHECK_CALL(YES, socket, family, SOCK_STREAM | flags, IPPROTO_TCP);
		CHECK_CALL(YES, socket, family, SOCK_DGRAM | flags);
		CHECK_CALL(YES, socket, family, SOCK_DGRAM, IPPROTO_UDP);
		CHECK_CALL(NO(EPROTONOSUPPORT), socket, family, SOCK_STREAM | flags, 262);
		CHECK_CALL(NO(EPERM), socket, family, SOCK_STREAM, IPPROTO_UDP);
		CHECK_CALL(NO(EPERM), socket, family, SOCK_STREAM, IPPROTO_SCTP);
		CHECK_CALL(NO(EPERM), socket, family, SOCK_DGRAM, IPPROTO_ICMP);
		CHECK_CALL(NO(EPERM), socket, family, SOCK_DGRAM, IPPROTO_ICMPV6);
		CHECK_CALL(NO(EPERM), socket, family, SOCK_DGRAM, IPPROTO_TCP);
		for (uint64_t type = SOCK_RAW; type < 16; type++)
			for (uint64_t protocol = 0; protocol < 256; protocol++)
				CHECK_CALL(NO(EPERM), socket, family, type, protocol);
	}
}

TEST(netlink_is_for_routes)
{
	build();
	CHECK_CALL(YES, socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
	CHECK_CALL(YES, socket, AF_NETLINK, SOCK_DGRAM, 0);
	for (uint64_t protocol = 1; protocol < 40; protocol++)
		CHECK_CALL(NO(EPROTONOSUPPORT), socket, AF_NETLINK, SOCK_RAW, protocol);
}

TEST(sending_neither_out_of_band_nor_as_a_connect)
{
	const uint64_t usual = MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE | MSG_ZEROCOPY;

	build();
	CHECK_CALL(YES, sendto, ~0u, ~0u, ~0u, usual, ~0u, ~0u);
	CHECK_CALL(YES, sendmsg, ~0u, ~0u, usual, ~0u);
	CHECK_CALL(YES, sendmmsg, ~0u, ~0u, ~0u, usual, ~0u);
	for (size_t i = 0; i < 2; i++) {
		uint64_t flags = usual | (i ? MSG_OOB : MSG_FASTOPEN);

		CHECK_CALL(NO(EOPNOTSUPP), sendto, 3, 0, 0, flags);
		CHECK_CALL(NO(EOPNOTSUPP), sendmsg, 3, 0, flags);
		CHECK_CALL(NO(EOPNOTSUPP), sendmmsg, 3, 0, 0, flags);
	}
}

TEST(some_ioctls_are_refused)
{
	static const uint64_t terminal[] = {TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD};
	static const uint64_t filesystem[] = {
		FS_IOC_SETFLAGS,       FS_IOC_FSSETXATTR,	0x40046602, /* FS_IOC32_SETFLAGS */
		FS_IOC_ENABLE_VERITY,  BTRFS_IOC_SUBVOL_CREATE, BTRFS_IOC_SNAP_CREATE_V2,
		BTRFS_IOC_SNAP_DESTROY};
	static const uint64_t others[] = {
		0x40087602, /* FS_IOC_SETVERSION */
		0x40047211, /* FAT_IOCTL_SET_ATTRIBUTES */
		0xf501,	    /* F2FS_IOC_START_ATOMIC_WRITE */
		0xbc00,	    /* bcachefs */
	};
	static const uint64_t usual[] = {
		TCGETS,		  TCSETSW,	 TIOCGWINSZ,	  TIOCSCTTY,
		TIOCGPTN,	  TIOCSPTLCK,	 FIONREAD,	  FIONBIO,
		FIOCLEX,	  FIGETBSZ,	 SIOCGIFCONF,	  FICLONE,
		FICLONERANGE,	  FIDEDUPERANGE, FS_IOC_GETFLAGS, FS_IOC_FSGETXATTR,
		FS_IOC_GETVERSION};
	static const uint64_t drivers[] = {0,	   1,	       BLKGETSIZE, 0x4b33,
					   0xae00, 0xc0406400, 0xffff00fe};

	build();
	for (size_t i = 0; i < sizeof(terminal) / sizeof(*terminal); i++)
		CHECK_CALL(NO(EPERM), ioctl, 0, terminal[i], 0);
	for (size_t i = 0; i < sizeof(filesystem) / sizeof(*filesystem); i++)
		CHECK_CALL(NO(EOPNOTSUPP), ioctl, 3, filesystem[i], 0);
	for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++)
		CHECK_CALL(YES, ioctl, TIOCSTI, usual[i], TIOCSTI);
	for (size_t i = 0; i < sizeof(drivers) / sizeof(*drivers); i++)
		CHECK_CALL(NO(ENOTTY), ioctl, 3, drivers[i], 0);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		CHECK_CALL(NO(ENOTTY), ioctl, 3, others[i], 0);
	length = filter_build(&(struct filter_options){.may_have_devices = true}, program);
	for (size_t i = 0; i < sizeof(drivers) / sizeof(*drivers); i++)
		CHECK_CALL(YES, ioctl, 3, drivers[i], 0);
	for (size_t i = 0; i < sizeof(filesystem) / sizeof(*filesystem); i++)
		CHECK_CALL(NO(EOPNOTSUPP), ioctl, 3, filesystem[i], 0);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		CHECK_CALL(NO(EOPNOTSUPP), ioctl, 3, others[i], 0);
	for (size_t i = 0; i < sizeof(terminal) / sizeof(*terminal); i++)
		CHECK_CALL(NO(EPERM), ioctl, 0, terminal[i], 0);
}

TEST(leases_and_notices_of_directories_are_refused)
{
	static const uint64_t usual[] = {F_DUPFD,      F_GETFL,	     F_SETFL,	 F_SETLK,
					 F_SETLKW,     F_OFD_SETLKW, F_GETLEASE, F_DUPFD_CLOEXEC,
					 F_SETPIPE_SZ, F_ADD_SEALS,  1038};

	build();
	CHECK_CALL(NO(EPERM), fcntl, 3, F_SETLEASE, F_WRLCK);
	CHECK_CALL(NO(EINVAL), fcntl, 3, F_NOTIFY, 1);
	CHECK_CALL(NO(EINVAL), fcntl, 3, 1039); /* F_GETDELEG and F_SETDELEG of Linux 6.19 */
	CHECK_CALL(NO(EINVAL), fcntl, 3, 1040);
	for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++)
		CHECK_CALL(YES, fcntl, F_SETLEASE, usual[i], F_SETLEASE);
}

TEST(personalities_that_weaken_are_refused)
{
	static const uint64_t harmless[] = {0, 8, 0x20000, 0x20008, 0xffffffff};

	build();
	for (size_t i = 0; i < sizeof(harmless) / sizeof(*harmless); i++)
		CHECK_CALL(YES, personality, harmless[i]);
	CHECK_CALL(NO(EPERM), personality, ADDR_NO_RANDOMIZE);
	CHECK_CALL(NO(EPERM), personality, READ_IMPLIES_EXEC);
	CHECK_CALL(NO(EPERM), personality, READ_IMPLIES_EXEC | ADDR_NO_RANDOMIZE);
	CHECK_CALL(NO(EPERM), personality, MMAP_PAGE_ZERO | 8);
	CHECK_CALL(NO(EPERM), personality, 0xfffffffe);
}

TEST(prctl_knows_its_options)
{
	static const uint64_t allowed[] = {
		1,	   2,  3,  4,  7,  8,  15, 16,	       21,
		22,	   23, 24, 25, 27, 28, 29, 30,	       34,
		36,	   37, 38, 39, 40, 41, 42, 45,	       46,
		47,	   50, 51, 52, 53, 54, 55, 56,	       60,
		61,	   63, 64, 65, 66, 67, 68, PR_SET_VMA, PR_SET_PTRACER,
		0x41555856};
	static const uint64_t unknown[] = {31,
					   32,
					   33,
					   57,
					   58,
					   59,
					   69,
					   71,
					   77,
					   78,
					   100,
					   0x10000,
					   PR_SET_VMA + 1,
					   PR_SET_PTRACER - 1,
					   0xffffffff};

	build();
	for (size_t i = 0; i < sizeof(allowed) / sizeof(*allowed); i++)
		CHECK_CALL(YES, prctl, allowed[i]);
	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
		CHECK_CALL(NO(EINVAL), prctl, unknown[i]);
	CHECK_CALL(NO(EPERM), prctl, PR_SET_MM);
	CHECK_CALL(NO(EPERM), prctl, PR_SCHED_CORE);
}

TEST(a_second_listener_is_refused)
{
	build();
	CHECK_CALL(YES, seccomp, SECCOMP_SET_MODE_STRICT, 0);
	CHECK_CALL(YES, seccomp, SECCOMP_SET_MODE_FILTER, 0);
	CHECK_CALL(YES, seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC);
	CHECK_CALL(YES, seccomp, SECCOMP_GET_ACTION_AVAIL, 0);
	CHECK_CALL(YES, seccomp, SECCOMP_GET_NOTIF_SIZES, 0);
	CHECK_CALL(NO(EBUSY), seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER);
	CHECK_CALL(NO(EBUSY), seccomp, SECCOMP_SET_MODE_FILTER, 0x3f);
}

TEST(affinity_can_be_kept)
{
	build();
	CHECK_CALL(YES, sched_setaffinity, 0);
	length = filter_build(&(struct filter_options){.keeps_affinity = true}, program);
	CHECK_CALL(NO(EPERM), sched_setaffinity, 0);
	CHECK_CALL(YES, sched_getaffinity, 0);
}

TEST(files_can_be_left_to_the_kernel_but_for_what_it_would_let_pass)
{
	length = filter_build(&(struct filter_options){.leaves_files = true}, program);
	CHECK_CALL(YES, openat, 0, 0, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	CHECK_CALL(YES, openat, 0, 0, O_RDONLY | O_TRUNC);
	CHECK_CALL(YES, renameat2, 0);
	CHECK_CALL(YES, linkat, 0);
	CHECK_CALL(YES, symlinkat, 0);
	CHECK_CALL(YES, unlinkat, 0);
	CHECK_CALL(YES, mkdirat, 0);
	CHECK_CALL(YES, truncate, 0);
	CHECK_CALL(YES, fchmodat, 0, 0, 0755);
	CHECK_CALL(YES, fsetxattr, 0);
	CHECK_CALL(YES, mknodat, 0, 0, S_IFIFO | 0600);
	/* no programs with another's rights, no devices, not even the one that means "deleted" */
	CHECK_CALL(NO(EPERM), openat, 0, 0, O_WRONLY | O_CREAT, 04755);
	CHECK_CALL(NO(EPERM), fchmod, 0, 02755);
	CHECK_CALL(NO(EPERM), fchmodat, 0, 0, 04755);
	CHECK_CALL(NO(EPERM), mknodat, 0, 0, S_IFCHR);
	CHECK_CALL(NO(EPERM), mknodat, 0, 0, S_IFBLK | 0600);
	/* what is in memory, and what is counted */
	CHECK_CALL(ASK, openat2, 0);
	CHECK_CALL(ASK, connect, 0);
	CHECK_CALL(ASK, bind, 0);
	CHECK_CALL(ASK, fallocate, 0);
	CHECK_CALL(ASK, memfd_create, 0);
	CHECK_CALL(NO(EOPNOTSUPP), ioctl, 0, FS_IOC_SETFLAGS);
	CHECK_CALL(NO(EPERM), mount, 0);
}

TEST(for_the_record_the_guard_sees_what_is_executed_opened_and_refused)
{
	length =
		filter_build(&(struct filter_options){.leaves_files = true, .sees = true}, program);
	CHECK(length < FILTER_MAX / 2);
	CHECK_CALL(ASK, execve, 0);
	CHECK_CALL(ASK, execveat, 0);
	CHECK_CALL(ASK, openat, (uint32_t)AT_FDCWD, 0, O_RDONLY | O_CLOEXEC);
	CHECK_CALL(ASK, openat, (uint32_t)AT_FDCWD, 0, O_WRONLY | O_CREAT, 0644);
	CHECK_CALL(ASK, openat, 5, 0, O_WRONLY | O_CREAT, 0644);
	CHECK_CALL(ASK, mkdirat, 0);
	CHECK_CALL(ASK, unlinkat, 0);
	CHECK_CALL(ASK, renameat2, 0);
	CHECK_CALL(ASK, fchmodat, 0, 0, 0755);
	/* what was opened before, what only names a place, directories */
	CHECK_CALL(YES, openat, 5, 0, O_RDONLY);
	CHECK_CALL(YES, openat, (uint32_t)AT_FDCWD, 0, O_PATH);
	CHECK_CALL(YES, openat, (uint32_t)AT_FDCWD, 0, O_RDONLY | O_DIRECTORY);
	CHECK_CALL(YES, fchmod, 0, 0755);
	CHECK_CALL(YES, fsetxattr, 0);
	CHECK_CALL(YES, newfstatat, 0);
	CHECK_CALL(YES, write, 0);
	/* refused calls are told of, and by the guard refused */
	CHECK_CALL(ASK, mount, 0);
	CHECK_CALL(ASK, chroot, 0);
	CHECK_CALL(ASK, unshare, CLONE_NEWUSER);
	CHECK_CALL(ASK, socket, AF_INET, SOCK_RAW, 1);
	CHECK_CALL(YES, unshare, CLONE_FILES);
	CHECK_CALL(YES, clone, SIGCHLD);
	CHECK_CALL(YES, socket, AF_INET, SOCK_STREAM);
	/* but not those of which others are let go on */
	CHECK_CALL(NO(EPERM), openat, (uint32_t)AT_FDCWD, 0, O_WRONLY | O_CREAT, 04755);
	CHECK_CALL(NO(EPERM), fchmod, 0, 02755);
	CHECK_CALL(NO(EPERM), fchmodat, 0, 0, 04755);
	CHECK_CALL(NO(EPERM), mknodat, 0, 0, S_IFCHR);
	/* nor where programs fall back */
	CHECK_CALL(NO(ENOSYS), clone3, 0);
	CHECK_CALL(NO(ENOSYS), io_uring_setup, 0);
}

TEST(a_datagram_is_seen_by_its_address_where_there_is_no_network)
{
	length =
		filter_build(&(struct filter_options){.leaves_files = true, .sees = true}, program);
	CHECK_CALL(YES, sendto, 0, 0, 0, 0, 1);
	length =
		filter_build(&(struct filter_options){.sees = true, .sees_sending = true}, program);
	CHECK_INT(ask(SYS_sendto, (struct arguments){0}), YES); /* of a pointer both halves count */
	CHECK_INT(ask(SYS_sendto, (struct arguments){{0, 0, 0, 0, UINT64_C(1) << 32}}), ASK);
	CHECK_CALL(ASK, sendto, 0, 0, 0, 0, 1);
	CHECK_CALL(NO(EOPNOTSUPP), sendto, 0, 0, 0, MSG_OOB, 1);
	CHECK_CALL(NO(EOPNOTSUPP), sendto, 0, 0, 0, MSG_FASTOPEN);
	CHECK_CALL(YES, sendmmsg, 0);
}

TEST(without_namespaces_the_wish_for_a_network_is_seen)
{
	length = filter_build(
		&(struct filter_options){.is_bare = true, .guards_reading = true, .sees = true},
		program);
	CHECK_CALL(ASK, socket, AF_INET, SOCK_STREAM);
	CHECK_CALL(ASK, socket, AF_INET6, SOCK_DGRAM);
	CHECK_CALL(YES, socket, AF_UNIX, SOCK_STREAM);
	CHECK_CALL(NO(EAFNOSUPPORT), socket, AF_PACKET, SOCK_RAW);
	CHECK_CALL(NO(EAFNOSUPPORT), socketpair, AF_INET, SOCK_STREAM);
	CHECK_CALL(ASK, openat, 5, 0, O_RDONLY);
}

TEST(without_namespaces_nothing_of_the_host_s_is_reached)
{
	length = filter_build(&(struct filter_options){.is_bare = true}, program);
	CHECK_CALL(NO(EAFNOSUPPORT), socket, AF_INET, SOCK_STREAM, 0);
	CHECK_CALL(NO(EAFNOSUPPORT), socket, AF_INET6, SOCK_DGRAM, 0);
	CHECK_CALL(NO(EAFNOSUPPORT), socket, AF_NETLINK, SOCK_RAW, 0);
	CHECK_CALL(YES, socket, AF_UNIX, SOCK_STREAM, 0);
	CHECK_CALL(NO(EPROTONOSUPPORT), socket, AF_UNIX, SOCK_DGRAM, 0);
	CHECK_CALL(NO(ENOSYS), shmget, 0);
	CHECK_CALL(NO(ENOSYS), semget, 0);
	CHECK_CALL(NO(ENOSYS), msgget, 0);
	CHECK_CALL(NO(ENOSYS), mq_open, 0);
	CHECK_CALL(ASK, utimensat, 0);
	CHECK_CALL(ASK, inotify_add_watch, 0);
	CHECK_CALL(ASK, fchown, 0);
	CHECK_CALL(ASK, fchownat, 0);
	CHECK_CALL(YES, sched_setaffinity, 0);
	CHECK_CALL(NO(EPERM), sched_setaffinity, 1);
	CHECK_CALL(NO(EPERM), sched_setscheduler, 77);
	CHECK_CALL(YES, setpriority, 0, 0);
	CHECK_CALL(NO(EPERM), setpriority, 0, 1);
	CHECK_CALL(NO(EPERM), setpriority, 2, 0); /* PRIO_USER: all that the user runs */
	CHECK_CALL(YES, ioprio_set, 1, 0);
	CHECK_CALL(NO(EPERM), ioprio_set, 3, 0);
	CHECK_CALL(YES, openat, 0, 0, O_RDONLY);
}

TEST(without_namespaces_a_proxy_can_be_connected_to_and_nothing_else)
{
	length =
		filter_build(&(struct filter_options){.is_bare = true, .has_proxy = true}, program);
	CHECK_CALL(YES, socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_CALL(YES, socket, AF_INET6, SOCK_STREAM, IPPROTO_TCP);
	CHECK_CALL(NO(EPROTONOSUPPORT), socket, AF_INET, SOCK_STREAM, IPPROTO_MPTCP);
	CHECK_CALL(NO(EPERM), socket, AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	CHECK_CALL(NO(EPERM), socket, AF_INET, SOCK_DGRAM, 0);
	CHECK_CALL(NO(EPERM), socket, AF_INET6, SOCK_DGRAM, IPPROTO_UDP);
	CHECK_CALL(NO(EPERM), socket, AF_INET, SOCK_RAW, IPPROTO_ICMP);
	CHECK_CALL(NO(EAFNOSUPPORT), socket, AF_NETLINK, SOCK_RAW, 0);
	CHECK_CALL(NO(EAFNOSUPPORT), socket, AF_PACKET, SOCK_RAW, 0);
	CHECK_CALL(YES, socket, AF_UNIX, SOCK_STREAM, 0);
	CHECK_CALL(NO(EPROTONOSUPPORT), socket, AF_UNIX, SOCK_DGRAM, 0);
	CHECK_CALL(ASK, connect, 0);
	CHECK_CALL(ASK, bind, 0);
	CHECK_CALL(ASK, listen, 0);
	CHECK_CALL(NO(ENOSYS), shmget, 0);
	build();
	CHECK_CALL(YES, listen, 0);
}

TEST(every_open_is_asked_about_where_reading_is_guarded)
{
	length = filter_build(&(struct filter_options){.guards_reading = true}, program);
	CHECK_CALL(ASK, openat, 0, 0, O_RDONLY);
	CHECK_CALL(ASK, openat, 0, 0, O_WRONLY);
	CHECK_CALL(NO(EPERM), openat, 0, 0, O_WRONLY | O_CREAT, 04755);
}

/* Far more than the table needs, so that jumps get too long and take a step in between. */
TEST(a_search_finds_every_number_at_any_size)
{
	static uint32_t answers[700];
	static struct bpf_range ranges[700];

	srand(1);
	for (uint32_t count = 1; count < 700; count += 23) {
		uint32_t width = count % 2 ? 1 : 10;
		unsigned place[5];
		struct bpf bpf;
		size_t n = 0;

		bpf_init(&bpf, program, FILTER_MAX);
		for (uint32_t i = 0; i < 4; i++)
			place[i] = bpf_return(&bpf, i);
		place[4] = bpf_load(&bpf, 0, place[3]);
		for (uint32_t i = 0; i < count; i++) {
			answers[i] = (uint32_t)rand() % 5;
			if (i == 0 || answers[i] != answers[i - 1])
				ranges[n++] = (struct bpf_range){i * width, place[answers[i]]};
		}
		bpf_load(&bpf, offsetof(struct seccomp_data, nr), bpf_search(&bpf, ranges, n));
		length = bpf_finish(&bpf);
		for (uint32_t nr = 0; nr < count * width + 20; nr++) {
			uint32_t i = nr / width < count ? nr / width : count - 1;
			uint32_t want = answers[i] == 4 ? 3 : answers[i];

			CHECK_INT(ask(nr, (struct arguments){0}), want);
		}
	}
	CHECK(length > 500);
}

TEST(a_program_that_does_not_fit_kills)
{
	struct sock_filter small[8];
	struct bpf bpf;
	unsigned place;

	bpf_init(&bpf, small, 8);
	place = bpf_return(&bpf, SECCOMP_RET_ALLOW);
	for (uint32_t i = 0; i < 20; i++)
		place = bpf_if(&bpf, BPF_JEQ, i, place, place);
	CHECK_INT(bpf_finish(&bpf), 1);
	CHECK_INT(small[0].code, BPF_RET | BPF_K);
	CHECK_INT(small[0].k, SECCOMP_RET_KILL_PROCESS);
}

static void install(void)
{
	struct sock_fprog filter = {.len = (unsigned short)length, .filter = program};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0)
		_exit(100);
}

static int wait_for(pid_t pid)
{
	int status;

	CHECK(pid > 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

/* Ends the child with the number of the line that does not hold, modulo 256. */
#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			_exit(__LINE__ & 0xff);                                                    \
	} while (0)
#define MUST_SAY(errnum_, call_) MUST((call_) == -1 && errno == (errnum_))

static _Noreturn void live_inside(void)
{
	int pair[2], status;
	pid_t pid;

	install();
	/* Nobody listens, so what the guard would do is answered with ENOSYS by the kernel. */
	MUST_SAY(ENOSYS, syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR));
	MUST_SAY(ENOSYS, syscall(SYS_unlinkat, AT_FDCWD, "/nonexistent/file", 0));
	MUST_SAY(ENOSYS, syscall(SYS_connect, -1, NULL, 0));
	MUST(syscall(SYS_openat, AT_FDCWD, "/", O_RDONLY | O_DIRECTORY) >= 0);
	MUST_SAY(EPERM, syscall(SYS_fchmodat, AT_FDCWD, "/nonexistent/file", 04755));
	MUST_SAY(EPERM, syscall(SYS_unshare, CLONE_NEWUSER));
	MUST_SAY(EPERM, syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
	/* Targets that do not exist: if the filter fails, root must still do no harm here. */
	MUST_SAY(EPERM, syscall(SYS_mount, "x", "/nonexistent/dir", "tmpfs", 0, ""));
	MUST_SAY(EPERM, syscall(SYS_bpf, 0, NULL, 0));
	MUST_SAY(EPERM, syscall(SYS_personality, ADDR_NO_RANDOMIZE));
	MUST_SAY(EPERM, ioctl(-1, TIOCSTI, "x"));
	MUST_SAY(ENOSYS, syscall(SYS_io_uring_setup, 1, NULL));
	MUST_SAY(ENOSYS, syscall(1000));
	MUST_SAY(EBUSY, syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				SECCOMP_FILTER_FLAG_NEW_LISTENER, NULL));
	MUST_SAY(EAFNOSUPPORT, socket(AF_VSOCK, SOCK_STREAM, 0));
	MUST_SAY(EPROTONOSUPPORT, socket(AF_UNIX, SOCK_DGRAM, 0));
	MUST_SAY(EPERM, socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
	MUST(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0);
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	MUST_SAY(EOPNOTSUPP, send(pair[0], "x", 1, MSG_OOB));
	MUST(send(pair[0], "x", 1, MSG_NOSIGNAL) == 1);
	MUST(prctl(PR_SET_NAME, "inside", 0, 0, 0) == 0);
	MUST_SAY(EINVAL, prctl(59, 0, 0, 0, 0));
	install(); /* a job may filter itself further */
	pid = fork();
	if (pid == 0)
		_exit(7);
	MUST(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
	_exit(0);
}

TEST(the_kernel_takes_the_program_and_answers_by_it)
{
	pid_t pid;
	int status;

	build();
	pid = fork();
	if (pid == 0)
		live_inside();
	status = wait_for(pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 100)
		test_skip("seccomp");
	CHECK(WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), 0);
}

#ifdef __x86_64__
TEST(the_32_bit_door_is_deadly)
{
	pid_t pid;
	int status;

	build();
	pid = fork();
	if (pid == 0) {
		long ret;

		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* leave no core file behind */
		install();
		__asm__ volatile("int $0x80" : "=a"(ret) : "a"(20L) : "memory"); /* getpid */
		_exit(ret > 0 ? 1 : 2);
	}
	status = wait_for(pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 100)
		test_skip("seccomp");
	/* SIGSEGV where the kernel has no such door. */
	CHECK(WIFSIGNALED(status));
	CHECK(WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV);
}
#endif
