/* SPDX-License-Identifier: Apache-2.0 */
#include "eventlog/eventlog.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "eventlog/eventlog-count.h"
#include "eventlog/eventlog-hash.h"
#include "eventlog/eventlog-line.h"
#include "layer/store.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_NS (100 * INT64_C(1000000))
#define SEAL_NS	 (10 * INT64_C(1000000000))
#define RETRY_NS (500 * INT64_C(1000000))

/* New ids that are tried if a log of that id exists. */
#define TRIES 4

/*
 * Open, write, sign and close an event log
 *
 * The supervisor and the holder call these functions; apply-discard.c continues a log later. Order:
 * eventlog_open(), eventlog_watch() if someone watches, eventlog_start(), events, eventlog_end(),
 * eventlog_seal(), eventlog_close(). A failed write sets `is_stuck`: lines wait in memory, and the
 * write is tried again every RETRY_NS.
 */

/* ---- opening ---- */

/* Without an event log there is no run, unless the contract says `record: off`. */
static int refuse(struct atoll_error *err, int r)
{
	if (err->fault == ATOLL_FAULT_BUG || err->fault == ATOLL_FAULT_REQUEST)
		err->fault = ATOLL_FAULT_HOST;
	error_context(err, r, "the record cannot be written (--record off runs without one)");
	return r;
}

static struct eventlog *new_eventlog(const struct spec *spec, const char *id)
{
	struct eventlog *eventlog = calloc(1, sizeof *eventlog);
	struct timespec now;

	if (!eventlog)
		return NULL;
	eventlog->spec = spec;
	clock_gettime(CLOCK_REALTIME, &now);
	eventlog->opened_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	snprintf(eventlog->id, sizeof eventlog->id, "%s", id);
	eventlog->flush_ns = eventlog->seal_ns = INT64_MAX;
	return eventlog;
}

static int create(struct eventlog *eventlog, bool is_sandbox, const char *parent,
		  struct atoll_error *err)
{
	const bool is_new_id = !eventlog->id[0];
	int r = -EEXIST;

	for (int i = 0; r == -EEXIST && i < (is_new_id ? TRIES : 1); i++) {
		if (is_new_id)
			store_new_id(eventlog->id);
		r = audit_create(eventlog->id, is_sandbox ? "sandbox" : "run", parent,
				 &eventlog->log, err);
	}
	return r;
}

int eventlog_open(const struct spec *spec, char id[ATOLL_ID_SIZE], bool is_sandbox,
		  const char *parent, struct eventlog **ret, struct atoll_error *err)
{
	struct eventlog *eventlog;
	int r;

	*ret = NULL;
	if (spec->record == SPEC_RECORD_OFF)
		return 0;
	eventlog = new_eventlog(spec, id);
	if (!eventlog)
		return error_oom(err);
	r = create(eventlog, is_sandbox, parent, err);
	if (r < 0) {
		eventlog_close(eventlog);
		return refuse(err, r);
	}
	memcpy(id, eventlog->id, ATOLL_ID_SIZE);
	eventlog->only_step = is_sandbox ? 0 : 1;
	eventlog->flush_ns = clock_monotonic_ns() + FLUSH_NS;
	/* A run's first step follows at once. */
	eventlog->seal_ns = is_sandbox ? clock_monotonic_ns() + SEAL_NS : INT64_MAX;
	*ret = eventlog;
	return 0;
}

int eventlog_reopen(const struct spec *spec, const char *id, struct eventlog **ret,
		    struct atoll_error *err)
{
	struct eventlog *eventlog;
	char same[ATOLL_ID_SIZE];
	int r;

	*ret = NULL;
	if (spec->record == SPEC_RECORD_OFF)
		return 0;
	eventlog = new_eventlog(spec, id);
	if (!eventlog)
		return error_oom(err);
	r = audit_reopen(id, &eventlog->log, err);
	if (r == -ENOENT) {
		eventlog_close(eventlog);
		*err = (struct atoll_error){0};
		snprintf(same, sizeof same, "%s", id);
		return eventlog_open(spec, same, true, NULL, ret, err);
	}
	if (r < 0) {
		eventlog_close(eventlog);
		return refuse(err, r);
	}
	eventlog->first_step = audit_last_step(eventlog->log);
	*ret = eventlog;
	return 0;
}

int eventlog_continue(const char *id, struct eventlog **ret, struct atoll_error *err)
{
	struct eventlog *eventlog = new_eventlog(NULL, id);
	int r = eventlog ? audit_reopen(id, &eventlog->log, err) : error_oom(err);

	if (r == 0)
		*ret = eventlog;
	else
		eventlog_close(eventlog);
	return r;
}

void eventlog_watch(struct eventlog *eventlog, const struct eventlog_hooks *hooks)
{
	if (!eventlog || !hooks)
		return;
	eventlog->hooks = *hooks;
	/* The first line was written before the hooks were there. */
	eventlog_emit_last(eventlog);
}

void eventlog_prepare_next(const struct eventlog *eventlog)
{
	if (eventlog)
		audit_make_spare(eventlog->log);
}

const char *eventlog_id(const struct eventlog *eventlog)
{
	return eventlog ? eventlog->id : "";
}

bool eventlog_wants_notices(const struct eventlog *eventlog)
{
	return eventlog && eventlog->spec && eventlog->spec->record == SPEC_RECORD_FULL;
}

uint32_t eventlog_step(const struct eventlog *eventlog, uint32_t n)
{
	return eventlog ? eventlog->first_step + n : n;
}

