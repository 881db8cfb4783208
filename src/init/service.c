/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"
#include "init/init-inner.h"
#include "init/resolve.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

/*
 * Steps by order
 *
 * The first process of a sandbox that lives on: each INIT_EXEC is one more command, forked by the
 * template (template-process.c), and what a step leaves behind is reaped and lives on. There may be
 * several at the same time. It takes orders one by one and never waits for a step.
 */

/* How long stopping everything may take. */
#define FREEZE_NS (5 * INT64_C(1000000000))

/* How often a step is begun again. */
#define TRIES_MAX 4

/* How many stopped processes are remembered, not to be let go on with the rest. */
#define STOPPED_MAX 256

struct step {
	uint32_t number; /* 0: none */
	pid_t pid;	 /* of the command; 0: not known yet */
	int start_fd;	 /* until it is executed, then -1 */
	int leader_fd;	 /* with a terminal, else -1 */
	pid_t leader;	 /* likewise, else 0 */
	bool is_held;	 /* it was stopped by order */
	bool is_ending;	 /* all of it was asked to end */
	bool is_killed;	 /* everything inside was killed, before it was heard of */
	int n_tries;
	pid_t template;	  /* that was asked for it */
	unsigned n_execs; /* programs that it has tried to execute */
	/* Until its process has been heard of: */
	bool is_waiting; /* its terminal is being prepared */
	uint32_t stdio;
	int fds[4]; /* its words, 0, 1, 2 */
	int terminal_fd;
};

enum work {
	WORK_NONE,
	WORK_FREEZE,
	WORK_CLEAR,
};

struct service {
	struct init *init;
	struct init_command template;
	struct atoll_error failure; /* why the template ended, if it has told */
	int listeners[INIT_LISTENERS_MAX];
	size_t n_listeners;
	struct step steps[INIT_STEPS_MAX];
	enum work work;
	int64_t until_ns;
	int n_found;
	pid_t stopped[STOPPED_MAX]; /* before everything was */
	size_t n_stopped;
};

static PROGRAM_PAGES struct service the_service;

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(take_fd(fd));
}

static void close_step_fds(struct step *step)
{
	close_fd(&step->start_fd);
	close_fd(&step->leader_fd);
	close_fd(&step->terminal_fd);
	for (int i = 0; i < 4; i++)
		close_fd(&step->fds[i]);
}

void service_close_in_child(void)
{
	for (size_t i = 0; i < INIT_STEPS_MAX; i++) {
		if (the_service.steps[i].number)
			close_step_fds(&the_service.steps[i]);
	}
}

void service_forget_in_child(void)
{
	program_drop(&the_service, sizeof the_service);
}

/* ---- the template ---- */

static void use_template(struct service *service)
{
	service->failure = (struct atoll_error){0};
	turns_begin(service->template.listener_fd);
	service->listeners[service->n_listeners++] = service->template.listener_fd;
}

static int hand_listener_over(struct service *service, struct atoll_error *err)
{
	const struct init_message message = {.type = INIT_LISTENER};
	int r = init_hand_over(service->init, &message, service->template.listener_fd);

	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "hand the listener over") : 0;
}

static int make_template(struct service *service, struct atoll_error *err)
{
	struct init_command *template = &service->template;
	int r;

	if (template->pid)
		return 0;
	if (service->n_listeners == INIT_LISTENERS_MAX)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "too many processes of the sandbox's were killed from inside, and "
				 "too many live on: end them (atoll rollback, or atoll rm)");
	template->listener_fd = -1;
	r = init_fork(service->init->config, template, err);
	if (r == 0)
		r = init_await(template, err);
	if (r == 0)
		r = hand_listener_over(service, err);
	if (r == 0)
		r = init_let_seal(template, err);
	if (r < 0) {
		if (template->pid)
			kill(template->pid, SIGKILL);
		close_fd(&template->listener_fd);
		template->pid = 0;
		return r;
	}
	use_template(service);
	return 0;
}

