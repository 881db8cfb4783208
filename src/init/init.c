/* SPDX-License-Identifier: Apache-2.0 */
#include "init/init-inner.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"
#include "base/uapi.h"
#include "spec/spec.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>

void init_tell(struct init *init, const struct init_message *message)
{
	send(init->config->control_fd, message, sizeof *message, MSG_NOSIGNAL);
}

int init_hand_over(struct init *init, const struct init_message *message, int fd)
{
	return fd_send(init->config->control_fd, message, sizeof *message, &fd, 1);
}

/* Is anybody left? Whoever lives in here is a child of ours or of another one that is; also one
 * whose end is told by no signal. */
static bool has_children(void)
{
	siginfo_t info;

	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 ||
	       errno != ECHILD;
}

/* The end: the kernel kills everything else in the namespace with us. */
void init_end(struct init *init, const struct init_message *message)
{
	/* Whoever hears of the end kills us. Until then nothing goes on, also if the supervisor
	 * takes its time to hear the rest. */
	if (tell_is_on(&init->guard.tell)) {
		/* The kernel goes through all processes of the host for this. */
		if (!init->config->is_bare && has_children())
			kill(-1, SIGSTOP);
		sense_catch_up(&init->guard, 0, true);
		tell_finish(&init->guard.tell, init->config->control_fd);
	}
	init_tell(init, message);
	_exit(0);
}

void init_end_broken(struct init *init, int errnum, const char *what)
{
	struct init_message message = {.type = INIT_FAILED, .code = -1};

	error_set(&message.error, ATOLL_FAULT_BUG, errnum, "%s", what);
	init_end(init, &message);
}

/*
 * Nobody outside has the listener any more, so ours is the last one, and goes before the kernel
 * kills the rest with us: whoever asks the guard would hear that there is no such call, and go on
 * for a moment. Without namespaces these are the ones in our Landlock domain.
 */
void init_end_left(void)
{
	kill(-1, SIGKILL);
	_exit(0);
}

/* ---- the command ---- */

bool init_wants_terminal(const struct init_config *config)
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
	int master, locked = 0, r;

	master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || ioctl(master, TIOCSPTLCK, &locked) < 0)
		init_end_broken(init, errno, "make a terminal");
	init->terminal_fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (init->terminal_fd < 0)
		init_end_broken(init, errno, "open the terminal");
	if (setsid() < 0 || ioctl(init->terminal_fd, TIOCSCTTY, 0) < 0)
		init_end_broken(init, errno, "take the terminal");
	r = init_hand_over(init, &message, master);
	if (r < 0)
		init_end_broken(init, -r, "hand the terminal over");
	close(master);
	/* Its size and modes come from outside, and a command looks at them first of all. */
	if (recv(init->config->control_fd, &order, sizeof order, 0) != sizeof order ||
	    order.type != INIT_GO)
		_exit(0);
}

static void take_terminal(const struct init_config *config, int terminal_fd)
{
	setpgid(0, 0);
	tcsetpgrp(terminal_fd, getpid());
	for (int i = 0; i < 3; i++) {
		if (config->stdio[i] < 0)
			dup2(terminal_fd, i);
	}
}

/*
 * When the machine itself runs out of memory a sandbox goes before the user's own programs. The
 * command may take it back: this is a courtesy, not a wall.
 *
 * The command's process and the first template set it for themselves, before there is a command. A
 * later template is forked beside commands and is never dumpable, so its files in /proc are root's:
 * it gets the number from pid 1, which has it while it forks.
 */
#define PREFERRED "500"

static struct {
	int fd; /* pid 1's own, opened while it is dumpable; 0: none */
	char usual[16];
} oom_score;

void init_prefer_for_killing(void)
{
	cleanup_fd int fd = -1;

	if (oom_score.fd > 0)
		return;		   /* a later template has it from pid 1 */
	prctl(PR_SET_DUMPABLE, 1); /* or its own files in /proc are root's; until exec */
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, PREFERRED, strlen(PREFERRED)) < 0)
		return; /* it stays as it is */
}

static void open_oom_score(void)
{
	int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, oom_score.usual, sizeof oom_score.usual - 1);

	if (got > 0)
		oom_score.fd = fd;
	else if (fd >= 0)
		close(fd);
}

