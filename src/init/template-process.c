/* SPDX-License-Identifier: Apache-2.0 */
#include "init/init-inner.h"

#include "base/confine.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>

/*
 * The template of all steps
 *
 * It has gone through `begin` and `seal` like any command, and does not execute: it forks, and what
 * it forks executes. So a step costs a fork and an exec, all steps share one filter with its
 * listener, and one Landlock domain, without which a later step could not signal what an earlier
 * one has left behind.
 *
 *	the first process                template                 the step's process
 *	template_order, descriptors  →   fork, as the first
 *	                                 process's child      →   template_news, setsid()
 *	notes its number, "x" if
 *	it was to wait for that      →                            takes its descriptors, execve()
 *
 * What executes at once, as who the template is, shares its memory until then (CLONE_VFORK): a
 * copy of the page tables, given up at once, is a tenth of a step. The template waits meanwhile, so
 * this is not for a step that waits for anybody else.
 *
 * With a terminal there is one more in between, the leader of the terminal's session: a command
 * that led one itself would be an orphan to the kernel, which never stops such a one for Ctrl-Z.
 *
 * It runs under the same id as the commands. They may kill it, and get another one; they cannot
 * look into it, because it is not dumpable, nor is what it forks before that executes.
 */

struct start {
	uint32_t stdio;
	bool waits;
	int start_fd, step_fd;
	int stdio_fds[3];
	int terminal_fd, leader_fd; /* -1 without a terminal */
};

/* A step that shares the template's memory has a stack of its own there, and leaves its words. */
#define SHARED_STACK (64 << 10)

static struct words {
	void *data, *list;
	size_t data_size, list_size;
} words;

/* ---- what is to be executed ---- */

/* A text within the first `end` bytes, and where the next begins. */
static char *next_text(char *data, size_t end, size_t *at)
{
	char *text = data + *at;
	const char *stop = *at < end ? memchr(text, '\0', end - *at) : NULL;

	if (!stop)
		return NULL;
	*at = (size_t)(stop - data) + 1;
	return text;
}

static int read_step(int fd, struct init_step *ret, struct atoll_error *err)
{
	struct init_step_head head;
	size_t at = sizeof head, n, size;
	struct stat st;
	char **list, *data;

	if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof head || st.st_size > INIT_STEP_MAX)
		return error_set(err, ATOLL_FAULT_BUG, EINVAL, "the step's words");
	size = (size_t)st.st_size;
	data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return error_set(err, ATOLL_FAULT_HOST, errno, "map the step's words");
	words = (struct words){.data = data, .data_size = size};
	memcpy(&head, data, sizeof head);
	n = (size_t)head.n_argv + head.n_env;
	if (head.n_argv == 0 || n > size)
		return error_set(err, ATOLL_FAULT_BUG, EINVAL, "the step's words");
	list = mmap(NULL, (n + 2) * sizeof *list, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (list == MAP_FAILED)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make room for the step's words");
	words.list = list;
	words.list_size = (n + 2) * sizeof *list;
	ret->has_ids = head.has_ids;
	ret->uid = head.uid;
	ret->gid = head.gid;
	ret->cwd = next_text(data, size, &at);
	ret->argv = list;
	ret->env = list + head.n_argv + 1;
	for (size_t i = 0; i < n; i++) {
		char **place = i < head.n_argv ? &ret->argv[i] : &ret->env[i - head.n_argv];

		*place = next_text(data, size, &at);
		if (!*place)
			return error_set(err, ATOLL_FAULT_BUG, EINVAL, "the step's words");
	}
	return ret->cwd ? 0 : error_set(err, ATOLL_FAULT_BUG, EINVAL, "the step's words");
}

/* ---- the step's process ---- */

static bool may_go_on(int start_fd)
{
	char byte;

	return recv(start_fd, &byte, 1, 0) == 1;
}

/* The last thing before exec: until then nothing that is sent to all may end it unheard. */
static void free_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Another user of those that there are inside. What was root's is gone with that, by the kernel's
 * own rules: nothing was set that would keep it. */
