/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "isolate/bare/bare.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/*
 * How a sandbox starts, and ends, without namespaces
 *
 *	supervisor → warden → guard (init_main) → the command
 *
 * The warden restricts itself by a Landlock domain that handles nothing but signals and abstract
 * sockets; the guard has such a one inside, and the command a third, with files. From a domain one
 * can signal only what is in it or further in. So the command reaches neither of the two, nor the
 * guard the warden (a signal for all that is inside may be SIGSTOP), and kill(-1) means exactly the
 * sandbox: one call that the kernel makes with the list of processes held still, so that no fork is
 * missed, however fast.
 *
 * The warden calls it when the guard has ended or the supervisor has closed its socket, then waits
 * until nothing is left (it takes orphans in), and removes the private directory. If the warden is
 * killed, the guard does the same. If both are killed in one instant the supervisor ends what it
 * recognises, or the next run; until then it is locked in, and can change nothing without the
 * guard.
 */

static int fail(struct atoll_error *err, const char *what)
{
	return error_set(err, ATOLL_FAULT_HOST, errno, "%s", what);
}

/* Set once signals were seen to stay inside: without that kill(-1) would mean all that the user
 * has. */
static bool is_scoped;

/* `outside` is somebody who must be out of reach afterwards. */
static int enter_domain(pid_t outside, struct atoll_error *err)
{
	const struct uapi_landlock_ruleset_attr attr = {
		.scoped = UAPI_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | UAPI_LANDLOCK_SCOPE_SIGNAL};
	cleanup_fd int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
	int r;

	if (fd < 0)
		return fail(err, "keep signals inside by Landlock");
	r = landlock_restrict(fd, err);
	if (r < 0)
		return r;
	if (kill(outside, 0) == 0 || errno != EPERM)
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "Landlock does not keep signals inside, though it says so");
	is_scoped = true;
	return 0;
}

static _Noreturn void end_all(void *data)
{
	const struct cell *cell = data;

	if (is_scoped)
		kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	bare_remove_private(cell->bare);
	_exit(0);
}

/* The command's process is forked before anything else can fail for it, as with namespaces; there
 * is no root to build meanwhile. */
static int start_command(const struct init_config *config, struct init_command *command,
			 struct atoll_error *err)
{
	int r = enter_domain(getppid(), err);

	if (r == 0)
		r = init_fork(config, command, err);
	if (r == 0)
		r = init_await(command, err);
	return r < 0 ? r : init_let_seal(command, err);
}

static _Noreturn void guard_main(struct cell *cell, int warden_fd)
{
	struct init_config config = start_config(cell);
	struct init_command command = {.start_fd = -1};
	struct atoll_error err = {0};
	int r;

	config.is_bare = true;
	config.warden_fd = warden_fd;
	config.alone = end_all;
	r = start_command(&config, &command, &err);
	if (r < 0)
		send(cell->setup_fd, &err, sizeof err, MSG_NOSIGNAL);
	else
		r = fd_send(cell->setup_fd, "r", 1, &command.listener_fd, 1);
	if (r < 0)
		_exit(1); /* the warden ends the rest */
	close(cell->setup_fd);
	init_main(&config, &command);
}

/* Until the guard ends or the supervisor lets go. */
static void watch(const struct cell *cell, pid_t guard, int signal_fd)
{
	for (;;) {
		struct signalfd_siginfo info;
		struct pollfd fds[] = {
			{.fd = signal_fd, .events = POLLIN},
			{.fd = cell->control_fd, .events = POLLRDHUP},
		};
		pid_t pid;

		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			return;
		while (read(signal_fd, &info, sizeof info) == sizeof info)
			;
		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
			if (pid == guard)
				return;
		}
		if (fds[1].revents)
			return;
	}
}