static void set_oom_score(const char *text)
{
	/* What is refused stays as it is. */
	if (oom_score.fd > 0 && pwrite(oom_score.fd, text, strlen(text), 0) < 0)
		return;
}

static bool may_go_on(int start_fd)
{
	char byte;

	return recv(start_fd, &byte, 1, 0) == 1;
}

/* ---- on another CPU ---- */

/* With more of them the kernel's own choice is better than one at random. */
#define APART_CPUS_MAX 4

/* Which CPUs we may use; none if it is better not to choose. */
static cpu_set_t list_cpus(void)
{
	cpu_set_t all;

	if (sched_getaffinity(0, sizeof all, &all) < 0 || CPU_COUNT(&all) > APART_CPUS_MAX)
		CPU_ZERO(&all);
	return all;
}

/*
 * Away from ours. What is forked waits for its parent's CPU mostly, also while another one has
 * nothing to do, and the kernel lets it: in a virtual machine with two of them four times out of
 * five. It waits for the byte, so that nothing is set once it has its own set again.
 */
static void send_away(pid_t pid, int start_fd, const cpu_set_t *all)
{
	const int here = sched_getcpu();
	cpu_set_t others = *all;
	bool is_away;

	if (here >= 0)
		CPU_CLR(here, &others);
	/* If it cannot be, or is refused, it stays where it is. */
	is_away = CPU_COUNT(&others) > 0 && sched_setaffinity(pid, sizeof others, &others) == 0;
	send(start_fd, is_away ? "a" : "s", 1, MSG_NOSIGNAL);
}

static void arrive(int start_fd, const cpu_set_t *all)
{
	char byte;

	if (recv(start_fd, &byte, 1, 0) != 1)
		_exit(127);
	if (byte == 'a' && sched_setaffinity(0, sizeof *all, all) < 0)
		_exit(127); /* or everything inside would have too few */
}

/* ---- the command's process ---- */

/* The listener goes out, a byte comes in before each of the next two steps; a whole message tells
 * of a failure, and the end of the socket that the command is executed. */
static _Noreturn void command_child(const struct init_config *config, int terminal_fd, int start_fd,
				    const cpu_set_t *apart)
{
	struct init_message message = {.type = INIT_FAILED, .code = -1};
	/* The control socket is for `begin`, which sends the network's sockets through it. */
	const int also[] = {start_fd, terminal_fd, config->control_fd};
	int listener = -1;

	if (apart && CPU_COUNT(apart) > 0)
		arrive(start_fd, apart);
	if (terminal_fd >= 0)
		take_terminal(config, terminal_fd);
	else
		setsid();
	init_prefer_for_killing();
	if (config->close_others(config->data, also, ARRAY_SIZE(also), &message.error) == 0)
		listener = config->begin(config->data, &message.error);
	if (listener >= 0 && fd_send(start_fd, "l", 1, &listener, 1) == 0) {
		close(listener);
		close(config->control_fd);
		if (may_go_on(start_fd) && config->seal(config->data, &message.error) == 0) {
			if (config->is_service)
				template_main(config, start_fd);
			if (may_go_on(start_fd))
				message.code = config->execute(config->data, &message.error);
		}
	}
	send(start_fd, &message, sizeof message, MSG_NOSIGNAL);
	_exit(127);
}

/* `apart`: all CPUs that it may use, if it is to begin on another one; may be none, or NULL. */
static int fork_command(const struct init_config *config, int terminal_fd, const cpu_set_t *apart,
			struct init_command *ret, struct atoll_error *err)
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
		command_child(config, terminal_fd, pair[1], apart);
	}
	close(pair[1]);
	if (apart && CPU_COUNT(apart) > 0)
		send_away(pid, pair[0], apart);
	ret->pid = pid;
	ret->start_fd = pair[0];
	return 0;
}

int init_fork(const struct init_config *config, struct init_command *ret, struct atoll_error *err)
{
	int r;

	set_oom_score(PREFERRED);
	r = fork_command(config, -1, NULL, ret, err);
	set_oom_score(oom_score.usual);
	return r;
}

int init_fork_apart(const struct init_config *config, struct init_command *ret,
		    struct atoll_error *err)
{
	const cpu_set_t all = list_cpus();

	return fork_command(config, -1, &all, ret, err);
}

