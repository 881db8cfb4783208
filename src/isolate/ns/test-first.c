/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/test.h"
#include "base/uapi.h"
#include "isolate/ns/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The filter of the first process: what it refuses, and that steps which inherit it lose nothing
 */

#define CALLS_END 512

static uint32_t run(const struct sock_filter *program, const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t at = 0;; at++) {
		const struct sock_filter *step = &program[at];
		bool is_so = false;

		switch (step->code) {
		case BPF_RET | BPF_K:
			return step->k;
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&a, (const char *)data + step->k, sizeof a);
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= step->k;
			continue;
		case BPF_JMP | BPF_JA:
			at += step->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			is_so = a == step->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			is_so = a >= step->k;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			is_so = a > step->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			is_so = a & step->k;
			break;
		default:
			CHECK(false);
		}
		at += is_so ? step->jt : step->jf;
	}
}

static bool is_refusal(uint32_t answer)
{
	return (answer & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO;
}

/* For each call and many values of its arguments: the inherited answer is not stricter than the
 * step's own, by the kernel's order of answers. */
static void compare(const struct filter_options *step_options)
{
	static const uint64_t values[] = {0, 1, 2, 0x10000000, 0x40000000, 0x7fffffff, 04755};
	static struct sock_filter first[FILTER_MAX], step[FILTER_MAX];
	const struct filter_options options = {
		.is_first = true, .forks_templates = true, .sees = step_options->sees};

	filter_build(&options, first);
	filter_build(step_options, step);
	for (int call = 0; call < CALLS_END; call++) {
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			struct seccomp_data data = {.nr = call, .arch = UAPI_NATIVE_ARCH};
			uint32_t inherited, own;

			for (int k = 0; k < 6; k++)
				data.args[k] = values[(i + (size_t)k) % ARRAY_SIZE(values)];
			inherited = run(first, &data);
			own = run(step, &data);
			/* A lower number is stricter; two refusals are as good. */
			if (is_refusal(own))
				continue;
			CHECK((int32_t)(inherited & SECCOMP_RET_ACTION_FULL) >=
			      (int32_t)(own & SECCOMP_RET_ACTION_FULL));
		}
	}
}

TEST(a_step_loses_nothing_by_the_filter_that_its_template_inherits)
{
	compare(&(struct filter_options){0});
	compare(&(struct filter_options){.leaves_files = true});
	compare(&(struct filter_options){.sees = true});
	compare(&(struct filter_options){.sees = true, .leaves_files = true, .sees_sending = true});
}

static bool load(const struct filter_options *options)
{
	static struct sock_filter program[FILTER_MAX];
	struct sock_fprog prog = {.filter = program};

	prog.len = (unsigned short)filter_build(options, program);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0;
}

static int errno_of(long result)
{
	return result < 0 ? errno : 0;
}

static int in_child(const struct filter_options *options, int (*try)(void))
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0)
		_exit(load(options) ? try() : 255);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int try_namespace(void)
{
	return errno_of(unshare(CLONE_NEWUSER));
}

static int try_clone(void)
{
	long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		_exit(0);
	return errno_of(pid);
}

static int try_mount(void)
{
	return errno_of(mount("none", "/proc/self", "tmpfs", 0, NULL));
}

static int try_ring(void)
{
	return errno_of(syscall(SYS_io_uring_setup, 1, NULL));
}

static int try_keys(void)
{
	return errno_of(syscall(SYS_keyctl, 0, 0, 0, 0, 0));
}

static int try_unknown(void)
{
	return errno_of(syscall(1 << 20, 0));
}

static int try_executing(void)
{
	char *const argv[] = {(char *)"true", NULL};

	return errno_of(execve("/bin/true", argv, argv + 1));
}