static int become(const struct init_step *step, struct atoll_error *err)
{
	if (!step->has_ids || (step->uid == getuid() && step->gid == getgid()))
		return 0;
	if (syscall(SYS_setgroups, 1, &step->gid) < 0 ||
	    syscall(SYS_setresgid, step->gid, step->gid, step->gid) < 0 ||
	    syscall(SYS_setresuid, step->uid, step->uid, step->uid) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "become user %u", step->uid);
	prctl(PR_SET_DUMPABLE, 0);
	return 0;
}

static _Noreturn void execute(const struct init_config *config, const struct start *start)
{
	struct init_message message = {.type = INIT_FAILED, .code = -1};
	const struct template_news news = {.pid = getpid()};
	struct init_step step = {
		.stdio = {start->stdio_fds[0], start->stdio_fds[1], start->stdio_fds[2]}};

	/* Its own session only now: until its number is sent the template's session tells the first
	 * process that this is atoll's own code (watch.is_own). No step may execute in it. */
	if (send(start->start_fd, &news, sizeof news, MSG_NOSIGNAL) < 0 ||
	    (start->terminal_fd < 0 && setsid() < 0) ||
	    (start->waits && !may_go_on(start->start_fd)))
		_exit(127);
	if (read_step(start->step_fd, &step, &message.error) == 0 &&
	    become(&step, &message.error) == 0) {
		int r = init_enter(step.cwd);

		if (r < 0) {
			error_set(&message.error, ATOLL_FAULT_REQUEST, -r, "enter '%.300s'",
				  step.cwd);
		} else {
			config->take_step(config->data, &step);
			free_signals();
			message.code = config->execute(config->data, &message.error);
		}
	}
	send(start->start_fd, &message, sizeof message, MSG_NOSIGNAL);
	_exit(127);
}

/* ---- with a terminal ---- */

/* Whoever works at a terminal owns it, so that he can open it by name. */
static void give_terminal(const struct start *start)
{
	struct init_step_head head;

	/* Where it cannot be, /dev/tty still can. */
	if (pread(start->step_fd, &head, sizeof head, 0) != sizeof head || !head.has_ids ||
	    fchown(start->terminal_fd, head.uid, (gid_t)-1) < 0)
		return;
}

static void take_terminal(const struct start *start)
{
	give_terminal(start);
	setpgid(0, 0);
	tcsetpgrp(start->terminal_fd, getpid());
	for (int i = 0; i < 3; i++) {
		if (!(start->stdio & 1U << i))
			dup2(start->terminal_fd, i);
	}
}

/* Wait for the command, and tell. It keeps the terminal open meanwhile, so that who reads it sees
 * no end before that. */
static _Noreturn void lead(const struct start *start, pid_t command)
{
	struct init_message message = {0};
	struct rusage usage;
	int status;

	for (;;) {
		pid_t pid = wait4(command, &status, WUNTRACED, &usage);

		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			_exit(1);
		message.type = WIFSTOPPED(status) ? INIT_STOPPED : INIT_ENDED;
		message.wait_status = status;
		message.cpu_us = init_cpu_us(&usage);
		message.peak_kib = (uint64_t)usage.ru_maxrss;
		send(start->leader_fd, &message, sizeof message, MSG_NOSIGNAL);
		if (!WIFSTOPPED(status))
			_exit(0);
	}
}

static _Noreturn void lead_session(const struct init_config *config, struct start *start)
{
	const struct template_news news = {.pid = getpid(), .is_leader = true};
	struct init_message message = {.type = INIT_FAILED, .code = -1};
	pid_t pid;

	if (send(start->start_fd, &news, sizeof news, MSG_NOSIGNAL) < 0 || setsid() < 0)
		_exit(127);
	if (ioctl(start->terminal_fd, TIOCSCTTY, 0) < 0) {
		error_set(&message.error, ATOLL_FAULT_HOST, errno, "take the terminal");
		send(start->start_fd, &message, sizeof message, MSG_NOSIGNAL);
		_exit(127);
	}
	pid = fork();
	if (pid == 0) {
		close(start->leader_fd);
		take_terminal(start);
		execute(config, start);
	}
	if (pid < 0) {
		error_set(&message.error, ATOLL_FAULT_HOST, errno, "fork the command");
		send(start->start_fd, &message, sizeof message, MSG_NOSIGNAL);
		_exit(127);
	}
	close(start->start_fd);
	close(start->step_fd);
	for (int i = 0; i < 3; i++) {
		if (start->stdio_fds[i] >= 0)
			close(start->stdio_fds[i]);
	}
	lead(start, pid);
}

