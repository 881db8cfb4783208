/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/apply-discard.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/scope.h"
#include "base/str.h"
#include "eventlog/eventlog.h"
#include "layer/layer.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/record-lock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * Apply, undo and discard, with their lines in the event log
 *
 * The library's atoll_apply(), atoll_undo() and atoll_record_discard(). The order of an apply:
 *   1. lock the record, to refuse at once what cannot be done; unlock
 *   2. log the decision, and lock again. If the log cannot be written, nothing is done
 *   3. apply, unlock, log the outcome
 * A decision without an outcome was interrupted. The command that finishes or reverses it later
 * logs the outcome as late. A record without an event log (`record: off`) gets none.
 * A sandbox with a holder: the holder has the event log open, so it is asked to write the line.
 */

/* Let the holder log it; -ENOENT if the record has no holder. */
static int ask_holder(const struct layer_record *record, const struct holder_request *request,
		      struct atoll_error *err)
{
	struct holder_reply reply;
	cleanup_fd int fd = -1;
	int r;

	if (record->info.kind != ATOLL_RECORD_SANDBOX)
		return -ENOENT;
	fd = holder_connect(record, err);
	if (fd < 0)
		return fd;
	r = holder_ask(fd, request, NULL, 0, &reply, err);
	return r == -ECONNRESET || r == -EPIPE ? -ENOENT : r;
}

/* The event log itself; 0 and NULL if the record has none. */
static int open_log(const struct layer_record *record, struct eventlog **ret,
		    struct atoll_error *err)
{
	int r = eventlog_continue(record->info.id, ret, err);

	if (r != -ENOENT)
		return r;
	*ret = NULL;
	if (err)
		*err = (struct atoll_error){0};
	return 0;
}

static int close_log(struct eventlog *eventlog, struct atoll_error *err)
{
	int r = eventlog_seal(eventlog, true, false, err);

	eventlog_close(eventlog);
	return r;
}

int sandbox_log_decision(const struct layer_record *record, const char *about, const char *object,
			 struct atoll_error *err)
{
	struct holder_request request = {.version = HOLDER_VERSION, .type = HOLDER_NOTE};
	struct eventlog *eventlog;
	int r;

	snprintf(request.name, sizeof request.name, "%s", about);
	snprintf(request.command, sizeof request.command, "%s", object);
	r = ask_holder(record, &request, err);
	if (r != -ENOENT)
		return r;
	r = open_log(record, &eventlog, err);
	if (r < 0 || !eventlog)
		return r;
	if (streq(about, "fork"))
		eventlog_layer_change(eventlog, "fork", NULL, UINT64_MAX, object);
	else
		eventlog_decision(eventlog, about, object);
	return close_log(eventlog, err);
}

int sandbox_log_change(const struct layer_record *record, const char *kind, const char *name,
		       uint64_t ended, struct atoll_error *err)
{
	struct eventlog *eventlog;
	int r = open_log(record, &eventlog, err);

	if (r < 0 || !eventlog)
		return r;
	eventlog_layer_change(eventlog, kind, name, ended, NULL);
	return close_log(eventlog, err);
}

int sandbox_log_begin(const char *of_id, const struct spec *spec, const char *parent,
		      struct atoll_error *err)
{
	struct eventlog *eventlog;
	char id[ATOLL_ID_SIZE];
	int r;

	memcpy(id, of_id, sizeof id);
	r = eventlog_open(spec, id, true, parent, &eventlog, err);
	if (r == 0)
		r = eventlog_seal(eventlog, false, false, err);
	eventlog_close(eventlog);
	return r;
}

/* ---- outcomes ---- */

static int note_outcome(const struct layer_record *record, const struct eventlog_outcome *outcome,
			struct atoll_error *err)
{
	const struct holder_request request = {
		.version = HOLDER_VERSION, .type = HOLDER_OUTCOME, .outcome = *outcome};
	struct eventlog *eventlog;
	int r = ask_holder(record, &request, err);

	if (r != -ENOENT)
		return r;
	r = open_log(record, &eventlog, err);
	if (r < 0 || !eventlog)
		return r;
	eventlog_outcome(eventlog, outcome);
	return close_log(eventlog, err);
}

static struct eventlog_outcome outcome_of(const char *about, const char *done, int r,
					  const struct atoll_apply_report *report,
					  const struct atoll_error *err)
{
	struct eventlog_outcome outcome = {.is_counted = true,
					   .files = r < 0 ? 0 : report->n_applied,
					   .merged = r < 0 ? 0 : report->n_merged,
					   .held = report->n_held,
					   .conflicts = report->n_conflicts};
	const bool is_conflict = r == -EEXIST && report->n_conflicts;

	snprintf(outcome.about, sizeof outcome.about, "%s", about);
	snprintf(outcome.result, sizeof outcome.result, "%s",
		 r == 0	       ? done
		 : is_conflict ? "conflict"
			       : "failed");
	if (r < 0)
		snprintf(outcome.why, sizeof outcome.why, "%.*s", (int)sizeof outcome.why - 1,
			 err->text);
	return outcome;
}

/* The outcome of an interrupted apply or undo that this command has finished or reversed. */
static struct eventlog_outcome outcome_late(const struct layer_recovery *recovery)
{
	struct eventlog_outcome outcome = {.is_counted = true, .is_late = true};