int init_await(struct init_command *command, struct atoll_error *err)
{
	struct init_message message;
	size_t n = 1;
	ssize_t got = fd_receive(command->start_fd, &message, sizeof message, 0,
				 &command->listener_fd, &n);

	if (got == sizeof message) {
		*err = message.error;
		return err->errnum ? -err->errnum : -EIO;
	}
	/* Somebody outside may kill it before it is the command. */
	if (got == 0 || got == -ECONNRESET)
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "the command's process was killed before its start");
	if (got != 1 || n != 1)
		return error_set(err, ATOLL_FAULT_BUG, got < 0 ? (int)-got : 0,
				 "the listener did not arrive");
	return 0;
}

int init_let_seal(struct init_command *command, struct atoll_error *err)
{
	if (send(command->start_fd, "s", 1, MSG_NOSIGNAL) < 0)
		return errno == EPIPE || errno == ECONNRESET
			       ? error_set(err, ATOLL_FAULT_HOST, 0,
					   "the command's process was killed before its start")
			       : error_set(err, ATOLL_FAULT_BUG, errno, "let the command go on");
	return 0;
}

/* Nothing when exec succeeds, or the story of its failure. */
static void serve_start(struct init *init)
{
	struct init_message message, started = {.type = INIT_STARTED};
	ssize_t got = recv(init->start_fd, &message, sizeof message, 0);

	/* It has ended without reading all that we sent, which is told before what it said. */
	if (got < 0 && errno == ECONNRESET)
		got = recv(init->start_fd, &message, sizeof message, 0);
	if (got == sizeof message)
		init_end(init, &message);
	if (got != 0)
		init_end_broken(init, got < 0 ? errno : 0, "start the command");
	close(init->start_fd);
	init->start_fd = -1;
	init_tell(init, &started);
}

static void add_usage(int who, struct init_message *message)
{
	struct rusage usage;

	getrusage(who, &usage);
	message->cpu_us += init_cpu_us(&usage);
	if ((uint64_t)usage.ru_maxrss > message->peak_kib)
		message->peak_kib = (uint64_t)usage.ru_maxrss;
}

/* If it was the last one, the supervisor need not wait for our end, which takes the kernel a while,
 * to know that all is written and how much was used. */
static void tell_of_others(const struct init *init, struct init_message *message)
{
	message->is_alone = !init->config->is_bare && !has_children();
	if (!message->is_alone)
		return;
	add_usage(RUSAGE_SELF, message);
	add_usage(RUSAGE_CHILDREN, message);
}

/*
 * The keeper runs under the commands' id. Before Landlock keeps signals inside (ABI 6, Linux 6.12)
 * they can kill it, or stop it, and what is hidden would stay so only until somebody replaces it.
 */
void init_check_keeper(struct init *init)
{
	struct init_message message = {.type = INIT_FAILED, .code = -1};
	const pid_t keeper = init->config->keeper;
	int status;

	if (keeper <= 0 || waitpid(keeper, &status, WNOHANG | WUNTRACED) != keeper)
		return;
	error_set(&message.error, ATOLL_FAULT_POLICY, 0, "the keeper of hidden names %s",
		  WIFSTOPPED(status) ? "was stopped" : "has ended");
	init_end(init, &message);
}

void init_stop_all(const struct init *init)
{
	kill(-1, SIGSTOP);
	/* The second takes the first back, so that no wait tells of it. */
	if (init->config->keeper > 0)
		kill(init->config->keeper, SIGCONT);
}

static void reap(struct init *init)
{
	struct init_message message = {.type = INIT_ENDED}, stopped = {.type = INIT_STOPPED};
	/* Without a terminal nobody could say "go on", so a stop is not told. */
	int status, options = init->terminal_fd >= 0 ? WNOHANG | WUNTRACED : WNOHANG;
	struct signalfd_siginfo info;
	pid_t pid;

	while (read(init->signal_fd, &info, sizeof info) == sizeof info) {
		if (info.ssi_signo == SIGALRM)
			guard_tick(&init->guard);
	}
	init_check_keeper(init);
	while ((pid = waitpid(-1, &status, options)) > 0) {
		if (WIFSTOPPED(status)) {
			if (pid == init->command && !init->is_held)
				init_tell(init, &stopped);
			continue;
		}
		if (pid == init->command) {
			/* It may have ended before we saw how it started; or been killed before
			 * it did. */
			while (init->start_fd >= 0 && !WIFSIGNALED(status))
				serve_start(init);
			message.wait_status = status;
			watch_end(&init->watch);
			init->config->usage->files = init->guard.n_created + init->watch.n_files;
			tell_of_others(init, &message);
			init_end(init, &message);
		}
		/* Orphans are simply gone. Helpers of the guard are its direct children as well. */
		guard_helper_ended(&init->guard, pid);
	}
}