/* Its steps are nobody's business: they are the first process's children. */
static void end_template(struct service *service)
{
	struct init_command *template = &service->template;

	if (!template->pid)
		return;
	kill(template->pid, SIGKILL);
	while (waitpid(template->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close_fd(&template->start_fd);
	template->pid = 0;
}

/* It tells only of a failure; the rest is told when it is reaped. */
static void hear_template(struct service *service)
{
	struct init_message message;
	ssize_t got = recv(service->template.start_fd, &message, sizeof message, MSG_DONTWAIT);

	if (got == sizeof message)
		service->failure = message.error;
	else if (got <= 0 && errno != EAGAIN && errno != EINTR)
		close_fd(&service->template.start_fd);
}

/* ---- steps ---- */

static struct step *find_step(struct service *service, uint32_t number)
{
	for (size_t i = 0; i < INIT_STEPS_MAX; i++) {
		if (service->steps[i].number == number)
			return &service->steps[i];
	}
	return NULL;
}

static void forget_step(struct step *step)
{
	close_step_fds(step);
	step->number = 0;
}

static void tell_failure(struct service *service, uint32_t number, int code,
			 const struct atoll_error *error)
{
	struct init_message message = {
		.type = INIT_FAILED, .step = number, .code = code, .error = *error};

	init_tell(service->init, &message);
}

static void fail_step(struct service *service, struct step *step, int code,
		      const struct atoll_error *error)
{
	tell_failure(service, step->number, code, error);
	forget_step(step);
}

static bool is_ours(const struct service *service, pid_t pid)
{
	return pid == service->template.pid || pid == service->init->config->keeper;
}

/*
 * Is nobody inside but those that keep it? Whoever lives is a child of ours, or of somebody who is:
 * orphans become ours. Where the kernel does not list them (no CONFIG_PROC_CHILDREN) the answer is
 * no.
 */
static bool is_alone(const struct service *service)
{
	cleanup_fd int fd =
		openat(service->init->watch.proc_fd, "1/task/1/children", O_RDONLY | O_CLOEXEC);
	char text[64];
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	/* More than that are not ours alone. */
	if (got < 0 || got == sizeof text - 1)
		return false;
	text[got] = '\0';
	for (char *at = text, *end; *at; at = end) {
		pid_t pid = (pid_t)strtol(at, &end, 10);

		if (end == at)
			return at[strspn(at, " \n")] == '\0';
		if (!is_ours(service, pid))
			return false;
	}
	return true;
}

static void end_step(struct service *service, struct step *step, int wait_status, uint64_t cpu_us,
		     uint64_t peak_kib)
{
	struct init_message message = {.type = INIT_ENDED,
				       .step = step->number,
				       .wait_status = wait_status,
				       .cpu_us = cpu_us,
				       .peak_kib = peak_kib};

	/* What does not end with its command when it is told to is not left behind. */
	if (step->is_ending)
		inside_signal_session(service->init, step->leader ? step->leader : step->pid,
				      step->leader, SIGKILL);
	/* What it did is known before its end, if the supervisor keeps up. */
	sense_catch_up(&service->init->guard, INT64_MAX, false);
	tell_send(&service->init->guard.tell);
	watch_end(&service->init->watch);
	service->init->config->usage->files = service->init->guard.n_created;
	init_tell(service->init, &message);
	forget_step(step);
	if (service->init->watch.woken_ns && is_alone(service))
		watch_leave(&service->init->watch);
}

/* For the record every program is somebody's from its first moment. */
static bool waits(const struct service *service)
{
	return service->init->config->notice_fd >= 0;
}

/* The template waits for a step until that executes (CLONE_VFORK). Should somebody inside have
 * stopped that one before, no other would begin. */
static void free_others(const struct service *service, const struct step *next)
{
	bool is_unknown = false;

	for (const struct step *at = service->steps; at < service->steps + INIT_STEPS_MAX; at++) {
		if (at == next || !at->number || at->start_fd < 0 || at->is_held)
			continue;
		if (at->pid > 0)
			kill(at->pid, SIGCONT);
		else
			is_unknown = true;
	}
	/* It was stopped before it could tell its number; a child of ours it is nevertheless. */
	while (is_unknown) {
		siginfo_t info = {0};

		if (waitid(P_ALL, 0, &info, WSTOPPED | WNOHANG) < 0 || info.si_pid == 0)
			break;
		kill(info.si_pid, SIGCONT);
	}
}

/* Everything in the order of struct template_order. */
static int ask_template(struct service *service, struct step *step, int start_fd, int leader_fd)
{
	const struct template_order order = {.stdio = step->stdio,
					     .has_terminal = step->terminal_fd >= 0,
					     .waits = waits(service)};
	int fds[8], n = 0;

	fds[n++] = start_fd;
	for (int i = 0; i < 4; i++) {
		if (step->fds[i] >= 0)
			fds[n++] = step->fds[i];
	}
	if (order.has_terminal) {
		fds[n++] = step->terminal_fd;
		fds[n++] = leader_fd;
	}
	kill(service->template.pid, SIGCONT); /* somebody inside may have stopped it */
	free_others(service, step);
	return fd_send(service->template.start_fd, &order, sizeof order, fds, (size_t)n);
}

static int launch(struct service *service, struct step *step, struct atoll_error *err)
{
	int start[2], leader[2], r;

	step->is_waiting = false;
	step->leader = 0;
	close_fd(&step->start_fd);
	close_fd(&step->leader_fd);
	r = make_template(service, err);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, start) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a socket pair");
	step->start_fd = start[0];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, leader) < 0) {
		close(start[1]);
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a socket pair");
	}
	step->leader_fd = leader[0];
	step->template = service->template.pid;
	/* If it was killed just now, the end of the step's socket tells. */
	ask_template(service, step, start[1], leader[1]);
	close(start[1]);
	close(leader[1]);
	if (step->terminal_fd < 0)
		close_fd(&step->leader_fd);
	return 0;
}

