/* SPDX-License-Identifier: Apache-2.0 */
#include "base/uapi.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/*
 * A kernel that is older than this one, or a container whose profile is
 *
 *	no-new-calls [--eperm] [--from NUMBER] [--call NAME[,NAME]...] COMMAND...
 *
 * Runs a command, and what it starts, with these system calls answered by ENOSYS, as a kernel does
 * that lacks them, or by EPERM, as old container profiles do. So fallbacks are tested on today's
 * kernel. A filter can only take away: what atoll's own filter says comes on top of it.
 */

#define CALLS_MAX 64

static const struct {
	const char *name;
	unsigned number;
} known[] = {
	{"statx", SYS_statx},
	{"pidfd_send_signal", SYS_pidfd_send_signal},
	{"open_tree", SYS_open_tree},
	{"move_mount", SYS_move_mount},
	{"fsopen", SYS_fsopen},
	{"fsconfig", SYS_fsconfig},
	{"fsmount", SYS_fsmount},
	{"pidfd_open", SYS_pidfd_open},
	{"clone3", SYS_clone3},
	{"close_range", SYS_close_range},
	{"openat2", SYS_openat2},
	{"pidfd_getfd", SYS_pidfd_getfd},
	{"faccessat2", SYS_faccessat2},
	{"process_madvise", SYS_process_madvise},
	{"epoll_pwait2", SYS_epoll_pwait2},
	{"mount_setattr", SYS_mount_setattr},
	{"landlock_create_ruleset", SYS_landlock_create_ruleset},
	{"landlock_add_rule", SYS_landlock_add_rule},
	{"landlock_restrict_self", SYS_landlock_restrict_self},
	{"memfd_secret", SYS_memfd_secret},
	{"futex_waitv", SYS_futex_waitv},
	{"fchmodat2", SYS_fchmodat2},
	{"seccomp", SYS_seccomp},
	{"memfd_create", SYS_memfd_create},
	{"getrandom", SYS_getrandom},
	{"execveat", SYS_execveat},
	{"copy_file_range", SYS_copy_file_range},
	{"preadv2", SYS_preadv2},
	{"renameat2", SYS_renameat2},
	{"process_vm_readv", SYS_process_vm_readv},
	{"keyctl", SYS_keyctl},
};

static _Noreturn void stop(const char *what, const char *which)
{
	fprintf(stderr, "no-new-calls: %s%s\n", what, which);
	exit(2);
}

static unsigned find_call(const char *name)
{
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (strcmp(known[i].name, name) == 0)
			return known[i].number;
	stop("unknown call ", name);
}

static void install(const unsigned *calls, unsigned n_calls, unsigned from, int answer)
{
	struct sock_filter program[2 * CALLS_MAX + 8];
	struct sock_fprog prog = {.filter = program};
	struct sock_filter refuse =
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)answer & 0xffff));
	unsigned n = 0;

	program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						    offsetof(struct seccomp_data, nr));
	for (unsigned i = 0; i < n_calls; i++) {
		program[n++] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
		program[n++] = refuse;
	}
	program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, from, 0, 1);
	program[n++] = refuse;
	program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	prog.len = (unsigned short)n;
	/* Root keeps what set-id programs and file capabilities give; others cannot. */
	if (geteuid() != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		stop("no_new_privs: ", strerror(errno));
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
		stop("filter: ", strerror(errno));
}

int main(int argc, char **argv)
{
	unsigned calls[CALLS_MAX], n = 0, from = 0x40000000; /* x32 begins there */
	int answer = ENOSYS;

	for (argv++; argc > 1 && *argv && strncmp(*argv, "--", 2) == 0; argv++) {
		if (strcmp(*argv, "--eperm") == 0) {
			answer = EPERM;
		} else if (strcmp(*argv, "--from") == 0 && argv[1]) {
			from = (unsigned)atoi(*++argv);
		} else if (strcmp(*argv, "--call") == 0 && argv[1]) {
			for (char *name = strtok(*++argv, ","); name; name = strtok(NULL, ","))
				if (n < CALLS_MAX)
					calls[n++] = find_call(name);
		} else {
			stop("unknown option ", *argv);
		}
	}
	if (argc < 2 || !*argv)
		stop("usage: no-new-calls [--eperm] [--from N] [--call NAME,...] COMMAND...", "");
	install(calls, n, from, answer);
	execvp(*argv, argv);
	stop("cannot run ", *argv);
}
