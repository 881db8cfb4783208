/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "eventlog/eventlog-line.h"
#include "job/run.h"
#include "spec/spec.h"

#include <signal.h>
#include <stdio.h>

/*
 * What the supervisor does after a verdict of an event rule or the monitor
 *
 *   flag   a line in the event log, and one in the summary
 *   ask    stop everything inside and ask the person; without a person, end the run
 *   pause  the same; without a person, wait for SIGCONT or until `hold` has passed
 *   kill   end the run
 *
 * The wall limit does not count the time in which everything is stopped.
 */

/* Rules, readers and monitor get lines of the event log: refuse them with `record: off`. Rules that
 * only flag are the default and are no error. */
int run_watch_refuse(const struct run *run, struct atoll_error *err)
{
	const struct spec_watch *watch = &run->spec->watch;

	if (run->options->events && run->options->events[0])
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"--events: there are no lines with --record off; leave one of them "
			"out");
	if (watch->monitor.url)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: a monitor sees nothing with audit.record off; leave one of "
				 "them out",
				 watch->monitor.origin);
	for (int i = 0; i < RULE_COUNT; i++)
		if (watch->rules[i] > RULE_FLAG)
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "%s: the rule '%s' sees nothing with audit.record off; "
					 "leave one of them out",
					 watch->rule_origins[i], rule_name((enum rule_id)i));
	return 0;
}

int run_watch_begin(struct run *run, struct atoll_error *err)
{
	if (run->watch)
		return 0;
	return watching_open(run->spec, run->options->events, run->recorder, run->result,
			     &run->watch, err);
}

static void end_by_verdict(struct run *run, const char *by)
{
	run->result->end = ATOLL_STOPPED;
	/* `by` may be that very array. */
	if (by != run->result->stopped_by)
		snprintf(run->result->stopped_by, sizeof run->result->stopped_by, "%s", by);
	run->is_paused = false;
	run->has_ended = run->is_done = true;
}

static void pause_all(struct run *run)
{
	run->is_paused = true;
	run->paused_ns = clock_monotonic_ns();
	run->pause_until_ns = run->paused_ns + (int64_t)run->spec->watch.hold_ms * 1000000;
	run_order(run, INIT_SIGNAL_ALL, SIGSTOP);
	terminal_leave(&run->terminal, relay_reports(run->relay));
	run->relay->is_held = true;
	eventlog_stop(run->recorder, RUN_STEP, true, "monitor");
}

static void go_on(struct run *run, const char *answer)
{
	if (run->deadline_ns != INT64_MAX)
		run->deadline_ns += clock_monotonic_ns() - run->paused_ns;
	run->is_paused = false;
	eventlog_approval(run->recorder, RUN_STEP, "monitor", run->result->stopped_by, answer,
			  "once");
	eventlog_stop(run->recorder, RUN_STEP, false, "monitor");
	run->result->stopped_by[0] = '\0';
	run_check_terminal(run);
	run_order(run, INIT_SIGNAL_ALL, SIGCONT);
}

void run_watch_resume(struct run *run, const char *who)
{
	if (!run->is_paused || run->has_ended)
		return;
	go_on(run, who);
	if (run->options->paused)
		run->options->paused(NULL, 0, run->options->data);
}

static enum atoll_answer_type ask(struct run *run, const struct watch_verdict *verdict)
{
	cleanup_fd int stop_fd = -1;
	char why[300];

	if (!run->options->ask)
		return ATOLL_ASK_NOBODY;
	stop_fd = run_make_stop_fd(run);
	snprintf(why, sizeof why, "%s: %s", verdict->by, verdict->why);
	return run->options->ask(
		&(struct atoll_question){
			.why = why,
			.name = "",
			.program = "",
			.file = run->spec->file,
			.timeout_ms = run->spec->watch.hold_ms > INT32_MAX
					      ? INT32_MAX
					      : (int32_t)run->spec->watch.hold_ms,
			.stop_fd = stop_fd,
		},
		run->options->data);
}

static void pause_and_ask(struct run *run, const struct watch_verdict *verdict)
{
	enum atoll_answer_type answer;

	pause_all(run);
	snprintf(run->result->stopped_by, sizeof run->result->stopped_by, "%s", verdict->by);
	answer = ask(run, verdict);
	if (answer == ATOLL_ASK_NO) {
		eventlog_approval(run->recorder, RUN_STEP, "monitor", verdict->by, "no", "once");
		end_by_verdict(run, verdict->by);
	} else if (answer != ATOLL_ASK_NOBODY && answer != ATOLL_ASK_LATER) {
		go_on(run, "yes");
	} else if (verdict->verdict == RULE_ASK) {
		eventlog_approval(run->recorder, RUN_STEP, "monitor", verdict->by, "none", "once");
		end_by_verdict(run, verdict->by);
	} else if (run->options->paused) {
		run->options->paused(verdict->why, run->spec->watch.hold_ms, run->options->data);
	}
}

void run_watch_check(struct run *run)
{
	struct watch_verdict verdict;

	if (!run->watch)
		return;
	if (run->is_paused && !run->has_ended && clock_monotonic_ns() >= run->pause_until_ns) {
		eventlog_approval(run->recorder, RUN_STEP, "monitor", run->result->stopped_by,
				  "none", "once");
		end_by_verdict(run, run->result->stopped_by);
	}
	if (!watching_settle(run->watch, &verdict) || run->has_ended ||
	    verdict.verdict <= RULE_FLAG)
		return;
	if (verdict.verdict == RULE_KILL)
		end_by_verdict(run, verdict.by);
	else if (!run->is_paused && run->has_started)
		pause_and_ask(run, &verdict);
}

int64_t run_watch_deadline_ns(const struct run *run)
{
	return run->is_paused && !run->has_ended ? run->pause_until_ns : INT64_MAX;
}

void run_watch_end(struct run *run)
{
	struct watch_verdict verdict;

	/* Executions that wait for a hash become lines first. */
	if (run->watch)
		eventlog_wait_for_hashes(run->recorder);
	watching_settle(run->watch, &verdict);
	watching_finish(run->watch);
	watching_settle(run->watch, &verdict);
}

void run_watch_close(struct run *run)
{
	if (run->recorder)
		eventlog_watch(run->recorder, &(struct eventlog_hooks){0});
	watching_close(run->watch);
	run->watch = NULL;
}