/* For the other way: what connects to a port that was published has to be made in here. */
void init_make_sockets(struct init *init, const struct init_order *order)
{
	struct init_message message = {.type = INIT_SOCKETS};
	int fds[INIT_SOCKETS_MAX] = {-1};
	uint32_t n = 0;

	while (n < order->count && n < INIT_SOCKETS_MAX) {
		fds[n] = socket(order->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fds[n] < 0)
			break;
		n++;
	}
	message.code = (int32_t)n;
	if (fd_send(init->config->control_fd, &message, sizeof message, fds, n) < 0)
		init_end_broken(init, errno, "hand sockets over");
	while (n > 0)
		close(fds[--n]);
}

/* One order, or the end: the supervisor is gone. */
static void serve_order(struct init *init)
{
	struct init_order order;
	ssize_t got = recv(init->config->control_fd, &order, sizeof order, MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got != sizeof order)
		init_end_left();
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
		if (order.signal == SIGSTOP)
			init_stop_all(init);
		else
			kill(-1, order.signal);
		break;
	case INIT_MAKE_SOCKETS:
		/* Without a network there is nothing to make them in, or it is the host's. */
		if (init->config->peers && !init->config->is_bare)
			init_make_sockets(init, &order);
		break;
	default:
		break;
	}
}

void init_check_limits(struct init *init)
{
	struct init_message message = {.type = INIT_LIMIT};
	struct watch_verdict over;
	int r;

	init->watch.n_helpers = guard_count_helpers(&init->guard);
	r = watch_look(&init->watch, &over);

	if (r < 0)
		init_end_broken(init, -r, "watch the limits");
	init->config->usage->files = init->guard.n_created + init->watch.n_files;
	if (over.limit == SPEC_LIMIT_COUNT)
		return;
	snprintf(message.limit, sizeof message.limit, "%s", spec_limits[over.limit].key);
	snprintf(message.limit_note, sizeof message.limit_note, "%s", over.note);
	message.limit_value = over.value;
	message.limit_used = over.used;
	init_end(init, &message);
}

void init_trim(struct init *init)
{
	guard_trim(&init->guard);
	program_trim_own();
}

/* Until the next look, the next packet of notices, or the time to rest. */
int init_wait_ms(const struct init *init)
{
	int64_t now_ns = clock_monotonic_ns(), until_ns = init->watch.next_ns;

	if (init->guard.sense.due_ns && init->guard.sense.due_ns < until_ns &&
	    !init->guard.tell.is_stuck)
		until_ns = init->guard.sense.due_ns;
	if (init->rest.due_ns < until_ns)
		until_ns = init->rest.due_ns;
	return tell_wait_ms(&init->guard.tell, now_ns,
			    until_ns <= now_ns ? 0 : (int)((until_ns - now_ns + 999999) / 1000000));
}

void init_tell_notices(struct init *init, int64_t now_ns, bool can_send)
{
	struct tell *tell = &init->guard.tell;

	sense_catch_up(&init->guard, now_ns, false);
	if (tell->is_stuck && can_send)
		tell_send(tell);
	else if (!tell->is_stuck)
		tell_send_if_due(tell, now_ns);
}

