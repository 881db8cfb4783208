/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/interact.h"

#include "ui/print.h"

#include "base/scope.h"

#include <atoll/atoll.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <termios.h>

/* Progress is printed if the set-up of a sandbox takes longer than this. */
#define PATIENCE_MS 1000

static const int passed_on[] = {SIGINT,	 SIGTERM, SIGHUP,  SIGQUIT, SIGTSTP,
				SIGCONT, SIGUSR1, SIGUSR2, SIGWINCH};

/* State for signal handlers and the progress thread. */
static struct {
	sigset_t set; /* the signals that are passed on */
	const char *step;
	int end_fd; /* wakes the progress thread to end it; -1 if there is none */
	pthread_t progress_thread;
	bool has_terminal;
	struct termios before; /* the settings of standard input, if it is a terminal */
} state = {.step = "", .end_fd = -1};

static void choose_signals(void)
{
	struct sigaction action;

	sigemptyset(&state.set);
	for (size_t i = 0; i < ARRAY_SIZE(passed_on); i++) {
		if (sigaction(passed_on[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&state.set, passed_on[i]);
	}
}

/* ---- progress ---- */

static void write_text(const char *text)
{
	ssize_t done = write(STDERR_FILENO, text, strlen(text));

	(void)done; /* nobody to tell */
}

/* A thread of its own: opening a grant on a dead network mount blocks the main thread in the
 * kernel, where no signal handler runs. */
static void *print_progress(void *unused)
{
	struct pollfd end = {.fd = state.end_fd, .events = POLLIN};
	const char *shown = NULL;
	int wait_ms = PATIENCE_MS;

	while (poll(&end, 1, wait_ms) == 0) {
		const char *step = __atomic_load_n(&state.step, __ATOMIC_ACQUIRE);

		wait_ms = PATIENCE_MS / 4;
		if (step == shown)
			continue;
		shown = step;
		write_text("\ratoll: setting up (");
		write_text(step);
		write_text(") ...\033[K");
	}
	if (shown)
		write_text("\r\033[K");
	return unused;
}

static void on_progress(const char *what, void *data)
{
	(void)data;
	__atomic_store_n(&state.step, what, __ATOMIC_RELEASE);
}

static void begin_progress(void)
{
	sigset_t all, old;

	state.end_fd = eventfd(0, EFD_CLOEXEC);
	if (state.end_fd < 0)
		return;
	/* Block all signals in the thread: the main thread handles them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&state.progress_thread, NULL, print_progress, NULL) != 0)
		close(take_fd(&state.end_fd));
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void end_progress(void)
{
	if (state.end_fd < 0)
		return;
	eventfd_write(state.end_fd, 1);
	pthread_join(state.progress_thread, NULL);
	close(take_fd(&state.end_fd));
}

/* ---- while the command runs ---- */

static void on_crash(int number)
{
	tcsetattr(STDIN_FILENO, TCSANOW, &state.before);
	raise(number);
}

/* The library restores the terminal at the end of a run. After a crash of this process only a
 * signal handler can do that. */
static void guard_terminal(void)
{
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
	const struct sigaction action = {.sa_handler = on_crash,
					 .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};

	for (size_t i = 0; state.has_terminal && i < ARRAY_SIZE(crashes); i++)
		sigaction(crashes[i], &action, NULL);
}

static void on_started(int32_t pid, void *data)
{
	(void)pid;
	(void)data;
	sigprocmask(SIG_BLOCK, &state.set, NULL);
	end_progress();
	guard_terminal();
}

static void on_suspend(bool by_command, void *data)
{
	sigset_t stop;

	(void)data;
	if (!by_command) {
		raise(SIGSTOP);
		return;
	}
	/* Stop the whole process group, as Ctrl-Z would. In an orphaned process group the kernel
	 * ignores SIGTSTP, and the command goes on at once. */
	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	kill(0, SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, NULL);
	sigprocmask(SIG_BLOCK, &stop, NULL);
}

/* Printed even with --quiet: otherwise the run would stop without a reason. */
static void on_stuck(const char *why, void *data)
{
	(void)data;
	if (!why) {
		fputs("atoll: the event log can be written again; the run goes on\n", stderr);
		return;
	}
	fputs("atoll: everything inside is stopped, because the event log cannot be written (",
	      stderr);
	print_escaped(stderr, why);
	fputs("); free disk space within 30 s, or the run is killed; Ctrl-C kills it now\n",
	      stderr);
}

static void on_paused(const char *why, uint64_t wait_ms, void *data)
{
	(void)data;
	if (!why) {
		fputs("atoll: the run goes on\n", stderr);
		return;
	}
	fputs("atoll: everything inside is stopped: ", stderr);
	print_escaped(stderr, why);
	fprintf(stderr, "; to continue: kill -CONT %d; otherwise the run is killed in %llu s\n",
		(int)getpid(), (unsigned long long)wait_ms / 1000);
}

void interact_begin(struct atoll_run_options *options)
{
	choose_signals();
	/* The caller may have blocked these signals, or ignored SIGCHLD. */
	sigprocmask(SIG_UNBLOCK, &state.set, NULL);
	signal(SIGCHLD, SIG_DFL);
	options->signal_fd = signalfd(-1, &state.set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (options->signal_fd < 0)
		options->signal_fd = 0;
	else
		options->started = on_started;
	options->suspend = on_suspend;
	options->stuck = on_stuck;
	options->paused = on_paused;
	if (isatty(STDERR_FILENO)) {
		options->progress = on_progress;
		begin_progress();
	}
	state.has_terminal =
		options->tty != ATOLL_TTY_NEVER && tcgetattr(STDIN_FILENO, &state.before) == 0;
}

void interact_end(void)
{
	end_progress();
	/* A closed pipe must not change the exit status. */
	signal(SIGPIPE, SIG_IGN);
}

void interact_die(const struct atoll_result *result)
{
	const struct rlimit none = {0};
	sigset_t one;

	if (!result->interrupted_by || result->end != ATOLL_SIGNALED ||
	    result->code != result->interrupted_by)
		return;
	fflush(NULL);
	setrlimit(RLIMIT_CORE, &none); /* no core file: this process did not crash */
	signal(result->interrupted_by, SIG_DFL);
	raise(result->interrupted_by);
	sigemptyset(&one);
	sigaddset(&one, result->interrupted_by);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
}
