/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "job/input.h"
#include "job/run.h"
#include "layer/layer.h"
#include "spec/spec.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/*
 * The event log of a run
 *
 * run.c calls run_eventlog_begin() before the command starts, run_eventlog_check() in its loop and
 * run_eventlog_end() last. While the log cannot be written, everything inside is stopped (SIGSTOP)
 * and the wall limit stands still, for at most EVENTLOG_STUCK_NS.
 */

/* After a longer run the last head is flushed to the disk. */
#define LONG_NS INT64_C(60000000000)

/* Pause between two attempts to write the end. */
#define AGAIN_MS 500

/* ---- the beginning ---- */

/* In mode `layer` the record and the event log have the same id. */
static int open_log(struct run *run, struct atoll_error *err)
{
	char id[ATOLL_ID_SIZE] = "";

	if (run->recorder)
		return 0;
	if (run->layer.record)
		memcpy(id, run->layer.record->info.id, sizeof id);
	return eventlog_open(run->spec, id, false, NULL, &run->recorder, err);
}

struct receipt_notes {
	char input[72], image[72], commit[HASH_HEX_SIZE];
};

/* `doing` is the text for the caller's progress line. */
static int note_digest(const struct run *run, const char *doing,
		       int (*digest)(const struct spec *spec, char ret[HASH_HEX_SIZE],
				     struct atoll_error *err),
		       char ret[72], struct atoll_error *err)
{
	if (run->options->progress)
		run->options->progress(doing, run->options->data);
	strcpy(ret, "sha256:");
	return digest(run->spec, ret + strlen(ret), err);
}

/* Digests for a receipt. They read the whole workspace, so only if a receipt is wanted. */
static int note_for_receipt(struct run *run, struct eventlog_start *start,
			    struct receipt_notes *notes, struct atoll_error *err)
{
	int r;

	if (!run->options->for_receipt)
		return 0;
	r = note_digest(run, "reading the workspace", input_digest, notes->input, err);
	if (r == 0 && run->spec->image) {
		r = note_digest(run, "reading the image", input_image_digest, notes->image, err);
		start->image = notes->image;
	}
	if (r < 0)
		return r;
	input_commit(run->spec->workspace, notes->commit);
	start->input = notes->input;
	start->commit = notes->commit;
	eventlog_recipe(run->recorder, RUN_STEP, run->recipe, run->spec->command);
	return 0;
}

int run_eventlog_begin(struct run *run, struct atoll_error *err)
{
	cleanup_with(plan_done) struct plan plan = {.is_brief = true};
	struct eventlog_start start = {.step = RUN_STEP,
				       .argv = run->spec->command,
				       .cwd = run->spec->cwd,
				       .env = run->env,
				       .plan = &plan};
	struct receipt_notes notes;
	int r;

	if (run->spec->record == SPEC_RECORD_OFF)
		return run_watch_refuse(run, err);
	r = open_log(run, err);
	if (r < 0)
		return r;
	r = run_watch_begin(run, err);
	if (r < 0)
		return r;
	memcpy(run->result->run, eventlog_id(run->recorder), sizeof run->result->run);
	eventlog_output_init(&run->output, run->spec, run->result->run, run->is_terminal[1]);
	if (run->backend->describe)
		run->backend->describe(run->cell, &plan);
	r = note_for_receipt(run, &start, &notes, err);
	if (r < 0)
		return r;
	r = eventlog_start(run->recorder, &start, err);
	if (r < 0)
		return error_context(
			err, r, "the record cannot be written (--record off runs without one)");
	return 0;
}

/* ---- meanwhile ---- */

void run_eventlog_connection(void *data, const struct atoll_connection *connection)
{
	const struct run *run = data;

	eventlog_connection(run->recorder, RUN_STEP, connection);
}

void run_eventlog_answer(void *data, const struct netctl_question *question,
			 enum atoll_answer_type answer)
{
	static const char *const words[] = {
		[ATOLL_ASK_NO] = "no",	    [ATOLL_ASK_ONCE] = "yes",	 [ATOLL_ASK_RUN] = "yes",
		[ATOLL_ASK_ALWAYS] = "yes", [ATOLL_ASK_NOBODY] = "none",
	};
	static const char *const scopes[] = {
		[ATOLL_ASK_NO] = "run",	       [ATOLL_ASK_ONCE] = "once",   [ATOLL_ASK_RUN] = "run",
		[ATOLL_ASK_ALWAYS] = "always", [ATOLL_ASK_NOBODY] = "once",
	};
	const struct run *run = data;
	char object[300];

	if ((unsigned)answer > ATOLL_ASK_NOBODY || answer == ATOLL_ASK_LATER)
		return;
	snprintf(object, sizeof object, "%s:%u", question->name, question->port);
	eventlog_approval(run->recorder, RUN_STEP, "network", object, words[answer],
			  scopes[answer]);
}

/* ---- the disk is full ---- */

static void report_stuck(const struct run *run, const char *why)
{
	if (run->options->stuck)
		run->options->stuck(why, run->options->data);
}

static void begin_waiting(struct run *run)
{
	const struct atoll_error *problem;

	eventlog_is_stuck(run->recorder, &problem);
	run->is_stuck = true;
	run->stuck_ns = clock_monotonic_ns();
	run_order(run, INIT_SIGNAL_ALL, SIGSTOP);
	terminal_leave(&run->terminal, relay_reports(run->relay));
	run->relay->is_held = true;
	snprintf(run->result->record_note, sizeof run->result->record_note,
		 "everything stood still because the record could not be written: %s",
		 problem->text);
	report_stuck(run, problem->text);
	eventlog_stop(run->recorder, RUN_STEP, true, "disk full");
}