static _Noreturn void loop(struct init *init)
{
	struct tell *tell = &init->guard.tell;
	int64_t now_ns;

	for (;;) {
		const bool has_room = tell_has_room(tell);
		struct pollfd fds[] = {
			{.fd = init->signal_fd, .events = POLLIN},
			{.fd = init->config->control_fd, .events = POLLIN},
			{.fd = init->has_listener && has_room ? init->guard.listener_fd : -1,
			 .events = POLLIN},
			{.fd = init->start_fd, .events = POLLIN},
			{.fd = init->config->warden_fd, .events = POLLIN},
			{.fd = tell->is_stuck ? tell->fd : -1, .events = POLLOUT},
			{.fd = has_room ? init->guard.pointers_fd : -1, .events = POLLIN},
		};
		int ready = poll(fds, ARRAY_SIZE(fds), init_wait_ms(init));

		if (ready < 0 && errno != EINTR)
			init_end_broken(init, errno, "poll");
		/* Also when there is always something else to do. */
		now_ns = clock_monotonic_ns();
		if (now_ns >= init->watch.next_ns) {
			init_check_limits(init);
			/* Who rests has room on his stack for a look only while he looks. */
			if (init->rest.has_rested && init->rest.due_ns == INT64_MAX)
				program_trim_stack();
		}
		init_tell_notices(init, now_ns, fds[5].revents);
		/* The looks at the limits are no work. */
		if (rest_is_due(&init->rest, now_ns, ready > 0))
			init_trim(init);
		if (ready <= 0)
			continue;
		if (fds[4].revents)
			init->config->alone(init->config->data);
		if (fds[1].revents)
			serve_order(init);
		if (fds[3].revents)
			serve_start(init);
		if (fds[2].revents & POLLIN && guard_serve(&init->guard) < 0)
			init_end_broken(init, errno, "the guard");
		/* Nobody lives under the filter any more. Asking on would be told so at once, for
		 * ever, and keep the last of them, which is just ending, from its CPU. */
		if (fds[2].revents & POLLHUP && !(fds[2].revents & POLLIN))
			init->has_listener = false;
		/* Before the end of whoever wrote it is heard of. */
		if (fds[6].revents)
			guard_serve_pointers(&init->guard);
		if (fds[0].revents)
			reap(init);
	}
}

/* A terminal is given to a session, and only who is forked after that belongs to it. */
static void start_on_terminal(struct init *init, struct init_command *command)
{
	struct init_message message = {.type = INIT_FAILED, .code = -1};
	const struct init_message listener = {.type = INIT_LISTENER};
	int r;

	open_terminal(init);
	if (fork_command(init->config, init->terminal_fd, NULL, command, &message.error) < 0 ||
	    init_await(command, &message.error) < 0 || init_let_seal(command, &message.error) < 0)
		init_end(init, &message);
	r = init_hand_over(init, &listener, command->listener_fd);
	if (r < 0)
		init_end_broken(init, -r, "hand the listener over");
}

/* While the command's process executes: until the loop begins nothing of it is read. */
void init_lock(struct init *init)
{
	struct init_message message = {.type = INIT_FAILED, .code = -1};

	if (init->config->lock(init->config->data, &message.error) < 0)
		init_end(init, &message);
}

/* Of pages of its own, by the guard's. */
static struct init the_init;

void init_forget_in_child(void)
{
	program_drop(&the_init, sizeof the_init);
	service_forget_in_child();
}

/* For watch.is_own. Without steps the guard's helpers are all; the command is dumpable. */
static bool is_helper(const void *data, pid_t pid, pid_t session)
{
	const struct init *init = data;

	(void)session;
	return guard_has_helper(&init->guard, pid);
}

void init_main(const struct init_config *config, struct init_command *command)
{
	struct init *init = &the_init;
	sigset_t all;

	init->config = config;
	init->start_fd = init->terminal_fd = -1;
	init->rest.due_ns = INT64_MAX;
	/* A caller that ignores it would have the command reaped before we see its end. */
	signal(SIGCHLD, SIG_DFL);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "atoll-init");
	if (config->is_bare && prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		init_end_broken(init, errno, "take orphans in");
	init->signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (init->signal_fd < 0)
		init_end_broken(init, errno, "signalfd");
	prctl(PR_SET_DUMPABLE, 1); /* a change of id has taken it away, and the watch needs it */
	watch_open(&init->watch);
	if (config->is_service)
		open_oom_score();
	/* The command's processes run under the same id: keep them from looking into us. */
	prctl(PR_SET_DUMPABLE, 0);
	if (config->is_service)
		service_main(init, command);
	if (!command->pid)
		start_on_terminal(init, command);
	config->let_go(config->data);
	init->command = command->pid;
	init->start_fd = command->start_fd;
	if (guard_init(&init->guard, config, command->listener_fd) < 0)
		init_end_broken(init, errno, "start the guard");
	init->guard.watch = &init->watch;
	init->has_listener = true;
	watch_init(&init->watch, config);
	init->watch.is_own = is_helper;
	init->watch.own_data = init;
	/* If it has failed meanwhile, serve_start() reads how. */
	if (send(init->start_fd, "x", 1, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		init_end_broken(init, errno, "let the command go");
	init_lock(init);
	loop(init);
}