/* A terminal of the sandbox's own devpts, so that its name can be looked up inside. */
static int open_terminal(struct service *service, struct step *step, struct atoll_error *err)
{
	const struct init_message message = {.type = INIT_TERMINAL, .step = step->number};
	cleanup_fd int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	int locked = 0, r;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &locked) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a terminal");
	step->terminal_fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (step->terminal_fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open the terminal");
	r = init_hand_over(service->init, &message, master);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "hand the terminal over") : 0;
}

static bool is_null(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

/* A step without input has /dev/null: that of the sandbox, as the host's would be a descriptor of
 * the host's tree. Nobody inside can put something else there, as a device is a mount. */
static int use_own_null(int fd)
{
	cleanup_fd int own = -1;

	if (!is_null(fd))
		return 0;
	own = open("/dev/null", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (own < 0)
		return -errno;
	return is_null(own) && dup3(own, fd, O_CLOEXEC) == fd ? 0 : -ENODEV;
}

static int take_fds(struct step *step, uint32_t stdio, const int *fds, struct atoll_error *err)
{
	int r = 0;

	step->stdio = stdio;
	step->fds[0] = *fds++;
	for (int i = 0; i < 3; i++) {
		if (!(stdio & 1U << i))
			continue;
		step->fds[i + 1] = *fds++;
		if (r == 0)
			r = use_own_null(step->fds[i + 1]);
	}
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "open /dev/null inside") : 0;
}

static void begin_step(struct service *service, const struct init_order *order, const int *fds,
		       size_t n)
{
	struct step *step = find_step(service, 0);
	struct atoll_error error = {0};
	int r;

	if (!step || n != 1U + (size_t)__builtin_popcount(order->stdio & 7)) {
		if (step)
			error_set(&error, ATOLL_FAULT_HOST, EMFILE, "take the step's descriptors");
		else
			error_set(&error, ATOLL_FAULT_POLICY, 0,
				  "more than %d steps at the same time; wait for one to end",
				  INIT_STEPS_MAX);
		tell_failure(service, order->step, -1, &error);
		for (size_t i = 0; i < n; i++)
			close(fds[i]);
		return;
	}
	*step = (struct step){.number = order->step,
			      .start_fd = -1,
			      .leader_fd = -1,
			      .terminal_fd = -1,
			      .fds = {-1, -1, -1, -1}};
	watch_wake(&service->init->watch);
	service->init->rest.has_rested = false;
	r = take_fds(step, order->stdio & 7, fds, &error);
	step->is_waiting = step->stdio != 7;
	if (r == 0)
		r = step->is_waiting ? open_terminal(service, step, &error)
				     : launch(service, step, &error);
	if (r < 0)
		fail_step(service, step, -1, &error);
}

/* The terminal looks as it should. */
static void go_on(struct service *service, struct step *step)
{
	struct atoll_error error = {0};

	if (step->is_waiting && launch(service, step, &error) < 0)
		fail_step(service, step, -1, &error);
}

static void give_up(struct service *service, struct step *step)
{
	struct atoll_error error = {0};

	error_set(&error, ATOLL_FAULT_REQUEST, ECANCELED, "start the step");
	fail_step(service, step, -1, &error);
}

/* It was never heard of: somebody inside has killed the template, or it. */
static void lose_step(struct service *service, struct step *step)
{
	struct atoll_error error = service->failure;

	if (step->is_killed) {
		end_step(service, step, SIGKILL, 0, 0);
		return;
	}
	if (!error.text[0] && ++step->n_tries < TRIES_MAX) {
		/* The one after it may be at work for others. */
		if (step->template == service->template.pid)
			end_template(service);
		if (launch(service, step, &error) == 0)
			return;
	}
	if (!error.text[0])
		error_set(&error, ATOLL_FAULT_POLICY, 0,
			  "the process that starts commands is killed again and again from inside");
	fail_step(service, step, -1, &error);
}

static void tell_started(struct service *service, struct step *step)
{
	const struct init_message started = {
		.type = INIT_STARTED, .step = step->number, .code = step->pid};

	close_fd(&step->start_fd);
	close_fd(&step->fds[0]);
	init_tell(service->init, &started);
}

/* Its number; then nothing when exec succeeds, or the story of its failure. */
static void serve_start(struct service *service, struct step *step)
{
	union {
		struct template_news news;
		struct init_message message;
	} from;
	ssize_t got = recv(step->start_fd, &from, sizeof from, MSG_DONTWAIT);

	/* It has ended without reading all that we sent, which is told before what it said. */
	if (got < 0 && errno == ECONNRESET)
		got = recv(step->start_fd, &from, sizeof from, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got == sizeof from.news && from.news.is_leader) {
		step->leader = from.news.pid;
	} else if (got == sizeof from.news && !step->pid) {
		step->pid = from.news.pid;
		/* Its words are kept for the record until it has executed: find_words(). */
		for (int i = 1; i < 4; i++)
			close_fd(&step->fds[i]);
		close_fd(&step->terminal_fd);
		sense_add_step(&service->init->guard, step->leader ? step->leader : step->pid,
			       step->number);
		/* If it is gone, its end is told next. */
		if (waits(service))
			send(step->start_fd, "x", 1, MSG_NOSIGNAL);
	} else if (got == sizeof from.message) {
		fail_step(service, step, from.message.code, &from.message.error);
	} else if (!step->pid) {
		lose_step(service, step);
	} else {
		tell_started(service, step);
	}
}

/* A step's process before it executes is closed to everybody, the guard included: what it tries to
 * execute is known from its words, and by counting. */
static int find_words(void *data, pid_t pid, unsigned *ret_try)
{
	struct service *service = data;

	for (size_t i = 0; i < INIT_STEPS_MAX; i++) {
		struct step *step = &service->steps[i];

		if (step->number && step->pid == pid && step->start_fd >= 0 && step->fds[0] >= 0) {
			*ret_try = step->n_execs++;
			return step->fds[0];
		}
	}
	return -1;
}

/* All that is said of its start, before its end is told. The template may not have closed its side
 * yet, which would say that there is no more; but who has ended says nothing more. */
static void finish_start(struct service *service, struct step *step)
{
	for (int i = 0; i < 4 && step->number && step->start_fd >= 0; i++)
		serve_start(service, step);
	if (step->number && step->pid && step->start_fd >= 0)
		tell_started(service, step);
}

static void hear_leader(struct service *service, struct step *step)
{
	const struct init_message stopped = {.type = INIT_STOPPED, .step = step->number};
	struct init_message message;
	ssize_t got = recv(step->leader_fd, &message, sizeof message, MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got == sizeof message && message.type == INIT_STOPPED) {
		/* By order it is no news, and by now it may have gone on. */
		if (!step->is_held && inside_state(service->init, step->pid) == 'T')
			init_tell(service->init, &stopped);
		return;
	}
	finish_start(service, step);
	/* A leader that was killed takes the terminal with it. */
	if (got != sizeof message)
		message = (struct init_message){.wait_status = SIGHUP};
	if (step->number)
		end_step(service, step, message.wait_status, message.cpu_us, message.peak_kib);
}

static void reap(struct service *service)
{
	struct init *init = service->init;
	struct signalfd_siginfo info;
	struct rusage usage;
	int status;
	pid_t pid;

	while (read(init->signal_fd, &info, sizeof info) == sizeof info) {
		if (info.ssi_signo == SIGALRM)
			guard_tick(&init->guard);
	}
	init_check_keeper(init);
	while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
		struct step *step = service->steps;

		if (pid == service->template.pid) {
			service->template.pid = 0;
			hear_template(service); /* its last words */
			close_fd(&service->template.start_fd);
			continue;
		}
		/* It may be one that we have not read the number of. */
		for (size_t i = 0; i < INIT_STEPS_MAX; i++) {
			if (step[i].number && !step[i].pid && step[i].start_fd >= 0)
				serve_start(service, &step[i]);
		}
		while (step < service->steps + INIT_STEPS_MAX &&
		       !(step->number && step->pid == pid && step->leader_fd < 0))
			step++;
		if (step == service->steps + INIT_STEPS_MAX) {
			guard_helper_ended(&init->guard, pid);
			continue;
		}
		finish_start(service, step);
		if (step->number)
			end_step(service, step, status, init_cpu_us(&usage),
				 (uint64_t)usage.ru_maxrss);
	}
}

