/* SPDX-License-Identifier: Apache-2.0 */
#include "job/run.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"
#include "base/str.h"
#include "job/job.h"
#include "job/run-messages.h"
#include "layer/layer.h"
#include "spec/spec.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/*
 * One run: prepare, start, supervise, report
 *
 * atoll_job_run() is the public entry. Order: job_finish() makes the contract; run_start() reads
 * secrets and starts the network control; run_on() prepares a sandbox with one back end; run_cell()
 * starts the command, supervise() is the loop until its end, finish() ends everything inside; then
 * layer, network and event log are closed. sandbox/exec.c uses run_cell() for a step.
 */

/* How long a reader of the output may take for its last bytes after the command has ended. */
#define DRAIN_NS (10 * 1000000000LL)

/* How often a supervisor in the background of a terminal checks whether it is in the foreground. */
#define FOREGROUND_MS 250

/* How often the back end's counters are read. A run may go on for so long after the kernel has
 * killed one of its processes because memory ran out. */
#define COUNT_MS 500

void run_end_by_limit(struct run *run, enum atoll_end end, const char *limit, uint64_t value,
		      uint64_t used)
{
	run->result->end = end;
	snprintf(run->result->limit, sizeof run->result->limit, "%s", limit);
	run->result->limit_value = value;
	run->result->limit_used = used;
	run->has_ended = run->is_done = true;
}

/* Output was cut off: the result says so, even if the command has ended by itself meanwhile. */
static void end_by_output(struct run *run)
{
	const enum atoll_end end = run->result->end;

	if (!run->has_ended || end == ATOLL_EXITED || end == ATOLL_SIGNALED)
		run_end_by_limit(run, ATOLL_OVER_LIMIT, "output", run->relay->output_limit,
				 run->relay->output_bytes);
}

/* For netctl: the process that connected from a port. */
static int32_t find_process(void *data, uint16_t local_port, char ret_program[16])
{
	const struct run *run = data;

	return run->backend->find_process
		       ? run->backend->find_process(run->cell, local_port, ret_program)
		       : 0;
}