static int try_tracing(void)
{
	return errno_of(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

/* A tracer that gets the calls of its child which are answered by SECCOMP_RET_TRACE. */
static int try_tracing_calls(void)
{
	int seized, status;
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	if (pid < 0)
		return 255;
	seized = errno_of(ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACESECCOMP));
	if (seized == EPERM && ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0)
		seized = 254; /* other tracers may */
#ifdef __x86_64__
	/* PTRACE_OLDSETOPTIONS; ESRCH would be the kernel's answer about a child that runs. */
	if (seized == EPERM &&
	    errno_of(syscall(SYS_ptrace, 21, pid, NULL, PTRACE_O_TRACESECCOMP)) != EPERM)
		seized = 253;
#endif
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return seized;
}

/* Calls that pid 1 makes in normal work. */
static int try_work(void)
{
	char here = 'x', there = 0;
	struct iovec to = {&there, 1}, from = {&here, 1};
	int fd = open("/", O_PATH | O_CLOEXEC), status;
	pid_t pid;

	if (fd < 0 || fd_openat2(fd, ".", O_PATH, 0, 0) < 0)
		return 1;
	if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1 || there != 'x')
		return 2;
	pid = fork();
	if (pid == 0)
		_exit(0);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 3;
}

TEST(the_first_process_of_a_run_makes_no_namespace_and_executes_nothing)
{
	const struct filter_options run_options = {.is_first = true};
	const struct filter_options seen = {.is_first = true, .sees = true};

	for (int i = 0; i < 2; i++) {
		const struct filter_options *options = i ? &seen : &run_options;

		CHECK_INT(in_child(options, try_namespace), EPERM);
		CHECK_INT(in_child(options, try_clone), EPERM);
		CHECK_INT(in_child(options, try_mount), EPERM);
		CHECK_INT(in_child(options, try_ring), ENOSYS);
		CHECK_INT(in_child(options, try_keys), ENOSYS);
		CHECK_INT(in_child(options, try_unknown), ENOSYS);
		CHECK_INT(in_child(options, try_executing), EPERM);
		CHECK_INT(in_child(options, try_tracing), EPERM);
		CHECK_INT(in_child(options, try_work), 0);
	}
}

TEST(the_first_process_of_a_sandbox_with_templates_makes_no_namespace)
{
	const struct filter_options quiet = {.is_first = true, .forks_templates = true};
	const struct filter_options seen = {
		.is_first = true, .forks_templates = true, .sees = true};

	CHECK_INT(in_child(&quiet, try_namespace), EPERM);
	CHECK_INT(in_child(&quiet, try_mount), EPERM);
	CHECK_INT(in_child(&quiet, try_ring), ENOSYS);
	CHECK_INT(in_child(&quiet, try_executing), 0);
	CHECK_INT(in_child(&quiet, try_work), 0);
	/* SECCOMP_RET_TRACE without a tracer. */
	CHECK_INT(in_child(&seen, try_namespace), ENOSYS);
	CHECK_INT(in_child(&seen, try_clone), ENOSYS);
	CHECK_INT(in_child(&seen, try_mount), ENOSYS);
	CHECK_INT(in_child(&seen, try_tracing_calls), EPERM);
	CHECK_INT(in_child(&quiet, try_tracing_calls), 0);
	CHECK_INT(in_child(&seen, try_work), 0);
}

/* A template: the inherited filter, then its own with a listener. */
static int listen_below(void)
{
	static struct sock_filter program[FILTER_MAX];
	const struct filter_options own = {.sees = true};
	struct sock_fprog prog = {.filter = program};

	prog.len = (unsigned short)filter_build(&own, program);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			    &prog);
}

static int try_asking(void)
{
	struct seccomp_notif asked = {0};
	struct seccomp_notif_resp answer = {.error = -EDOM};
	int pair[2], status, listener, got = -1;
	size_t n = 1;
	char byte;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return 1;
	pid = fork();
	if (pid == 0) {
		listener = listen_below();
		if (listener < 0 || fd_send(pair[1], "l", 1, &listener, 1) < 0)
			_exit(2);
		close(listener);
		_exit(try_mount() == EDOM ? 0 : 3);
	}
	close(pair[1]);
	if (pid < 0 || fd_receive(pair[0], &byte, 1, 0, &got, &n) != 1 || n != 1 ||
	    ioctl(got, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0 || asked.data.nr != SYS_mount)
		return 4;
	answer.id = asked.id;
	if (ioctl(got, SECCOMP_IOCTL_NOTIF_SEND, &answer) < 0)
		return 5;
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 6;
}

TEST(the_guard_is_told_of_a_refused_call_under_an_inherited_filter)
{
	const struct filter_options seen = {
		.is_first = true, .forks_templates = true, .sees = true};

	CHECK_INT(in_child(&seen, try_asking), 0);
}