/* ---- everything inside ---- */

struct count {
	const struct service *service;
	int n, n_running;
};

static void count_one(const struct inside_process *process, void *data)
{
	struct count *count = data;

	count->n += !is_ours(count->service, process->pid);
	count->n_running += process->state != 'T' && process->state != 't' &&
			    process->pid != count->service->init->config->keeper &&
			    !inside_waits_for_vfork(count->service->init, process);
}

static struct count count_all(const struct service *service)
{
	struct count count = {.service = service};

	inside_each(service->init, count_one, &count);
	return count;
}

static void note_stopped(const struct inside_process *process, void *data)
{
	struct service *service = data;

	if (process->state == 'T' && service->n_stopped < STOPPED_MAX)
		service->stopped[service->n_stopped++] = process->pid;
}

static void freeze(struct service *service)
{
	service->n_stopped = 0;
	inside_each(service->init, note_stopped, service);
	init_stop_all(service->init);
	service->work = WORK_FREEZE;
	service->until_ns = clock_monotonic_ns() + FREEZE_NS;
}

struct list {
	pid_t pids[4096];
	size_t n;
};

static void list_one(const struct inside_process *process, void *data)
{
	struct list *list = data;

	if (list->n < ARRAY_SIZE(list->pids))
		list->pids[list->n++] = process->pid;
}

