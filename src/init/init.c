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
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

struct init {
	const struct init_config *config;
	pid_t command;
	int signal_fd;
	int start_fd; /* the command's side of its start; -1 once it runs */
	bool has_listener;
	struct guard guard;
	struct watch watch;
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

/* One byte with a descriptor. */
static int send_listener(int socket_fd, int listener_fd)
{
	char byte = 'l';
	struct iovec io = {.iov_base = &byte, .iov_len = 1};
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
	memcpy(CMSG_DATA(cmsg), &listener_fd, sizeof(int));
	return sendmsg(socket_fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* When the machine itself runs out of memory a sandbox goes before the user's own programs. The
 * command may take it back: this is a courtesy, not a wall. */
static void prefer_for_killing(void)
{
	cleanup_fd int fd = -1;

	prctl(PR_SET_DUMPABLE, 1); /* or its own files in /proc are root's; until exec */
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "500", 3) < 0)
		return; /* it stays as it is */
}

static bool may_go_on(int start_fd)
{
	char byte;

	return recv(start_fd, &byte, 1, 0) == 1;
}

/* The listener goes out, a byte comes in before each of the next two steps; a whole message tells
 * of a failure, and the end of the socket that the command is executed. */
static _Noreturn void command_child(const struct init_config *config, int start_fd)
{
	struct init_message message = {.type = INIT_FAILED, .code = -1};
	int listener;

	prefer_for_killing();
	listener = config->begin(config->data, &message.error);
	if (listener >= 0 && send_listener(start_fd, listener) == 0) {
		close(listener);
		if (may_go_on(start_fd) && config->seal(config->data, &message.error) == 0 &&
		    may_go_on(start_fd))
			message.code = config->execute(config->data, &message.error);
	}
	send(start_fd, &message, sizeof message, MSG_NOSIGNAL);
	_exit(127);
}

int init_fork(const struct init_config *config, struct init_command *ret, struct atoll_error *err)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a socket pair");
	pid = fork();
	if (pid < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "fork the command");
	if (pid == 0) {
		close(pair[0]);
		command_child(config, pair[1]);
	}
	close(pair[1]);
	ret->pid = pid;
	ret->start_fd = pair[0];
	return 0;
}

int init_let_seal(struct init_command *command, struct atoll_error *err)
{
	struct init_message message;
	struct iovec io = {.iov_base = &message, .iov_len = sizeof message};
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
	ssize_t got = recvmsg(command->start_fd, &header, MSG_CMSG_CLOEXEC);
	struct cmsghdr *cmsg = got == 1 ? CMSG_FIRSTHDR(&header) : NULL;

	if (got == sizeof message) {
		*err = message.error;
		return err->errnum ? -err->errnum : -EIO;
	}
	if (!cmsg || cmsg->cmsg_type != SCM_RIGHTS)
		return error_set(err, ATOLL_FAULT_BUG, got < 0 ? errno : 0,
				 "the listener did not arrive");
	memcpy(&command->listener_fd, CMSG_DATA(cmsg), sizeof command->listener_fd);
	if (send(command->start_fd, "s", 1, MSG_NOSIGNAL) < 0)
		return error_set(err, ATOLL_FAULT_BUG, errno, "let the command go on");
	return 0;
}

/* Nothing when exec succeeds, or the story of its failure. */
static void serve_start(struct init *init)
{
	struct init_message message, started = {.type = INIT_STARTED};
	ssize_t got = recv(init->start_fd, &message, sizeof message, 0);

	if (got == sizeof message)
		end(init, &message);
	if (got != 0)
		end_broken(init, got < 0 ? errno : 0, "start the command");
	close(init->start_fd);
	init->start_fd = -1;
	tell(init, &started);
}

static void reap(struct init *init)
{
	struct init_message message = {.type = INIT_ENDED};
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	while (read(init->signal_fd, &info, sizeof info) == sizeof info)
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == init->command) {
			/* It may have ended before we saw how it started. */
			while (init->start_fd >= 0)
				serve_start(init);
			message.wait_status = status;
			watch_end(&init->watch);
			init->config->usage->files = init->guard.n_created;
			end(init, &message);
		}
		if (pid == init->config->keeper)
			end_broken(init, 0, "the keeper of hidden names has ended");
		/* Orphans are simply gone. Helpers of the guard are its direct children as well;
		 * an orphan counted as one only makes room early. */
		guard_helper_ended(&init->guard);
	}
}

static void check_limits(struct init *init)
{
	struct init_message message = {.type = INIT_LIMIT};
	struct watch_verdict over;
	int r = watch_look(&init->watch, &over);

	if (r < 0)
		end_broken(init, -r, "watch the limits");
	init->config->usage->files = init->guard.n_created;
	if (over.limit == SPEC_LIMIT_COUNT)
		return;
	snprintf(message.limit, sizeof message.limit, "%s", spec_limits[over.limit].key);
	snprintf(message.limit_note, sizeof message.limit_note, "%s", over.note);
	message.limit_value = over.value;
	message.limit_used = over.used;
	end(init, &message);
}

/* Until the next look. */
static int wait_ms(const struct init *init)
{
	int64_t left_ns = init->watch.next_ns - clock_monotonic_ns();

	return left_ns <= 0 ? 0 : (int)((left_ns + 999999) / 1000000);
}

static _Noreturn void loop(struct init *init)
{
	for (;;) {
		struct pollfd fds[] = {
			{.fd = init->signal_fd, .events = POLLIN},
			{.fd = init->config->control_fd, .events = POLLIN},
			{.fd = init->has_listener ? init->guard.listener_fd : -1, .events = POLLIN},
			{.fd = init->start_fd, .events = POLLIN},
		};
		int ready = poll(fds, ARRAY_SIZE(fds), wait_ms(init));

		if (ready < 0 && errno != EINTR)
			end_broken(init, errno, "poll");
		/* Also when there is always something else to do. */
		if (clock_monotonic_ns() >= init->watch.next_ns)
			check_limits(init);
		if (ready <= 0)
			continue;
		if (fds[1].revents)
			_exit(0); /* the supervisor is gone, or says so */
		if (fds[3].revents)
			serve_start(init);
		if (fds[2].revents & POLLIN && guard_serve(&init->guard) < 0)
			end_broken(init, errno, "the guard");
		/* Nobody lives under the filter any more. Asking on would be told so at once, for
		 * ever, and keep the last of them, which is just ending, from its CPU. */
		if (fds[2].revents & POLLHUP && !(fds[2].revents & POLLIN))
			init->has_listener = false;
		if (fds[0].revents)
			reap(init);
	}
}

void init_main(const struct init_config *config, const struct init_command *command)
{
	static struct init init;
	sigset_t all;

	init.config = config;
	init.command = command->pid;
	init.start_fd = command->start_fd;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "atoll-init");
	init.signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (init.signal_fd < 0)
		end_broken(&init, errno, "signalfd");
	prctl(PR_SET_DUMPABLE, 1); /* a change of id has taken it away, and the watch needs it */
	watch_open(&init.watch);
	if (guard_init(&init.guard, config, command->listener_fd) < 0)
		end_broken(&init, errno, "start the guard");
	init.guard.watch = &init.watch;
	init.has_listener = true;
	/* The command's processes run under the same id: keep them from looking into us. */
	prctl(PR_SET_DUMPABLE, 0);
	watch_init(&init.watch, config);
	if (send(init.start_fd, "x", 1, MSG_NOSIGNAL) < 0)
		end_broken(&init, errno, "let the command go");
	loop(&init);
}
