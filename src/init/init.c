/* SPDX-License-Identifier: Apache-2.0 */
#include "init/init.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/uapi.h"
#include "init/guard.h"
#include "init/watch.h"
#include "spec/spec.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>

#define WATCH_EVERY_MS 100

struct init {
	const struct init_config *config;
	pid_t command;
	int signal_fd;
	int start_fd;	 /* the command's side of its start; -1 once it runs */
	int terminal_fd; /* the command's terminal; -1 if it has none */
	bool is_held;	 /* everything was stopped by order: that the command stops is no news */
	bool has_listener;
	struct guard guard;
};

static void tell(struct init *init, const struct init_message *message)
{
	send(init->config->control_fd, message, sizeof *message, MSG_NOSIGNAL);
}

/* The end: the kernel kills everything else in the namespace with us. */
static _Noreturn void end(struct init *init, const struct init_message *message)
{
	tell(init, message);
	_exit(0);
}

static _Noreturn void end_broken(struct init *init, int errnum, const char *what)
{
	struct init_message message = {.type = INIT_FAILED, .code = -1};

	error_set(&message.error, ATOLL_FAULT_BUG, errnum, "%s", what);
	end(init, &message);
}

static int send_fd(int socket_fd, const void *data, size_t size, int fd)
{
	struct iovec io = {.iov_base = (void *)data, .iov_len = size};
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr message = {
		.msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof control,
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	return sendmsg(socket_fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int init_send_listener(int listener_socket, int listener_fd)
{
	return send_fd(listener_socket, "l", 1, listener_fd);
}

/* ---- the command ---- */

static bool wants_terminal(const struct init_config *config)
{
	return config->stdio &&
	       (config->stdio[0] < 0 || config->stdio[1] < 0 || config->stdio[2] < 0);
}

/*
 * A terminal of the sandbox's own devpts, so that its name can be looked up inside. The first
 * process leads the session: a command that led one itself would be an orphan to the kernel, which
 * never stops such a one for Ctrl-Z. It keeps the terminal open, so that the supervisor sees no end
 * of it before the sandbox's.
 */
static void open_terminal(struct init *init)
{
	struct init_message message = {.type = INIT_TERMINAL};
	struct init_order order;
	int master, locked = 0;

	master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || ioctl(master, TIOCSPTLCK, &locked) < 0)
		end_broken(init, errno, "make a terminal");
	init->terminal_fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (init->terminal_fd < 0)
		end_broken(init, errno, "open the terminal");
	if (setsid() < 0 || ioctl(init->terminal_fd, TIOCSCTTY, 0) < 0)
		end_broken(init, errno, "take the terminal");
	if (send_fd(init->config->control_fd, &message, sizeof message, master) < 0)
		end_broken(init, errno, "hand the terminal over");
	close(master);
	/* Its size and modes come from outside, and a command looks at them first of all. */
	if (recv(init->config->control_fd, &order, sizeof order, 0) != sizeof order ||
	    order.type != INIT_GO)
		_exit(0);
}

static void take_terminal(const struct init *init)
{
	setpgid(0, 0);
	tcsetpgrp(init->terminal_fd, getpid());
	for (int i = 0; i < 3; i++) {
		if (init->config->stdio[i] < 0)
			dup2(init->terminal_fd, i);
	}
}

static _Noreturn void command_child(const struct init *init, int start_fd)
{
	const struct init_config *config = init->config;
	struct init_message message = {.type = INIT_FAILED};

	if (init->terminal_fd >= 0)
		take_terminal(init);
	else
		setsid();
	message.code = config->become(config->data, start_fd, &message.error);
	send(start_fd, &message, sizeof message, MSG_NOSIGNAL);
	_exit(127);
}

static void start_command(struct init *init)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		end_broken(init, errno, "socketpair");
	init->command = fork();
	if (init->command < 0)
		end_broken(init, errno, "fork the command");
	if (init->command == 0) {
		close(pair[0]);
		command_child(init, pair[1]);
	}
	close(pair[1]);
	init->start_fd = pair[0];
}

/* The listener arrives, then nothing more when exec succeeds, or the story of its failure. */
static void serve_start(struct init *init)
{
	union {
		struct init_message message;
		char byte;
	} data;
	struct iovec io = {.iov_base = &data, .iov_len = sizeof data};
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr header = {
		.msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof control,
	};
	ssize_t got = recvmsg(init->start_fd, &header, MSG_CMSG_CLOEXEC);
	struct cmsghdr *cmsg = got > 0 ? CMSG_FIRSTHDR(&header) : NULL;
	struct init_message started = {.type = INIT_STARTED};
	int listener;

	if (got < 0)
		end_broken(init, errno, "start the command");
	if (got == 0) {
		close(init->start_fd);
		init->start_fd = -1;
		if (!init->has_listener)
			end_broken(init, 0, "the command started without its filter");
		tell(init, &started);
		return;
	}
	if ((size_t)got == sizeof data.message)
		end(init, &data.message);
	if (!cmsg || cmsg->cmsg_type != SCM_RIGHTS)
		end_broken(init, 0, "the listener did not arrive");
	memcpy(&listener, CMSG_DATA(cmsg), sizeof listener);
	if (guard_init(&init->guard, init->config, listener) < 0)
		end_broken(init, errno, "start the guard");
	init->has_listener = true;
}

static void reap(struct init *init)
{
	struct init_message message = {.type = INIT_ENDED}, stopped = {.type = INIT_STOPPED};
	/* Without a terminal nobody could say "go on", so a stop is not told. */
	int status, options = init->terminal_fd >= 0 ? WNOHANG | WUNTRACED : WNOHANG;
	struct signalfd_siginfo info;
	pid_t pid;

	while (read(init->signal_fd, &info, sizeof info) == sizeof info)
		;
	while ((pid = waitpid(-1, &status, options)) > 0) {
		if (WIFSTOPPED(status)) {
			if (pid == init->command && !init->is_held)
				tell(init, &stopped);
			continue;
		}
		if (pid == init->command) {
			/* It may have ended before we saw how it started; or been killed before
			 * it did. */
			while (init->start_fd >= 0 && !WIFSIGNALED(status))
				serve_start(init);
			message.wait_status = status;
			end(init, &message);
		}
		if (pid == init->config->keeper)
			end_broken(init, 0, "the keeper of hidden names has ended");
		/* Orphans are simply gone. Helpers of the guard are its direct children as well;
		 * an orphan counted as one only makes room early. */
		guard_helper_ended(&init->guard);
	}
}

/* One order, or the end: the supervisor is gone. */
static void serve_order(struct init *init)
{
	struct init_order order;
	ssize_t got = recv(init->config->control_fd, &order, sizeof order, MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got != sizeof order)
		_exit(0);
	switch (order.type) {
	case INIT_SIGNAL_COMMAND:
		kill(init->command, order.signal);
		break;
	case INIT_SIGNAL_GROUP:
		/* Between fork and its first steps it has none yet. */
		if (kill(-init->command, order.signal) < 0)
			kill(init->command, order.signal);
		break;
	case INIT_SIGNAL_ALL:
		if (order.signal == SIGSTOP || order.signal == SIGCONT)
			init->is_held = order.signal == SIGSTOP;
		kill(-1, order.signal);
		break;
	default:
		break;
	}
}

static void check_limits(struct init *init)
{
	const struct init_limits *limits = &init->config->limits;
	struct init_message message = {.type = INIT_LIMIT};
	struct watch_sum sum;

	if (watch_sum_up(&sum) < 0)
		end_broken(init, errno, "watch the limits");
	if (sum.memory > limits->memory) {
		strcpy(message.limit, "memory");
		message.limit_value = limits->memory;
		end(init, &message);
	}
	if (sum.cpu_ms > limits->cpu_time_ms) {
		strcpy(message.limit, "cpu");
		message.limit_value = limits->cpu_time_ms;
		end(init, &message);
	}
}

static bool watches(const struct init *init)
{
	return init->config->limits.memory != SPEC_UNLIMITED ||
	       init->config->limits.cpu_time_ms != SPEC_UNLIMITED;
}

static _Noreturn void loop(struct init *init)
{
	int timeout = watches(init) ? WATCH_EVERY_MS : -1;
	int64_t checked_ns = clock_monotonic_ns();

	for (;;) {
		struct pollfd fds[] = {
			{.fd = init->signal_fd, .events = POLLIN},
			{.fd = init->config->control_fd, .events = POLLIN},
			{.fd = init->has_listener ? init->guard.listener_fd : -1, .events = POLLIN},
			{.fd = init->start_fd, .events = POLLIN},
		};
		int ready = poll(fds, ARRAY_SIZE(fds), timeout);

		if (ready < 0 && errno != EINTR)
			end_broken(init, errno, "poll");
		/* Also when there is always something else to do. */
		if (timeout > 0 &&
		    clock_monotonic_ns() - checked_ns >= WATCH_EVERY_MS * 1000000LL) {
			check_limits(init);
			checked_ns = clock_monotonic_ns();
		}
		if (ready <= 0)
			continue;
		if (fds[1].revents)
			serve_order(init);
		if (fds[3].revents)
			serve_start(init);
		if (fds[2].revents & POLLIN && guard_serve(&init->guard) < 0)
			end_broken(init, errno, "the guard");
		if (fds[0].revents)
			reap(init);
	}
}

void init_main(const struct init_config *config)
{
	static struct init init;
	sigset_t all;

	init.config = config;
	init.start_fd = init.terminal_fd = -1;
	/* A caller that ignores it would have the command reaped before we see its end. */
	signal(SIGCHLD, SIG_DFL);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "atoll-init");
	init.signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (init.signal_fd < 0)
		end_broken(&init, errno, "signalfd");
	if (wants_terminal(config))
		open_terminal(&init);
	start_command(&init);
	/* The command's processes run under the same id: keep them from looking into us. */
	prctl(PR_SET_DUMPABLE, 0);
	loop(&init);
}