static bool was_stopped(const struct service *service, pid_t pid)
{
	for (size_t i = 0; i < service->n_stopped; i++) {
		if (service->stopped[i] == pid)
			return true;
	}
	return false;
}

/* The youngest first: a shell that went on before its child would see it stopped. */
static void thaw(struct service *service)
{
	static struct list list;

	list.n = 0;
	inside_each(service->init, list_one, &list);
	for (size_t i = list.n; i > 0; i--) {
		if (!was_stopped(service, list.pids[i - 1]))
			kill(list.pids[i - 1], SIGCONT);
	}
	if (list.n == ARRAY_SIZE(list.pids))
		kill(-1, SIGCONT);
}

static void kill_one(const struct inside_process *process, void *data)
{
	const struct service *service = data;

	if (process->pid != service->init->config->keeper)
		kill(process->pid, SIGKILL);
}

static void clear(struct service *service)
{
	for (size_t i = 0; i < INIT_STEPS_MAX; i++)
		service->steps[i].is_killed = !service->steps[i].is_waiting;
	end_template(service);
	/* With one call for all, so that no fork is missed. */
	init_stop_all(service->init);
	service->n_found = count_all(service).n;
	inside_each(service->init, kill_one, service);
	service->work = WORK_CLEAR;
}

static void tell_done(struct service *service, int code)
{
	const struct init_message message = {.type = INIT_DONE, .code = code};

	service->work = WORK_NONE;
	init_tell(service->init, &message);
}