/* ---- the template itself ---- */

/* Descriptors in the order of struct template_order. */
static bool sort_out(const struct template_order *order, const int *fds, size_t n,
		     struct start *ret)
{
	size_t at = 2, wanted = 2U + (order->has_terminal ? 2 : 0);

	for (int i = 0; i < 3; i++)
		wanted += order->stdio >> i & 1;
	if (n != wanted)
		return false;
	*ret = (struct start){.stdio = order->stdio,
			      .waits = order->waits,
			      .start_fd = fds[0],
			      .step_fd = fds[1],
			      .stdio_fds = {-1, -1, -1},
			      .terminal_fd = -1,
			      .leader_fd = -1};
	for (int i = 0; i < 3; i++) {
		if (order->stdio & 1U << i)
			ret->stdio_fds[i] = fds[at++];
	}
	if (order->has_terminal) {
		ret->terminal_fd = fds[at++];
		ret->leader_fd = fds[at++];
	}
	return true;
}

struct shared {
	const struct init_config *config;
	const struct start *start;
	int socket_fd;
};

static int be_step(void *data)
{
	const struct shared *shared = data;

	close(shared->socket_fd);
	execute(shared->config, shared->start);
}

/*
 * Nobody can look into what is not dumpable, which is a property of the memory: it is that also
 * while both have it. Becoming another user would make it dumpable for a moment, where the machine
 * is set to that, with the template's memory in it; such a step has its own.
 */
static bool can_share(const struct start *start)
{
	struct init_step_head head;

	/* The sanitizer would take what exec has left on that stack for its own marks. */
	return !HAS_ASAN && !start->waits && start->terminal_fd < 0 &&
	       pread(start->step_fd, &head, sizeof head, 0) == sizeof head && !head.has_ids;
}

static long fork_sharing(const struct init_config *config, int socket_fd, const struct start *start)
{
	static char stack[SHARED_STACK] __attribute__((aligned(64)));
	struct shared shared = {.config = config, .start = start, .socket_fd = socket_fd};
	long pid;

	words = (struct words){0};
	pid = clone(be_step, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_PARENT | SIGCHLD,
		    &shared);
	if (words.data)
		munmap(words.data, words.data_size);
	if (words.list)
		munmap(words.list, words.list_size);
	return pid;
}

static void fork_step(const struct init_config *config, int socket_fd, struct start *start)
{
	struct init_message message = {.type = INIT_FAILED, .code = -1};
	long pid;

	/* Not of clone3(), which the filter does not let through. The first process becomes the
	 * parent, who has to be told how a step has ended. */
	if (can_share(start))
		pid = fork_sharing(config, socket_fd, start);
	else
		pid = syscall(SYS_clone, (unsigned long)CLONE_PARENT | SIGCHLD, NULL, NULL, NULL,
			      0);
	if (pid == 0) {
		close(socket_fd);
		if (start->terminal_fd >= 0)
			lead_session(config, start);
		execute(config, start);
	}
	if (pid > 0)
		return;
	error_set(&message.error, ATOLL_FAULT_HOST, errno, "fork the command");
	send(start->start_fd, &message, sizeof message, MSG_NOSIGNAL);
}

void template_main(const struct init_config *config, int socket_fd)
{
	struct template_order order;
	int fds[8];
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "atoll-init"); /* the first one was forked before that was its name */
	prctl(PR_SET_DUMPABLE, 0);
	for (;;) {
		struct start start;
		size_t n = ARRAY_SIZE(fds);
		ssize_t got = fd_receive(socket_fd, &order, sizeof order, 0, fds, &n);

		if (got <= 0)
			_exit(0);
		if (got == TEMPLATE_REST) {
			init_forget_in_child();
			program_trim_own();
		}
		if (got == sizeof order && sort_out(&order, fds, n, &start))
			fork_step(config, socket_fd, &start);
		for (size_t i = 0; i < n; i++)
			close(fds[i]);
	}
}
