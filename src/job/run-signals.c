/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "job/run.h"
#include "spec/spec.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Signals and the terminal of the caller
 *
 * run.c calls run_read_signals() when the caller's signalfd is readable. SIGINT, SIGTERM, SIGHUP
 * and SIGQUIT go to the command's process group, and a second one kills; SIGTSTP suspends
 * everything; others are passed on to the command.
 */

/* ---- orders to pid 1 ---- */

void run_order(struct run *run, enum init_order_type type, int number)
{
	const struct init_order order = {.type = type, .signal = number};

	send(run->handle.control_fd, &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void begin_grace(struct run *run)
{
	/* A stopped process handles no other signal before SIGCONT. */
	run_order(run, INIT_SIGNAL_ALL, SIGCONT);
	if (run->kill_ns == INT64_MAX)
		run->kill_ns = clock_monotonic_ns() +
			       (int64_t)run->spec->limits[SPEC_GRACE].value * 1000000;
}

void run_time_out(struct run *run)
{
	run_end_by_limit(run, ATOLL_TIMED_OUT, "wall", run->spec->limits[SPEC_WALL].value,
			 (uint64_t)(clock_monotonic_ns() - run->start_ns) / 1000000);
	run->is_done = false;
	run_order(run, INIT_SIGNAL_ALL, SIGTERM);
	begin_grace(run);
}

void run_kill(struct run *run)
{
	if (!run->has_ended) {
		run->result->end = ATOLL_SIGNALED;
		run->result->code = run->result->interrupted_by;
		run->has_ended = true;
	}
	run->is_done = true;
}

static void ask_to_end(struct run *run, int number)
{
	/* While the event log cannot be written everything inside is stopped: kill at once. */
	if (run->is_stuck && !run->result->interrupted_by)
		run->result->interrupted_by = number;
	if (run->result->interrupted_by && (number == SIGINT || number == SIGTERM)) {
		run_kill(run);
		return;
	}
	if (!run->result->interrupted_by)
		run->result->interrupted_by = number;
	run_order(run, INIT_SIGNAL_GROUP, number);
	begin_grace(run);
}

/* ---- the caller's signals and terminal ---- */

void run_check_terminal(struct run *run)
{
	const struct stream *input = &run->relay->streams[RELAY_IN];

	/* Raw mode only once signals are passed on: a signal that ended the supervisor before would
	 * leave the terminal raw. */
	if (run->has_started && !run->is_stuck && !run->is_paused)
		terminal_enter(&run->terminal);
	/* Output waits until then, too: its lines end in CR LF, which needs raw mode, and a reader
	 * of the first line may send a signal, which has to reach the command. */
	run->relay->is_held = !run->has_started || run->is_stuck || run->is_paused;
	run->relay->is_input_held =
		input->from >= 0 && isatty(input->from) && !terminal_is_foreground(input->from);
}

static void resize(struct run *run)
{
	if (run->relay->has_terminal && run->relay->streams[RELAY_OUT].from >= 0)
		terminal_resize(&run->terminal, run->relay->streams[RELAY_OUT].from);
	else
		run_order(run, INIT_SIGNAL_COMMAND, SIGWINCH);
}

void run_suspend(struct run *run, bool by_command)
{
	if (run->options->suspend) {
		run_order(run, INIT_SIGNAL_ALL, SIGSTOP);
		terminal_leave(&run->terminal, relay_reports(run->relay));
		run->options->suspend(by_command, run->options->data);
		run_check_terminal(run);
		resize(run);
	}
	if (!run->is_paused)
		run_order(run, INIT_SIGNAL_ALL, SIGCONT);
}

static void handle_signal(struct run *run, int number)
{
	switch (number) {
	case SIGINT:
	case SIGTERM:
	case SIGHUP:
	case SIGQUIT:
		ask_to_end(run, number);
		break;
	case SIGTSTP:
		run_suspend(run, false);
		break;
	case SIGCONT:
		run_watch_resume(run, "SIGCONT");
		run_check_terminal(run);
		resize(run);
		break;
	case SIGWINCH:
		resize(run);
		break;
	default:
		run_order(run, INIT_SIGNAL_COMMAND, number);
	}
}

void run_read_signals(struct run *run)
{
	struct signalfd_siginfo info;
	struct pollfd more = {.fd = run->options->signal_fd, .events = POLLIN};

	/* The caller's descriptor may be blocking. */
	while (poll(&more, 1, 0) > 0 && read(more.fd, &info, sizeof info) == sizeof info)
		handle_signal(run, (int)info.ssi_signo);
}