/* With others alive the template has to stay: what comes after it could not signal them. */
static void rest(struct service *service)
{
	int n = count_all(service).n;

	/* With descriptors of files that may be in the workspace. */
	tell_send(&service->init->guard.tell);
	if (n == 0)
		end_template(service);
	else if (service->template.pid)
		send(service->template.start_fd, "", TEMPLATE_REST, MSG_NOSIGNAL | MSG_DONTWAIT);
	init_trim(service->init);
	service->init->rest.has_rested = true;
	tell_done(service, n);
}

/* What takes more than one look. */
static void go_on_working(struct service *service)
{
	struct count count;

	if (service->work == WORK_NONE)
		return;
	count = count_all(service);
	if (service->work == WORK_CLEAR && count.n == 0) {
		tell_done(service, service->n_found);
	} else if (service->work == WORK_CLEAR) {
		inside_each(service->init, kill_one, service);
	} else if (count.n_running == 0) {
		tell_done(service, count.n);
	} else if (clock_monotonic_ns() > service->until_ns) {
		thaw(service);
		tell_done(service, -1);
	}
}

/* ---- orders ---- */

static void signal_step(struct service *service, const struct init_order *order)
{
	struct step *step = find_step(service, order->step);

	if (!step || order->step == 0)
		return;
	/* Whoever was to prepare its terminal is gone. */
	if (step->is_waiting && (order->signal == SIGKILL || order->signal == SIGTERM)) {
		give_up(service, step);
		return;
	}
	if (!step->pid)
		return;
	switch (order->type) {
	case INIT_SIGNAL_COMMAND:
		kill(step->pid, order->signal);
		break;
	case INIT_SIGNAL_GROUP:
		if (kill(-step->pid, order->signal) < 0)
			kill(step->pid, order->signal);
		break;
	default:
		if (order->signal == SIGSTOP || order->signal == SIGCONT)
			step->is_held = order->signal == SIGSTOP;
		step->is_ending |= order->signal == SIGTERM || order->signal == SIGKILL;
		/* It may have sent its number, and not have its own session yet. */
		if (step->start_fd >= 0)
			kill(step->pid, order->signal);
		inside_signal_session(service->init, step->leader ? step->leader : step->pid,
				      step->leader, order->signal);
	}
}

static void take_order(struct service *service, const struct init_order *order)
{
	struct init *init = service->init;
	struct step *step;

	switch (order->type) {
	case INIT_GO:
		step = order->step ? find_step(service, order->step) : NULL;
		if (step)
			go_on(service, step);
		break;
	case INIT_SIGNAL_COMMAND:
	case INIT_SIGNAL_GROUP:
	case INIT_SIGNAL_ALL:
		signal_step(service, order);
		break;
	case INIT_MAKE_SOCKETS:
		if (init->config->peers)
			init_make_sockets(init, order);
		break;
	case INIT_FREEZE:
		freeze(service);
		break;
	case INIT_THAW:
		thaw(service);
		break;
	case INIT_REST:
		rest(service);
		break;
	case INIT_READY:
		/* If it fails, it does so again for the step. */
		make_template(service, &(struct atoll_error){0});
		break;
	case INIT_CLEAR:
		clear(service);
		break;
	default:
		break;
	}
}

