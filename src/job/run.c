/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "init/init.h"
#include "isolate/isolate.h"
#include "job/job.h"
#include "job/relay.h"
#include "spec/spec.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* How long a reader of ours may take to read the rest after the command has ended. */
#define DRAIN_NS (10 * 1000000000LL)

/* How often the back end's counters are read: so long may a run go on after the kernel has killed
 * one of its processes for want of memory. */
#define COUNT_MS 500

struct run {
	const struct spec *spec;
	struct cell *cell;
	struct cell_handle handle;
	struct relay *relay;
	const struct atoll_run_options *options;
	struct atoll_result *result;
	struct atoll_error failure; /* told by the first process */
	bool has_failed;
	bool has_ended; /* `result` says how */
	int64_t start_ns, deadline_ns;
	uint64_t counted_ns;
};

static void take_denial(struct run *run, const struct atoll_denial *denial)
{
	struct atoll_result *result = run->result;
	uint32_t kept =
		result->n_denials < ATOLL_DENIALS_MAX ? result->n_denials : ATOLL_DENIALS_MAX;
	struct atoll_denial *last = kept ? &result->denials[kept - 1] : NULL;

	/* A program that insists is one line with a count. */
	if (last && streq(last->path, denial->path) && streq(last->action, denial->action) &&
	    streq(last->rule, denial->rule)) {
		last->count++;
		return;
	}
	if (kept < ATOLL_DENIALS_MAX)
		result->denials[kept] = *denial;
	result->n_denials++;
}

static void end_by_limit(struct run *run, enum atoll_end end, const char *limit, uint64_t value,
			 uint64_t used)
{
	run->result->end = end;
	snprintf(run->result->limit, sizeof run->result->limit, "%s", limit);
	run->result->limit_value = value;
	run->result->limit_used = used;
	run->has_ended = true;
}

/* What was cut off is told, also if the command ended by itself meanwhile. */
static void end_by_output(struct run *run)
{
	const enum atoll_end end = run->result->end;

	if (!run->has_ended || end == ATOLL_EXITED || end == ATOLL_SIGNALED)
		end_by_limit(run, ATOLL_OVER_LIMIT, "output", run->relay->output_limit,
			     run->relay->output_bytes);
}

static void take_message(struct run *run, const struct init_message *message)
{
	struct atoll_result *result = run->result;

	/* The first end is the one that counts; later ones follow from our own SIGKILL. */
	if (run->has_ended && message->type != INIT_DENIAL)
		return;
	switch (message->type) {
	case INIT_STARTED:
		if (run->options->started)
			run->options->started(run->handle.pid, run->options->data);
		break;
	case INIT_FAILED:
		run->failure = message->error;
		run->has_failed = message->code < 0;
		result->end = ATOLL_NOT_STARTED;
		result->code = message->code;
		run->has_ended = true;
		break;
	case INIT_ENDED:
		result->end = WIFSIGNALED(message->wait_status) ? ATOLL_SIGNALED : ATOLL_EXITED;
		result->code = WIFSIGNALED(message->wait_status)
				       ? WTERMSIG(message->wait_status)
				       : WEXITSTATUS(message->wait_status);
		run->has_ended = true;
		break;
	case INIT_LIMIT:
		end_by_limit(run,
			     streq(message->limit, "memory") ? ATOLL_OUT_OF_MEMORY
							     : ATOLL_OVER_LIMIT,
			     message->limit, message->limit_value, message->limit_used);
		snprintf(result->limit_note, sizeof result->limit_note, "%.*s",
			 (int)sizeof message->limit_note - 1, message->limit_note);
		break;
	case INIT_DENIAL:
		take_denial(run, &message->denial);
		break;
	default:
		break;
	}
}