static int set_up(pid_t supervisor, int *ret_signal_fd, int ends[2], struct atoll_error *err)
{
	sigset_t all;
	int r = enter_domain(supervisor, err);

	if (r < 0)
		return r;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	*ret_signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (*ret_signal_fd < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return fail(err, "watch over the sandbox");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return fail(err, "take orphans in");
	return 0;
}

static _Noreturn void warden_main(struct cell *cell, pid_t supervisor)
{
	struct atoll_error err = {0};
	int ends[2], signal_fd = -1, r;
	pid_t guard = -1;

	r = start_leave_caller(cell, &err);
	prctl(PR_SET_NAME, "atoll-warden");
	/* The caller's terminal and its group are not ours to be in. */
	setsid();
	cell->umask = umask(0);
	cell->has_namespaces = true; /* there are none to make */
	if (r == 0)
		r = set_up(supervisor, &signal_fd, ends, &err);
	if (r == 0) {
		guard = fork();
		if (guard == 0) {
			close(signal_fd);
			close(ends[1]);
			guard_main(cell, ends[0]);
		}
		if (guard < 0)
			r = fail(&err, "fork the guard");
	}
	if (r < 0) {
		send(cell->setup_fd, &err, sizeof err, MSG_NOSIGNAL);
		end_all(cell);
	}
	close(cell->setup_fd); /* the guard says whether it is ready */
	close(ends[0]);
	if (cell->notice_fd >= 0)
		close(cell->notice_fd); /* the guard's alone: its end is to be seen */
	for (int i = 0; i < 3; i++)
		close(cell->stdio[i]); /* or the supervisor would wait for the end of our output */
	prctl(PR_SET_DUMPABLE, 0);
	/* The warden removes a directory whose file names the command chose. */
	if (ns_lock_first(cell, &err) == 0)
		watch(cell, guard, signal_fd);
	end_all(cell);
}

int bare_start(struct cell *cell, const int stdio[3], struct cell_handle *ret,
	       struct atoll_error *err)
{
	cleanup_fd int setup = -1, control = -1, setup_child = -1, control_child = -1, pid_fd = -1;
	cleanup_fd int notice = -1;
	pid_t pid, supervisor = getpid();
	int pair[2], listener = -1, r;
	size_t n = 1;

	r = start_make_pair(pair, err);
	if (r < 0)
		return r;
	setup = pair[0], setup_child = pair[1];
	r = start_make_pair(pair, err);
	if (r < 0)
		return r;
	control = pair[0], control_child = pair[1];
	memcpy(cell->stdio, stdio, sizeof cell->stdio);
	cell->setup_fd = setup_child;
	cell->control_fd = control_child;
	r = start_make_notices(cell, &notice, err);
	if (r == 0)
		r = bare_make_private(cell, err);
	if (r == 0)
		r = bare_set_environment(cell, err);
	if (r == 0 && cell->extra->meanwhile)
		r = cell->extra->meanwhile(cell->extra->meanwhile_data, err);
	if (r < 0) {
		bare_remove_private(cell->bare);
		return r;
	}

	pid = start_clone(cell, 0, &pid_fd);
	if (pid == 0)
		warden_main(cell, supervisor);
	if (pid < 0) {
		r = error_set(err, ATOLL_FAULT_HOST, -pid, "fork the warden");
		bare_remove_private(cell->bare);
		return r;
	}
	close(take_fd(&setup_child));
	close(take_fd(&control_child));
	if (cell->notice_fd >= 0)
		close(take_fd(&cell->notice_fd));
	r = start_wait_ready(setup, &listener, &n, err);
	if (r == 0 && n == 0)
		r = error_set(err, ATOLL_FAULT_HOST, EMFILE, "take the guard's listener");
	if (r < 0) {
		close(take_fd(&control)); /* it ends by that, and tidies up */
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		return r;
	}
	cell_keep_listener(cell, listener);
	ret->pid = pid;
	ret->pid_fd = take_fd(&pid_fd);
	ret->control_fd = take_fd(&control);
	ret->listener_fd = ret->dns_fd = ret->layer_fd = ret->storage_fd = -1;
	ret->notice_fd = take_fd(&notice);
	ret->notice_rest = cell->notices;
	return 0;
}

/* Both of ours hold the other end of the socket: when it has hung up nothing is left. */
void bare_stop(struct cell *cell, const struct cell_handle *handle)
{
	struct pollfd fd = {.fd = handle->control_fd};

	shutdown(handle->control_fd, SHUT_WR);
	while (poll(&fd, 1, -1) < 0 || !(fd.revents & POLLHUP))
		;
	bare_sweep_own(cell->bare);
}