/* One order, or the end: the supervisor is gone. */
static void serve_order(struct service *service)
{
	struct init_order order;
	int fds[8];
	size_t n = ARRAY_SIZE(fds);
	ssize_t got = fd_receive(service->init->config->control_fd, &order, sizeof order,
				 MSG_DONTWAIT, fds, &n);

	if (got == -EAGAIN)
		return;
	if (got != sizeof order)
		init_end_left();
	/* Also without the descriptors, if there was no room for them: it is told so. */
	if (order.type == INIT_EXEC && order.step) {
		begin_step(service, &order, fds, n);
		return;
	}
	if (order.type == INIT_LAYER && n == 1) {
		watch_take_layer(&service->init->watch, fds[0]);
		resolve_forget_mounts();
		return;
	}
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	take_order(service, &order);
}

/* ---- the loop ---- */

#define FDS_MAX (5 + INIT_LISTENERS_MAX + 2 * INIT_STEPS_MAX)

static size_t want(const struct service *service, struct pollfd *fds)
{
	size_t n = 0;

	fds[n++] = (struct pollfd){.fd = service->init->signal_fd, .events = POLLIN};
	fds[n++] = (struct pollfd){.fd = service->init->config->control_fd, .events = POLLIN};
	fds[n++] = (struct pollfd){.fd = service->template.start_fd, .events = POLLIN};
	for (size_t i = 0; i < service->n_listeners; i++)
		fds[n++] = (struct pollfd){.fd = service->listeners[i], .events = POLLIN};
	for (size_t i = 0; i < INIT_STEPS_MAX; i++) {
		const struct step *step = &service->steps[i];

		if (step->number && step->start_fd >= 0)
			fds[n++] = (struct pollfd){.fd = step->start_fd, .events = POLLIN};
		if (step->number && step->leader_fd >= 0)
			fds[n++] = (struct pollfd){.fd = step->leader_fd, .events = POLLIN};
	}
	return n;
}

static bool is_ready(const struct pollfd *fds, size_t n, int fd)
{
	for (size_t i = 0; i < n; i++) {
		if (fds[i].fd == fd && fds[i].revents)
			return true;
	}
	return false;
}

/* The steps' own sockets; some are mostly silent, so looking for them in a list is cheap. */
static void serve_steps(struct service *service, const struct pollfd *fds, size_t n)
{
	for (size_t i = 0; n > 0 && i < INIT_STEPS_MAX; i++) {
		struct step *step = &service->steps[i];

		if (step->number && step->start_fd >= 0 && is_ready(fds, n, step->start_fd))
			serve_start(service, step);
		if (step->number && step->leader_fd >= 0 && is_ready(fds, n, step->leader_fd))
			hear_leader(service, step);
	}
}

/* The first `n` of `fds` are of the listeners, in order. */
static void serve_listeners(struct service *service, const struct pollfd *fds, size_t n)
{
	struct guard *guard = &service->init->guard;

	for (size_t i = n; i > 0; i--) {
		const struct pollfd *at = &fds[i - 1];

		guard->listener_fd = at->fd;
		/* Each may have as much to tell as there was room for. */
		if (at->revents & POLLIN && tell_has_room(&guard->tell) && guard_serve(guard) < 0)
			init_end_broken(service->init, errno, "the guard");
		/* Nobody lives under this filter any more. */
		if (at->revents & POLLHUP && !(at->revents & POLLIN)) {
			close(at->fd);
			service->listeners[i - 1] = service->listeners[--service->n_listeners];
		}
	}
}

static int wait_ms(const struct service *service)
{
	int until = init_wait_ms(service->init);

	return service->work != WORK_NONE && until > 1 ? 1 : until;
}