/* The wall limit does not count the time in which everything was stopped. */
static void go_on(struct run *run)
{
	run->is_stuck = false;
	if (run->deadline_ns != INT64_MAX)
		run->deadline_ns += clock_monotonic_ns() - run->stuck_ns;
	eventlog_stop(run->recorder, RUN_STEP, false, "disk full");
	report_stuck(run, NULL);
	run_check_terminal(run);
	run_order(run, INIT_SIGNAL_ALL, SIGCONT);
}

/* No space after the wait: end the run, which would otherwise block for ever. */
static void end_unrecorded(struct run *run)
{
	run_end_by_limit(run, ATOLL_UNRECORDED, EVENTLOG_STUCK, EVENTLOG_STUCK_NS / 1000000,
			 (uint64_t)(clock_monotonic_ns() - run->stuck_ns) / 1000000);
}

int64_t run_eventlog_deadline_ns(const struct run *run)
{
	return run->is_stuck && !run->has_ended ? run->stuck_ns + EVENTLOG_STUCK_NS : INT64_MAX;
}

void run_eventlog_check(struct run *run)
{
	if (clock_monotonic_ns() >= run_eventlog_deadline_ns(run)) {
		end_unrecorded(run);
		return;
	}
	if (!run->recorder)
		return;
	if (!run->is_stuck && eventlog_is_stuck(run->recorder, NULL))
		begin_waiting(run);
	else if (run->is_stuck && !eventlog_try_again(run->recorder))
		go_on(run);
}

void run_eventlog_pause(struct run *run, const struct atoll_error *problem)
{
	if (problem->text[0] && !run->is_stuck) {
		run->is_stuck = true;
		run->stuck_ns = clock_monotonic_ns();
		terminal_leave(&run->terminal, relay_reports(run->relay));
		snprintf(run->result->record_note, sizeof run->result->record_note,
			 "everything stood still because the record could not be written: %s",
			 problem->text);
		report_stuck(run, problem->text);
	} else if (!problem->text[0] && run->is_stuck) {
		go_on(run);
	}
}

/* ---- the end ---- */

/* Wait a moment for a signal that asks to end. Without a signal descriptor signals act as usual. */
static bool is_interrupted(struct run *run)
{
	struct pollfd signals = {.fd = run->options->signal_fd > 0 ? run->options->signal_fd : -1,
				 .events = POLLIN};
	struct signalfd_siginfo info;

	if (poll(&signals, 1, AGAIN_MS) <= 0 || read(signals.fd, &info, sizeof info) != sizeof info)
		return false;
	if (info.ssi_signo != SIGINT && info.ssi_signo != SIGTERM && info.ssi_signo != SIGHUP &&
	    info.ssi_signo != SIGQUIT)
		return false;
	run->result->interrupted_by = (int)info.ssi_signo;
	return true;
}

static void seal(struct run *run)
{
	const bool took_long = run->result->wall_ns > LONG_NS;
	const int64_t until_ns = clock_monotonic_ns() + EVENTLOG_STUCK_NS;
	struct atoll_error problem = {0};
	bool is_reported = run->is_stuck;

	while (eventlog_seal(run->recorder, true, took_long, &problem) < 0) {
		snprintf(run->result->record_note, sizeof run->result->record_note,
			 "the record is not complete: %s", problem.text);
		/* Waiting helps against a full disk, not against a bad key or store. */
		if (problem.errnum != ENOSPC && problem.errnum != EDQUOT && problem.errnum != EIO)
			return;
		if (run->result->interrupted_by && run->is_stuck)
			return;
		if (run->result->end == ATOLL_UNRECORDED || clock_monotonic_ns() >= until_ns) {
			run->result->end = ATOLL_UNRECORDED;
			return;
		}
		if (!is_reported)
			report_stuck(run, problem.text);
		is_reported = true;
		if (is_interrupted(run))
			return;
	}
	if (is_reported)
		snprintf(run->result->record_note, sizeof run->result->record_note,
			 "everything stood still because the record could not be written");
	if (is_reported)
		report_stuck(run, NULL);
}

void run_eventlog_end(struct run *run, int r, const struct atoll_error *err)
{
	struct eventlog_output_end end;

	if (!run->recorder)
		return;
	if (r < 0 && !run->is_started && eventlog_is_stuck(run->recorder, NULL)) {
		run_watch_close(run);
		eventlog_output_done(&run->output);
		eventlog_abandon(run->recorder);
		run->recorder = NULL;
		return;
	}
	if (run->output.failure)
		snprintf(run->result->record_note, sizeof run->result->record_note,
			 "output is not kept: %s", strerror(run->output.failure));
	eventlog_output_finish(&run->output, &end);
	eventlog_output_end(run->recorder, RUN_STEP, &end);
	eventlog_direct_changes(run->recorder, RUN_STEP);
	if (r < 0 && !run->is_started) {
		run->result->end = ATOLL_NOT_STARTED;
		run->result->code = atoll_error_status(err);
	} else if (r < 0) {
		run->result->end = ATOLL_SIGNALED;
		run->result->code = SIGKILL;
	}
	run_watch_end(run);
	eventlog_end(run->recorder, RUN_STEP, run->result, r < 0 ? err->text : NULL);
	seal(run);
	run_watch_close(run);
	eventlog_close(run->recorder);
	run->recorder = NULL;
}