/* Everything that has been said; false once the other side is gone. */
static bool take_messages(struct run *run)
{
	struct init_message message;
	ssize_t got;

	while ((got = recv(run->handle.control_fd, &message, sizeof message, MSG_DONTWAIT)) > 0) {
		if (got == sizeof message)
			take_message(run, &message);
	}
	return got < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Is there something that only the back end's counters tell? */
static bool is_counted(const struct run *run)
{
	return run->spec->limits[SPEC_MEMORY].value != SPEC_UNLIMITED ||
	       run->spec->limits[SPEC_CPU_TIME].value != SPEC_UNLIMITED;
}

static int wait_ms(const struct run *run)
{
	int64_t most = is_counted(run) ? COUNT_MS : 3600 * 1000;
	int64_t left;

	if (run->deadline_ns == INT64_MAX)
		return (int)most;
	left = run->deadline_ns - clock_monotonic_ns();
	if (left <= 0)
		return 0;
	return left > most * 1000000 ? (int)most : (int)((left + 999999) / 1000000);
}

/* cgroup v1 kills the largest process and lets the others go on; the limit is one for all. And v2
 * counts CPU time that the first process never sees. */
static void check_counters(struct run *run)
{
	const struct spec_limit *limits = run->spec->limits;
	uint64_t now_ns = (uint64_t)clock_monotonic_ns();
	struct cell_usage usage;

	if (!is_counted(run) || now_ns - run->counted_ns < COUNT_MS * 1000000ULL)
		return;
	run->counted_ns = now_ns;
	ns_backend.account(run->cell, &usage);
	if (usage.is_out_of_memory)
		end_by_limit(run, ATOLL_OUT_OF_MEMORY, "memory", limits[SPEC_MEMORY].value,
			     usage.memory_peak);
	else if (usage.cpu_ms > limits[SPEC_CPU_TIME].value)
		end_by_limit(run, ATOLL_OVER_LIMIT, "cpu", limits[SPEC_CPU_TIME].value,
			     usage.cpu_ms);
}

static void supervise(struct run *run)
{
	bool has_control = true;

	while (!run->has_ended) {
		struct pollfd fds[2 + 2 * RELAY_COUNT] = {
			{.fd = run->handle.pid_fd, .events = POLLIN},
			{.fd = has_control ? run->handle.control_fd : -1, .events = POLLIN},
		};

		relay_want(run->relay, fds + 2);
		if (poll(fds, ARRAY_SIZE(fds), wait_ms(run)) < 0 && errno != EINTR)
			return;
		if (fds[1].fd >= 0 && fds[1].revents)
			has_control = take_messages(run);
		if (!relay_move(run->relay, fds + 2))
			end_by_output(run);
		if (!run->has_ended && clock_monotonic_ns() >= run->deadline_ns)
			end_by_limit(run, ATOLL_TIMED_OUT, "wall",
				     run->spec->limits[SPEC_WALL].value,
				     (uint64_t)(clock_monotonic_ns() - run->start_ns) / 1000000);
		if (!run->has_ended)
			check_counters(run);
		if (fds[0].revents) {
			take_messages(run);
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
		/* One there was, also if nobody looked in time. */
		[ATOLL_PROCESSES] = usage->processes_peak ? usage->processes_peak : 1,
		[ATOLL_DISK] = usage->written,
		[ATOLL_FILES] = usage->files,
		[ATOLL_OUTPUT] = result->output_bytes,
	};

	for (int i = 0; i < ATOLL_RESOURCE_COUNT; i++)
		result->usage[i] = (struct atoll_usage){used[i], run->spec->limits[ids[i]].value};
}

/* The end of everything inside: killing the first process kills the rest. */
static void finish(struct run *run)
{
	struct atoll_result *result = run->result;
	struct rusage usage = {0};
	struct cell_usage counted;

	kill(run->handle.pid, SIGKILL);
	/* A caller that ignores SIGCHLD has it reaped for it; then there is only no usage. */
	while (wait4(run->handle.pid, NULL, 0, &usage) < 0 && errno == EINTR)
		;
	take_messages(run);
	result->wall_ns = (uint64_t)(clock_monotonic_ns() - run->start_ns);
	result->cpu_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
			 (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
	ns_backend.account(run->cell, &counted);
	if (counted.cpu_ms * 1000000 > result->cpu_ns)
		result->cpu_ns = counted.cpu_ms * 1000000;
	result->peak_memory =
		counted.memory_peak ? counted.memory_peak : (uint64_t)usage.ru_maxrss * 1024;
	if (counted.is_out_of_memory && result->end != ATOLL_TIMED_OUT)
		end_by_limit(run, ATOLL_OUT_OF_MEMORY, "memory",
			     run->spec->limits[SPEC_MEMORY].value, counted.memory_peak);
	relay_drain(run->relay, clock_monotonic_ns() + DRAIN_NS);
	if (run->relay->is_over)
		end_by_output(run);
	result->output_bytes = run->relay->output_bytes;
	fill_usage(run, &counted);
	close(run->handle.pid_fd);
	close(run->handle.control_fd);
}

static int start(struct run *run, struct atoll_error *err)
{
	const int caller[3] = {run->options->stdin_fd, run->options->stdout_fd,
			       run->options->stderr_fd};
	uint64_t wall_ms = run->spec->limits[SPEC_WALL].value;
	int child[3], r;

	r = relay_open(run->relay, caller, run->spec->limits[SPEC_OUTPUT].value, child, err);
	run->start_ns = clock_monotonic_ns();
	run->counted_ns = (uint64_t)run->start_ns;
	run->deadline_ns =
		wall_ms == SPEC_UNLIMITED ? INT64_MAX : run->start_ns + (int64_t)wall_ms * 1000000;
	if (r == 0)
		r = ns_backend.start(run->cell, child, &run->handle, err);
	for (int i = 0; i < 3; i++) {
		if (child[i] >= 0)
			close(child[i]);
	}
	return r;
}

static int run_cell(struct run *run, struct atoll_error *err)
{
	int r = start(run, err);

	if (r == 0) {
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
		*err = run->failure; /* why, for whoever wants to tell */
	if (!run->has_ended)
		return error_set(err, ATOLL_FAULT_BUG, 0, "the sandbox's first process was killed");
	return 0;
}

/* A reader that goes away must not end the supervisor; and it is not ours to ignore a signal for a
 * whole program. */
static void hold_sigpipe(sigset_t *ret_old)
{
	sigset_t pipe_only;

	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_only, ret_old);
}

static void release_sigpipe(const sigset_t *old)
{
	const struct timespec now = {0};
	sigset_t pipe_only;

	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	if (!sigismember(old, SIGPIPE))
		sigtimedwait(&pipe_only, NULL, &now);
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

int atoll_job_run(struct atoll_job *job, const struct atoll_run_options *options,
		  struct atoll_result *ret, struct atoll_error *err)
{
	static const struct atoll_run_options own = {.stdin_fd = 0, .stdout_fd = 1, .stderr_fd = 2};
	struct run run = {.options = options ? options : &own, .result = ret};
	struct atoll_error unheard;
	sigset_t old;
	char **env;
	int r;

	err = err ? err : &unheard;
	*err = (struct atoll_error){0};
	r = job_finish(job, err);
	if (r < 0)
		return r;
	env = env_build(job->spec, err);
	if (!env)
		return -ENOMEM;
	*ret = (struct atoll_result){0};
	run.spec = job->spec;
	run.relay = malloc(sizeof *run.relay);
	hold_sigpipe(&old);
	r = run.relay ? ns_backend.prepare(job->spec, env, NULL, &run.cell, err) : error_oom(err);
	if (r == 0)
		r = run_cell(&run, err);
	if (run.relay)
		relay_close(run.relay);
	release_sigpipe(&old);
	ns_backend.release(run.cell);
	free(run.relay);
	env_free(env);
	/* The reason that the kernel gives does not say that it is our own filter. */
	if (r < 0 && err->fault == ATOLL_FAULT_HOST && getenv("ATOLL_SANDBOX"))
		return error_context(err, r, "there is no sandbox inside an atoll sandbox");
	return r;
}