void eventlog_close(struct eventlog *eventlog)
{
	if (!eventlog)
		return;
	eventlog_forget_waiting(eventlog);
	eventlog_forget_changed(eventlog);
	eventlog_forget_counted(eventlog);
	file_hashes_free(eventlog->hashes);
	audit_close(eventlog->log);
	free(eventlog);
}

void eventlog_abandon(struct eventlog *eventlog)
{
	cleanup_with(layer_store_close) struct layer_store store = {.fd = -1};
	char path[64];

	if (!eventlog)
		return;
	snprintf(path, sizeof path, "log/%s.jsonl", eventlog->id);
	if (layer_store_open(false, &store, NULL) == 0)
		unlinkat(store.fd, path, 0);
	eventlog_close(eventlog);
}

/* ---- writing ---- */

int eventlog_flush(struct eventlog *eventlog, struct atoll_error *err)
{
	int r;

	if (!eventlog)
		return 0;
	r = eventlog_check_floor(eventlog, err);
	if (r == 0)
		r = audit_flush(eventlog->log, err);
	if (r < 0) {
		if (err != &eventlog->problem)
			eventlog->problem = *err;
		if (!eventlog->is_stuck)
			eventlog->stuck_ns = clock_monotonic_ns();
		eventlog->is_stuck = true;
		eventlog->retry_ns = clock_monotonic_ns() + RETRY_NS;
		return r;
	}
	eventlog->flush_ns = INT64_MAX;
	eventlog->is_stuck = eventlog->has_events = false;
	return 0;
}

bool eventlog_is_stuck(const struct eventlog *eventlog, const struct atoll_error **ret_problem)
{
	if (!eventlog || !eventlog->is_stuck)
		return false;
	if (ret_problem)
		*ret_problem = &eventlog->problem;
	return true;
}

bool eventlog_try_again(struct eventlog *eventlog)
{
	if (!eventlog || !eventlog->is_stuck)
		return false;
	if (clock_monotonic_ns() < eventlog->retry_ns)
		return true;
	return eventlog_flush(eventlog, &eventlog->problem) < 0;
}

void eventlog_prepare_seal(struct eventlog *eventlog)
{
	if (eventlog && !eventlog->is_stuck)
		audit_prepare_seal(eventlog->log);
}

int eventlog_seal(struct eventlog *eventlog, bool is_last, bool took_long, struct atoll_error *err)
{
	int r;

	if (!eventlog)
		return 0;
	eventlog_wait_for_hashes(eventlog);
	if (is_last)
		eventlog_write_counted(eventlog, 0);
	/* Ends of steps and decisions are written below the free-space floor as well. */
	eventlog->has_events = false;
	r = eventlog_flush(eventlog, err);
	eventlog_write_dropped(eventlog);
	if (r == 0)
		r = audit_seal(eventlog->log, is_last, took_long, err);
	if (r < 0) {
		eventlog->problem = *err;
		eventlog->is_stuck = true;
		eventlog->retry_ns = clock_monotonic_ns() + RETRY_NS;
		return r;
	}
	eventlog->flush_ns = eventlog->seal_ns = INT64_MAX;
	eventlog_emit_last(eventlog);
	return 0;
}

/* ---- in a loop ---- */

void eventlog_want(const struct eventlog *eventlog, struct pollfd *fds)
{
	for (size_t i = 0; i < EVENTLOG_WATCHED; i++)
		fds[i] = (struct pollfd){.fd = -1};
	if (!eventlog)
		return;
	fds[0] = (struct pollfd){.fd = file_hashes_fd(eventlog->hashes), .events = POLLIN};
	if (eventlog->hooks.want)
		eventlog->hooks.want(fds + 1, eventlog->hooks.data);
}

void eventlog_idle(struct eventlog *eventlog)
{
	if (eventlog)
		file_hashes_stop_reader(eventlog->hashes);
}

int64_t eventlog_deadline_ns(const struct eventlog *eventlog)
{
	int64_t until, other;

	if (!eventlog)
		return INT64_MAX;
	until = eventlog->is_stuck ? eventlog->retry_ns : eventlog->flush_ns;
	if (!eventlog->is_stuck && eventlog->seal_ns < until)
		until = eventlog->seal_ns;
	other = eventlog->hooks.deadline_ns ? eventlog->hooks.deadline_ns(eventlog->hooks.data)
					    : INT64_MAX;
	return other < until ? other : until;
}

void eventlog_move(struct eventlog *eventlog, const struct pollfd *fds)
{
	int64_t now_ns;

	if (!eventlog)
		return;
	if (fds[0].fd >= 0 && fds[0].revents) {
		file_hashes_move(eventlog->hashes, false);
		eventlog_write_hashed(eventlog);
	}
	if (eventlog->hooks.move)
		eventlog->hooks.move(fds + 1, eventlog->hooks.data);
	if (eventlog->is_stuck ||
	    (eventlog->flush_ns == INT64_MAX && eventlog->seal_ns == INT64_MAX))
		return;
	now_ns = clock_monotonic_ns();
	if (now_ns >= eventlog->flush_ns)
		eventlog_flush(eventlog, &eventlog->problem);
	/* A head that cannot be signed now is signed later: its lines are in the file already. */
	if (!eventlog->is_stuck && now_ns >= eventlog->seal_ns) {
		eventlog_write_doubled(eventlog);
		if (audit_seal(eventlog->log, false, false, &eventlog->problem) == 0)
			eventlog->seal_ns = INT64_MAX;
		else
			eventlog->seal_ns = now_ns + SEAL_NS;
	}
}