	if (recovery->is_done)
		outcome.files = recovery->n;
	else
		snprintf(outcome.why, sizeof outcome.why,
			 "it was interrupted, and nothing was changed");
	snprintf(outcome.about, sizeof outcome.about, "%s", recovery->is_undo ? "undo" : "apply");
	snprintf(outcome.result, sizeof outcome.result, "%s",
		 !recovery->is_done  ? "failed"
		 : recovery->is_undo ? "undone"
				     : "applied");
	return outcome;
}

/* The holder may be blocked on this record's lock: unlock before asking it. A failure to log is
 * reported, and does not undo the apply. `outcome` is NULL after a dry run; a late outcome is
 * logged even then. */
static int report_outcome(struct layer_record *record, const struct eventlog_outcome *outcome,
			  int r, struct atoll_error *err)
{
	struct atoll_error ours = {0};
	int noted = 0;

	sandbox_unlock_record(record);
	if (record->recovery.is_there) {
		const struct eventlog_outcome late = outcome_late(&record->recovery);

		noted = note_outcome(record, &late, &ours);
	}
	if (noted == 0 && outcome)
		noted = note_outcome(record, outcome, &ours);
	if (r < 0 || noted == 0)
		return r;
	*err = ours;
	return error_context(err, noted, "it is %s, and that could not be recorded",
			     outcome ? outcome->result : "finished");
}

/* ---- apply, undo, discard ---- */

/* Wait for a sandbox's lock; do not wait for a run, which keeps the lock until its end. */
static int lock(struct layer_record *record, struct atoll_error *err)
{
	return record->info.kind == ATOLL_RECORD_SANDBOX
		       ? sandbox_lock_record(record, SANDBOX_LOCK_MS, err)
		       : layer_record_lock(record, false, err);
}

/* What is refused at once is not logged. The lock is released before the holder is asked to log:
 * the holder may be blocked on it. */
static int note_and_lock(struct layer_record *record, const char *about, const char *object,
			 struct atoll_error *err)
{
	struct eventlog_outcome outcome;
	int r = lock(record, err);

	if (r == 0 && record->info.kind == ATOLL_RECORD_SANDBOX)
		sandbox_unlock_record(record);
	if (r == 0)
		r = sandbox_log_decision(record, about, object, err);
	if (r < 0)
		return r;
	r = lock(record, err);
	if (r < 0) {
		outcome = outcome_of(about, "", r, &(struct atoll_apply_report){0}, err);
		note_outcome(record, &outcome, &(struct atoll_error){0});
	}
	return r;
}

static void describe(const struct atoll_apply_options *options, char *ret, size_t size)
{
	size_t used = 0;

	snprintf(ret, size, "%s", options->pick ? "picked one by one" : "all");
	for (size_t i = 0; options->paths && options->paths[i] && used < size; i++) {
		int n = snprintf(ret + used, size - used, "%s%s", i ? " " : "", options->paths[i]);

		used += n > 0 ? (size_t)n : 0;
	}
	if (options->is_forced && used < size)
		strncat(ret, " (forced)", size - strlen(ret) - 1);
}

int atoll_apply(const char *id, const struct atoll_apply_options *options,
		struct atoll_apply_report *ret, struct atoll_error *err)
{
	cleanup_record struct layer_record *record = NULL;
	struct atoll_error ignored = {0};
	struct eventlog_outcome outcome;
	char object[256];
	int r;

	err = err ? err : &ignored;
	r = layer_record_open(id, &record, err);
	if (r == 0 && options->is_dry) {
		r = lock(record, err);
	} else if (r == 0) {
		describe(options, object, sizeof object);
		r = note_and_lock(record, "apply", object, err);
	}
	if (r < 0)
		return r;
	r = layer_apply(record, options, ret, err);
	outcome = outcome_of("apply", "applied", r, ret, err);
	return report_outcome(record, options->is_dry ? NULL : &outcome, r, err);
}

int atoll_undo(const char *id, bool is_forced, struct atoll_apply_report *ret,
	       struct atoll_error *err)
{
	cleanup_record struct layer_record *record = NULL;
	struct atoll_error ignored = {0};
	struct eventlog_outcome outcome;
	int r;

	err = err ? err : &ignored;
	r = layer_record_open(id, &record, err);
	if (r == 0)
		r = note_and_lock(record, "undo", is_forced ? "all (forced)" : "all", err);
	if (r < 0)
		return r;
	r = layer_undo(record, is_forced, ret, err);
	outcome = outcome_of("undo", "undone", r, ret, err);
	return report_outcome(record, &outcome, r, err);
}

/* Open the record before the discard: afterwards its id finds nothing. Log after the discard: it
 * may be refused. */
int atoll_record_discard(const char *id, bool is_forced, struct atoll_error *err)
{
	static const struct eventlog_outcome discarded = {.about = "discard",
							  .result = "discarded"};
	cleanup_record struct layer_record *record = NULL;
	struct atoll_error ignored = {0};
	int r;

	err = err ? err : &ignored;
	if (layer_record_open(id, &record, &(struct atoll_error){0}) < 0)
		record = NULL;
	r = layer_record_discard(id, is_forced, err);
	if (r < 0 || !record)
		return r;
	r = sandbox_log_decision(record, "discard", "all", err);
	return r < 0 ? r : note_outcome(record, &discarded, err);
}