/* For netctl: sockets of the sandbox, for connections to published ports. */
static void order_sockets(void *data, uint32_t count)
{
	const struct run *run = data;
	/* An IPv6 socket also reaches a server that listens on IPv4. */
	const struct init_order order = {.type = INIT_MAKE_SOCKETS,
					 .family = AF_INET6,
					 .count = count < INIT_SOCKETS_MAX ? count
									   : INIT_SOCKETS_MAX};

	send(run->handle.control_fd, &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Does a limit need the back end's counters? */
static bool is_counted(const struct run *run)
{
	return run->spec->limits[SPEC_MEMORY].value != SPEC_UNLIMITED ||
	       run->spec->limits[SPEC_CPU_TIME].value != SPEC_UNLIMITED;
}

static int wait_ms(const struct run *run)
{
	int64_t most = is_counted(run) ? COUNT_MS : 3600 * 1000;
	int64_t left, until;

	if (run_layer_wait_ms(run) < most)
		most = run_layer_wait_ms(run);
	until = run->has_ended || run->is_stuck || run->is_paused ? INT64_MAX : run->deadline_ns;
	if (run_watch_deadline_ns(run) < until)
		until = run_watch_deadline_ns(run);
	if (run->kill_ns < until)
		until = run->kill_ns;
	if (netctl_deadline_ns(&run->net) < until)
		until = netctl_deadline_ns(&run->net);
	if (eventlog_deadline_ns(run->recorder) < until)
		until = eventlog_deadline_ns(run->recorder);
	if (run_eventlog_deadline_ns(run) < until)
		until = run_eventlog_deadline_ns(run);
	if (run->rest.due_ns < until)
		until = run->rest.due_ns;
	if (run->relay->is_input_held && most > FOREGROUND_MS)
		most = FOREGROUND_MS;
	if (until == INT64_MAX)
		return (int)most;
	left = until - clock_monotonic_ns();
	if (left <= 0)
		return 0;
	return left > most * 1000000 ? (int)most : (int)((left + 999999) / 1000000);
}

/* The memory limit of cgroup v1 kills the largest process and lets the others go on, while the
 * limit is for all. cgroup v2 counts CPU time that pid 1 does not see. */
static void check_counters(struct run *run)
{
	const struct spec_limit *limits = run->spec->limits;
	uint64_t now_ns = (uint64_t)clock_monotonic_ns();
	struct cell_usage usage;

	if (!is_counted(run) || now_ns - run->counted_ns < COUNT_MS * 1000000ULL)
		return;
	run->counted_ns = now_ns;
	run->backend->account(run->cell, &usage);
	if (usage.is_out_of_memory)
		run_end_by_limit(run, ATOLL_OUT_OF_MEMORY, "memory", limits[SPEC_MEMORY].value,
				 usage.memory_peak);
	else if (usage.cpu_ms > limits[SPEC_CPU_TIME].value)
		run_end_by_limit(run, ATOLL_OVER_LIMIT, "cpu", limits[SPEC_CPU_TIME].value,
				 usage.cpu_ms);
}

static void free_idle_memory(struct run *run, bool is_at_work)
{
	if (!rest_is_due(&run->rest, clock_monotonic_ns(), is_at_work))
		return;
	eventlog_idle(run->recorder);
	notices_idle(&run->notices);
	relay_idle(run->relay);
	program_trim_own();
}

static void supervise(struct run *run)
{
	bool has_control = true, has_notices = run->notices.fd >= 0;
	int n;

	run_check_terminal(run);
	free_idle_memory(run, true);
	while (!run->is_done) {
		struct pollfd fds[4 + 2 * RELAY_COUNT + NETCTL_WATCHED + EVENTLOG_WATCHED] = {
			{.fd = run->handle.pid_fd, .events = POLLIN},
			{.fd = has_control ? run->handle.control_fd : -1, .events = POLLIN},
			{.fd = run->options->signal_fd > 0 ? run->options->signal_fd : -1,
			 .events = POLLIN},
			{.fd = has_notices && !run->is_stuck && !watching_should_pause(run->watch)
				       ? run->notices.fd
				       : -1,
			 .events = POLLIN},
		};

		if (run->relay->is_input_held)
			run_check_terminal(run);
		relay_want(run->relay, fds + 4);
		netctl_want(&run->net, fds + 4 + 2 * RELAY_COUNT);
		eventlog_want(run->recorder, fds + 4 + 2 * RELAY_COUNT + NETCTL_WATCHED);
		n = poll(fds, ARRAY_SIZE(fds), wait_ms(run));
		if (n < 0 && errno != EINTR)
			return;
		if (n == 0)
			run_layer_idle(run);
		free_idle_memory(run, n > 0);
		if (fds[1].fd >= 0 && fds[1].revents)
			has_control = run_read_messages(run);
		if (fds[2].fd >= 0 && fds[2].revents)
			run_read_signals(run);
		if (fds[3].fd >= 0 && fds[3].revents)
			has_notices = notices_read(&run->notices);
		if (!relay_move(run->relay, fds + 4))
			end_by_output(run);
		netctl_move(&run->net, fds + 4 + 2 * RELAY_COUNT);
		run_ask(run);
		eventlog_move(run->recorder, fds + 4 + 2 * RELAY_COUNT + NETCTL_WATCHED);
		run_watch_check(run);
		run_eventlog_check(run);
		if (!run->has_ended && !run->is_stuck && !run->is_paused &&
		    clock_monotonic_ns() >= run->deadline_ns)
			run_time_out(run);
		if (!run->is_done && clock_monotonic_ns() >= run->kill_ns)
			run_kill(run);
		if (!run->has_ended)
			check_counters(run);
		if (fds[0].revents) {
			run_read_messages(run);
			return;
		}
	}
}

static void fill_usage(struct run *run, const struct cell_usage *usage)
{
	static const enum spec_limit_id ids[ATOLL_RESOURCE_COUNT] = {
		[ATOLL_WALL] = SPEC_WALL,     [ATOLL_CPU] = SPEC_CPU_TIME,
		[ATOLL_MEMORY] = SPEC_MEMORY, [ATOLL_PROCESSES] = SPEC_PIDS,
		[ATOLL_DISK] = SPEC_DISK,     [ATOLL_FILES] = SPEC_FILES,
		[ATOLL_OUTPUT] = SPEC_OUTPUT,
	};
	struct atoll_result *result = run->result;
	const uint64_t used[ATOLL_RESOURCE_COUNT] = {
		[ATOLL_WALL] = result->wall_ns / 1000000,
		[ATOLL_CPU] = result->cpu_ns / 1000000,
		[ATOLL_MEMORY] = result->peak_memory,
		/* At least the command, also if it ended before the first count. */
		[ATOLL_PROCESSES] = usage->processes_peak ? usage->processes_peak : 1,
		[ATOLL_DISK] = usage->written,
		[ATOLL_FILES] = usage->files,
		[ATOLL_OUTPUT] = result->output_bytes,
	};

	for (int i = 0; i < ATOLL_RESOURCE_COUNT; i++)
		result->usage[i] = (struct atoll_usage){used[i], run->spec->limits[ids[i]].value};
}

/* Copy the remaining output, until a signal asks to end or DRAIN_NS has passed. */
static void drain(struct run *run)
{
	int64_t until_ns = clock_monotonic_ns() + DRAIN_NS;
	int stop_fd = run->options->signal_fd > 0 ? run->options->signal_fd : -1;
	bool is_mid_line, drops_input;

	run->relay->is_held = false;
	run->relay->has_others = run->is_step;
	while (!relay_drain(run->relay, until_ns, stop_fd)) {
		struct signalfd_siginfo info;

		if (read(stop_fd, &info, sizeof info) != sizeof info || info.ssi_signo == SIGINT ||
		    info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP ||
		    info.ssi_signo == SIGQUIT)
			break;
	}
	drops_input = relay_reports(run->relay);
	is_mid_line = relay_reset(run->relay);
	run->result->is_mid_line = is_mid_line;
	terminal_leave(&run->terminal, drops_input);
}

/* Wait for the end of pid 1, and with it of everything inside. */
static void wait_end(struct run *run)
{
	struct rusage usage = {0};

	if (run->handle.pid_fd < 0)
		return;
	/* If the caller ignores SIGCHLD the kernel reaps pid 1: then there is no usage. */
	while (syscall(SYS_waitid, P_PIDFD, run->handle.pid_fd, NULL, WEXITED, &usage) < 0 &&
	       errno == EINTR)
		;
	close(take_fd(&run->handle.pid_fd));
	if (run->is_alone)
		return;
	run->cpu_us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
		      (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
	run->peak_kib = (uint64_t)usage.ru_maxrss;
}

/* End everything inside. If only pid 1 is left, it ends while the event log is closed: end_early()
 * calls wait_end() then. */
static void finish(struct run *run)
{
	struct atoll_result *result = run->result;
	struct cell_usage counted;

	run->backend->stop(run->cell, &run->handle);
	if (!run->is_alone) {
		eventlog_prepare_seal(run->recorder); /* while the kernel takes everything apart */
		wait_end(run);
	}
	run_read_messages(run);
	notices_finish(&run->notices);
	result->wall_ns = (uint64_t)(clock_monotonic_ns() - run->start_ns);
	result->cpu_ns = run->cpu_us * 1000;
	netctl_stop(&run->net);
	run->backend->account(run->cell, &counted);
	if (counted.cpu_ms * 1000000 > result->cpu_ns)
		result->cpu_ns = counted.cpu_ms * 1000000;
	result->peak_memory = counted.memory_peak ? counted.memory_peak : run->peak_kib * 1024;
	if (counted.is_out_of_memory && result->end != ATOLL_TIMED_OUT)
		run_end_by_limit(run, ATOLL_OUT_OF_MEMORY, "memory",
				 run->spec->limits[SPEC_MEMORY].value, counted.memory_peak);
	drain(run);
	if (run->relay->is_over)
		end_by_output(run);
	result->output_bytes = run->relay->output_bytes;
	fill_usage(run, &counted);
	close(run->handle.control_fd);
	if (run->handle.notice_fd >= 0)
		close(run->handle.notice_fd);
}

static void report_progress(const struct run *run, const char *what)
{
	if (run->options->progress)
		run->options->progress(what, run->options->data);
}

/* Standard input and output are both a terminal or both pipes; standard error is the same terminal
 * if the caller's is one. With ATOLL_TTY_AUTO a back end without terminals uses pipes. */
int run_choose_terminal(struct run *run, struct atoll_error *err)
{
	const struct atoll_run_options *options = run->options;
	bool is_wanted = options->tty == ATOLL_TTY_ALWAYS ||
			 (options->tty == ATOLL_TTY_AUTO && isatty(options->stdin_fd) &&
			  isatty(options->stdout_fd));

	if (options->tty == ATOLL_TTY_ALWAYS && !run->backend->has_terminals)
		return error_set(
			err, ATOLL_FAULT_HOST, 0,
			"a terminal of the command's own needs user namespaces with mounts, and "
			"this host %s (see `atoll doctor`)",
			isolate_lack());
	is_wanted = is_wanted && run->backend->has_terminals;
	run->is_terminal[0] = run->is_terminal[1] = is_wanted;
	run->is_terminal[2] = is_wanted && isatty(options->stderr_fd);
	return 0;
}

/* The first message brings the master of the command's terminal. Size and modes are set before the
 * command starts. */
static int receive_terminal(struct run *run, struct atoll_error *err)
{
	struct init_message message = {0};
	cleanup_fd int master = -1;
	size_t n = 1;
	int r;

	r = (int)fd_receive(run->handle.control_fd, &message, sizeof message, 0, &master, &n);
	if (r == sizeof message && message.type == INIT_FAILED) {
		*err = message.error;
		return message.error.errnum ? -message.error.errnum : -EIO;
	}
	if (r != sizeof message || message.type != INIT_TERMINAL || master < 0)
		return error_set(err, ATOLL_FAULT_BUG, r < 0 ? -r : 0,
				 "the sandbox's terminal did not arrive");
	terminal_prepare(&run->terminal, master);
	r = relay_attach(run->relay, master, err);
	if (r == 0)
		run_order(run, INIT_GO, 0);
	return r;
}

/* The back end calls this while pid 1 builds the sandbox: the command does not start before the
 * event log has begun. */
static int begin_eventlog(void *data, struct atoll_error *err)
{
	return run_eventlog_begin(data, err);
}

static int start(struct run *run, struct atoll_error *err)
{
	const int caller[3] = {run->options->stdin_fd, run->options->stdout_fd,
			       run->options->stderr_fd};
	uint64_t wall_ms = run->spec->limits[SPEC_WALL].value;
	int child[3], r;

	run->terminal.fd = -1;
	run->kill_ns = INT64_MAX;
	r = relay_open(run->relay, caller, run->is_terminal, run->spec->limits[SPEC_OUTPUT].value,
		       child, err);
	run->relay->output = &run->output;
	run->start_ns = clock_monotonic_ns();
	run->counted_ns = (uint64_t)run->start_ns;
	run->deadline_ns =
		wall_ms == SPEC_UNLIMITED ? INT64_MAX : run->start_ns + (int64_t)wall_ms * 1000000;
	report_progress(run, "building the sandbox");
	if (r == 0)
		r = run->backend->start(run->cell, child, &run->handle, err);
	if (r == 0)
		run_layer_started(run);
	else
		run->handle.layer_fd = run->handle.storage_fd = run->handle.notice_fd = -1;
	notices_init(&run->notices, &run->handle, run_handle_notice, run);
	run->notices.spec = run->spec;
	for (int i = 0; i < 3; i++) {
		if (child[i] >= 0)
			close(child[i]);
	}
	if (r == 0)
		netctl_attach(&run->net, run->handle.listener_fd, run->handle.dns_fd);
	if (r == 0 && run->relay->has_terminal) {
		terminal_init(&run->terminal, caller);
		r = receive_terminal(run, err);
		if (r < 0)
			finish(run);
	}
	return r;
}

int run_cell(struct run *run, struct atoll_error *err)
{
	int r = start(run, err);

	run->is_started = r == 0;
	if (r == 0) {
		eventlog_prepare_next(run->recorder);
		supervise(run);
		finish(run);
	}
	if (r < 0)
		return r;
	if (run->has_failed) {
		*err = run->failure;
		return run->failure.errnum ? -run->failure.errnum : -EIO;
	}
	if (run->result->end == ATOLL_NOT_STARTED)
		*err = run->failure; /* the reason, for the caller's message */
	if (!run->has_ended)
		return error_set(
			err, ATOLL_FAULT_HOST, 0,
			"the sandbox was killed from outside, and everything in it is gone");
	return 0;
}

/* A closed pipe must not end the supervisor by SIGPIPE. The signal is blocked in this thread, not
 * ignored for the whole program, which may be somebody else's. */
void run_block_sigpipe(sigset_t *ret_old)
{
	sigset_t pipe_only;

	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_only, ret_old);
}

void run_restore_sigpipe(const sigset_t *old)
{
	const struct timespec now = {0};
	sigset_t pipe_only;

	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	if (!sigismember(old, SIGPIPE))
		sigtimedwait(&pipe_only, NULL, &now);
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

static int prepare(struct run *run, char ***ret_env, struct atoll_error *err)
{
	struct env_extra extra = {.has_terminal = run->is_terminal[0]};
	int r;

	if (run->net.state != NETCTL_OFF)
		report_progress(run, "starting the network");
	r = netctl_open(&run->net, run->backend == isolate_backends[0], err);
	if (r < 0) {
		run->has_net_failed = true;
		return r;
	}
	extra.secrets = &run->net.secrets;
	extra.token = run->net.token;
	extra.proxy_port = run->net.extra.proxy_port;
	*ret_env = env_build(run->spec, &extra, err);
	if (!*ret_env)
		return -ENOMEM;
	r = run_layer_open(run, err);
	if (r < 0)
		return r;
	run->env = *ret_env;
	run->net.extra.meanwhile = begin_eventlog;
	run->net.extra.meanwhile_data = run;
	report_progress(run, "looking at the granted places");
	return run->backend->prepare(run->spec, *ret_env, &run->net.extra, NULL, &run->cell, err);
}

/* If only pid 1 is left, the event log is written while the kernel removes its namespaces. */
static void end_early(struct run *run, int r, const struct atoll_error *err)
{
	if (!run->is_started || !run->is_alone)
		return;
	run_layer_read(run);
	run_eventlog_end(run, r, err);
	wait_end(run);
}

static int run_on(struct run *run, const struct backend *backend, struct atoll_error *err)
{
	char **env = NULL;
	int r;

	run->backend = backend;
	r = run_choose_terminal(run, err);
	if (r == 0)
		r = prepare(run, &env, err);
	if (r == 0) {
		r = run_cell(run, err);
		end_early(run, r, err);
		relay_close(run->relay);
	}
	backend->release(run->cell);
	run->cell = NULL;
	env_free(env);
	return r;
}

/* Try namespaces without a probe, which would cost more than the try. If the host grants none, use
 * the other back end. If egress has to start before the sandbox, probe first: egress depends on it.
 */
static int run_somewhere(struct run *run, struct atoll_error *err)
{
	const struct backend *first = isolate_backends[0], *other;
	int r;

	if (netctl_starts_first(&run->net))
		first = isolate_choose(NULL);
	r = run_on(run, first, err);
	if (r == 0 || run->is_started || run->has_net_failed || err->fault != ATOLL_FAULT_HOST)
		return r;
	other = isolate_choose(NULL);
	if (other == run->backend)
		return r;
	*err = (struct atoll_error){0};
	return run_on(run, other, err);
}

static int run_start(struct atoll_job *job, struct run *run, struct atoll_error *err)
{
	sigset_t old;
	int r;

	/* The array of denials is large and last in the struct: its used entries are filled in
	 * later. */
	memset(run->result, 0, offsetof(struct atoll_result, denials));
	run->spec = job->spec;
	run->recipe = &job->recipe;
	run->relay = malloc(sizeof *run->relay);
	run_block_sigpipe(&old);
	r = netctl_init(&run->net, run->spec, run->options, run->result, err);
	run->net.find_process = find_process;
	run->net.order_sockets = order_sockets;
	run->net.connected = run_eventlog_connection;
	run->net.answered = run_eventlog_answer;
	run->net.data = run;
	if (r == 0)
		r = run->relay ? run_somewhere(run, err) : error_oom(err);
	run_layer_close(run);
	netctl_done(&run->net);
	run_eventlog_end(run, r, err);
	run_restore_sigpipe(&old);
	free(run->relay);
	return r;
}

int atoll_job_run(struct atoll_job *job, const struct atoll_run_options *options,
		  struct atoll_result *ret, struct atoll_error *err)
{
	static const struct atoll_run_options own = {.stdin_fd = 0, .stdout_fd = 1, .stderr_fd = 2};
	struct run run = {.options = options ? options : &own,
			  .result = ret,
			  .handle = {.layer_fd = -1, .storage_fd = -1, .notice_fd = -1}};
	struct atoll_error unused;
	int r;

	err = err ? err : &unused;
	*err = (struct atoll_error){0};
	/* The next step resolves links in grants, and a file system may not answer. */
	report_progress(&run, "looking at the granted places");
	r = job_finish(job, err);
	if (r == 0 && run.options->for_receipt && job->spec->record == SPEC_RECORD_OFF)
		r = error_set(err, ATOLL_FAULT_REQUEST, 0,
			      "a receipt is made from the record, which this contract switches "
			      "off (record: off)");
	if (r == 0)
		r = layer_places_note(job->spec, err);
	if (r == 0)
		r = run_start(job, &run, err);
	/* The kernel's error does not show that the outer sandbox's filter caused it. */
	if (r < 0 && err->fault == ATOLL_FAULT_HOST && getenv("ATOLL_SANDBOX"))
		return error_context(err, r, "there is no sandbox inside an atoll sandbox");
	return r;
}