/*
 * A process that the template or the guard has forked, and that has not executed anything: it runs
 * atoll's code. Nobody else can be in the template's session, as steps leave it before they
 * execute; nor in that of a terminal whose command has not sent its number yet.
 */
static bool is_own_process(const void *data, pid_t pid, pid_t session)
{
	const struct service *service = data;

	if (guard_has_helper(&service->init->guard, pid) ||
	    (session > 0 && session == service->template.pid))
		return true;
	for (size_t i = 0; i < INIT_STEPS_MAX; i++) {
		const struct step *step = &service->steps[i];

		if (step->number && (step->pid == pid || step->leader == pid ||
				     (!step->pid && step->leader && step->leader == session)))
			return true;
	}
	return false;
}

/* Read the numbers of steps' processes that have been sent meanwhile, for is_own_process(). */
static void prepare_look(struct service *service)
{
	bool has_steps = false;

	for (size_t i = 0; i < INIT_STEPS_MAX; i++) {
		struct step *step = &service->steps[i];

		for (int news = 0; news < 2 && step->number && !step->pid && step->start_fd >= 0;
		     news++)
			serve_start(service, step);
		has_steps |= step->number != 0;
	}
	service->init->watch.has_steps = has_steps;
}

/* On a busy machine the last step has often ended by the time that we run, and then a look can wait
 * (watch_leave()). */
static void look_at_limits(struct service *service, int64_t now_ns, struct pollfd *signals)
{
	if (now_ns < service->init->watch.next_ns)
		return;
	if (signals->revents) {
		reap(service);
		signals->revents = 0;
	}
	if (now_ns < service->init->watch.next_ns)
		return;
	prepare_look(service);
	init_check_limits(service->init);
	if (service->init->rest.has_rested)
		program_trim_stack();
}

static _Noreturn void loop(struct service *service)
{
	static struct pollfd fds[FDS_MAX];
	struct tell *tell = &service->init->guard.tell;

	for (;;) {
		/* Whoever asks waits until it can be recorded. */
		const bool has_room = tell_has_room(tell);
		size_t n_listeners = service->n_listeners, n = want(service, fds);
		int64_t now_ns;
		int ready;

		for (size_t i = 0; i < n_listeners && !has_room; i++)
			fds[3 + i].fd = -1 - fds[3 + i].fd;
		fds[n] = (struct pollfd){.fd = tell->is_stuck ? tell->fd : -1, .events = POLLOUT};
		fds[n + 1] =
			(struct pollfd){.fd = service->init->guard.pointers_fd, .events = POLLIN};
		ready = poll(fds, n + 2, wait_ms(service));

		if (ready < 0 && errno != EINTR)
			init_end_broken(service->init, errno, "poll");
		now_ns = clock_monotonic_ns();
		look_at_limits(service, now_ns, &fds[0]);
		init_tell_notices(service->init, now_ns, fds[n].revents);
		if (ready > 0) {
			if (has_room)
				serve_listeners(service, fds + 3, n_listeners);
			if (fds[n + 1].revents)
				guard_serve_pointers(&service->init->guard);
			serve_steps(service, fds + 3 + n_listeners, n - 3 - n_listeners);
			if (fds[2].fd >= 0 && fds[2].revents)
				hear_template(service);
			if (fds[1].revents)
				serve_order(service);
			if (fds[0].revents)
				reap(service);
		}
		go_on_working(service);
	}
}

void service_main(struct init *init, const struct init_command *template)
{
	struct service *service = &the_service;

	service->init = init;
	service->template = *template;
	if (guard_init(&init->guard, init->config, -1) < 0)
		init_end_broken(init, errno, "start the guard");
	init->guard.watch = &init->watch;
	init->guard.find_words = find_words;
	init->guard.words_data = service;
	watch_init(&init->watch, init->config);
	watch_rest(&init->watch);
	init->watch.n_own = init->config->keeper ? 2 : 1; /* the template */
	init->watch.steps = &service->template.pid;
	init->watch.is_own = is_own_process;
	init->watch.own_data = service;
	use_template(service);
	init_lock(init);
	loop(service);
}
