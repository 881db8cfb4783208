/* SPDX-License-Identifier: Apache-2.0 */
#include "eventlog/eventlog.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "eventlog/eventlog-inner.h"
#include "layer/store.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_NS   (100 * INT64_C(1000000))
#define FLUSH_SIZE (64 << 10)
#define SEAL_NS	   (10 * INT64_C(1000000000))
#define RETRY_NS   (500 * INT64_C(1000000))

/* How often another id is tried, should there be a log of that one. */
#define TRIES 4

/* ---- opening ---- */

/* What it means that there is no log: no run, unless somebody says so. */
static int refuse(struct atoll_error *err, int r)
{
	if (err->fault == ATOLL_FAULT_BUG || err->fault == ATOLL_FAULT_REQUEST)
		err->fault = ATOLL_FAULT_HOST;
	error_context(err, r, "the record cannot be written (--record off runs without one)");
	return r;
}

static struct eventlog *recorder_new(const struct spec *spec, const char *id)
{
	struct eventlog *recorder = calloc(1, sizeof *recorder);
	struct timespec now;

	if (!recorder)
		return NULL;
	recorder->spec = spec;
	clock_gettime(CLOCK_REALTIME, &now);
	recorder->opened_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	snprintf(recorder->id, sizeof recorder->id, "%s", id);
	recorder->flush_ns = recorder->seal_ns = INT64_MAX;
	return recorder;
}

static int create(struct eventlog *recorder, bool is_sandbox, const char *parent,
		  struct atoll_error *err)
{
	const bool is_new_id = !recorder->id[0];
	int r = -EEXIST;

	for (int i = 0; r == -EEXIST && i < (is_new_id ? TRIES : 1); i++) {
		if (is_new_id)
			store_new_id(recorder->id);
		r = audit_create(recorder->id, is_sandbox ? "sandbox" : "run", parent,
				 &recorder->log, err);
	}
	return r;
}

int eventlog_open(const struct spec *spec, char id[ATOLL_ID_SIZE], bool is_sandbox,
		  const char *parent, struct eventlog **ret, struct atoll_error *err)
{
	struct eventlog *recorder;
	int r;

	*ret = NULL;
	if (spec->record == SPEC_RECORD_OFF)
		return 0;
	recorder = recorder_new(spec, id);
	if (!recorder)
		return error_oom(err);
	r = create(recorder, is_sandbox, parent, err);
	if (r < 0) {
		eventlog_close(recorder);
		return refuse(err, r);
	}
	memcpy(id, recorder->id, ATOLL_ID_SIZE);
	recorder->only_step = is_sandbox ? 0 : 1;
	recorder->flush_ns = clock_monotonic_ns() + FLUSH_NS;
	/* A run's first step follows at once. */
	recorder->seal_ns = is_sandbox ? clock_monotonic_ns() + SEAL_NS : INT64_MAX;
	*ret = recorder;
	return 0;
}

int eventlog_reopen(const struct spec *spec, const char *id, struct eventlog **ret,
		    struct atoll_error *err)
{
	struct eventlog *recorder;
	char same[ATOLL_ID_SIZE];
	int r;

	*ret = NULL;
	if (spec->record == SPEC_RECORD_OFF)
		return 0;
	recorder = recorder_new(spec, id);
	if (!recorder)
		return error_oom(err);
	r = audit_reopen(id, &recorder->log, err);
	if (r == -ENOENT) {
		eventlog_close(recorder);
		*err = (struct atoll_error){0};
		snprintf(same, sizeof same, "%s", id);
		return eventlog_open(spec, same, true, NULL, ret, err);
	}
	if (r < 0) {
		eventlog_close(recorder);
		return refuse(err, r);
	}
	recorder->first_step = audit_last_step(recorder->log);
	*ret = recorder;
	return 0;
}

int eventlog_continue(const char *id, struct eventlog **ret, struct atoll_error *err)
{
	struct eventlog *recorder = recorder_new(NULL, id);
	int r = recorder ? audit_reopen(id, &recorder->log, err) : error_oom(err);

	if (r == 0)
		*ret = recorder;
	else
		eventlog_close(recorder);
	return r;
}

void eventlog_watch(struct eventlog *recorder, const struct eventlog_hooks *hooks)
{
	const char *line;
	size_t size;

	if (!recorder || !hooks)
		return;
	recorder->hooks = *hooks;
	/* What was there before anybody could watch. */
	line = audit_last_line(recorder->log, &size);
	if (line && hooks->emitted)
		hooks->emitted(line, size, hooks->data);
}

void eventlog_prepare_next(const struct eventlog *recorder)
{
	if (recorder)
		audit_make_spare(recorder->log);
}

const char *eventlog_id(const struct eventlog *recorder)
{
	return recorder ? recorder->id : "";
}

bool eventlog_wants_notices(const struct eventlog *recorder)
{
	return recorder && recorder->spec && recorder->spec->record == SPEC_RECORD_FULL;
}

uint32_t eventlog_step(const struct eventlog *recorder, uint32_t n)
{
	return recorder ? recorder->first_step + n : n;
}

void eventlog_close(struct eventlog *recorder)
{
	if (!recorder)
		return;
	eventlog_forget_waiting(recorder);
	eventlog_forget_changed(recorder);
	eventlog_forget_counted(recorder);
	file_hashes_free(recorder->hashes);
	audit_close(recorder->log);
	free(recorder);
}

void eventlog_abandon(struct eventlog *recorder)
{
	cleanup_with(layer_store_close) struct layer_store store = {.fd = -1};
	char path[64];

	if (!recorder)
		return;
	snprintf(path, sizeof path, "log/%s.jsonl", recorder->id);
	if (layer_store_open(false, &store, NULL) == 0)
		unlinkat(store.fd, path, 0);
	eventlog_close(recorder);
}

/* ---- lines ---- */

/* Lines for which there was neither disk nor memory: how many, as soon as there is again. */
static void tell_dropped(struct eventlog *recorder)
{
	struct json *json;

	if (!recorder->n_dropped || audit_pending(recorder->log) >= FLUSH_SIZE)
		return;
	json = audit_begin(recorder->log, "lost", 0, 0);
	json_uint(json, "count", recorder->n_dropped);
	json_str(json, "why", "there was no room for them");
	if (audit_commit(recorder->log, &recorder->problem) == 0)
		recorder->n_dropped = 0;
}

struct json *eventlog_begin(struct eventlog *recorder, const char *kind, uint64_t time_ns,
			    uint32_t step)
{
	tell_dropped(recorder);
	return audit_begin(recorder->log, kind, time_ns, step);
}

void eventlog_commit(struct eventlog *recorder)
{
	const int64_t now_ns = clock_monotonic_ns();
	const bool is_counted = recorder->is_counted;
	int r = is_counted ? 0 : audit_commit(recorder->log, &recorder->problem);

	recorder->is_counted = false;
	if (is_counted)
		audit_end_unlogged(recorder->log);
	/* A line that cannot even be made is as bad as one that cannot be written. */
	if (r < 0) {
		recorder->is_stuck = true;
		recorder->n_dropped++;
		return;
	}
	if (recorder->hooks.emitted) {
		size_t size;
		const char *line = audit_last_line(recorder->log, &size);

		recorder->hooks.emitted(line, size, recorder->hooks.data);
	}
	if (recorder->flush_ns == INT64_MAX && !is_counted)
		recorder->flush_ns = now_ns + FLUSH_NS;
	if (recorder->seal_ns == INT64_MAX)
		recorder->seal_ns = now_ns + SEAL_NS;
	if (!recorder->is_stuck && audit_pending(recorder->log) >= FLUSH_SIZE)
		eventlog_flush(recorder, &recorder->problem);
}

struct eventlog_counts *eventlog_counts(struct eventlog *recorder, uint32_t step)
{
	struct eventlog_counts *counts = &recorder->counts[step % EVENTLOG_STEPS_MAX];

	if (counts->step != step)
		*counts = (struct eventlog_counts){.step = step};
	return counts;
}

void eventlog_add_hash(struct json *json, const char *key, const unsigned char *hash)
{
	char text[7 + HASH_HEX_SIZE] = "sha256:";

	if (hash)
		hash_to_hex(hash, HASH_SIZE, text + 7);
	json_str(json, key, hash ? text : NULL);
}

void eventlog_add_redacted(struct json *json, const char *key, const char *text,
			   const char *previous)
{
	cleanup_buf struct buf out = BUF_INIT((size_t)4 << 20);

	audit_redact(text, strlen(text), previous, &out);
	/* Rather nothing than what was to be left out. */
	if (buf_error(&out) < 0)
		json_str(json, key, "[redacted]");
	else
		json_strn(json, key, out.data ? out.data : "", out.used);
}

void eventlog_add_who(struct json *json)
{
	char line[1024];
	FILE *accounts = fopen("/etc/passwd", "re");
	bool is_found = false;

	while (accounts && !is_found && fgets(line, sizeof line, accounts)) {
		char *rest = strchr(line, ':'), *number = rest ? strchr(rest + 1, ':') : NULL;

		if (!number || strtoul(number + 1, NULL, 10) != getuid())
			continue;
		*rest = '\0';
		is_found = true;
	}
	if (accounts)
		fclose(accounts);
	json_open(json, "who", '{');
	json_uint(json, "uid", getuid());
	json_str(json, "name", is_found ? line : NULL);
	json_close(json, '}');
}

/* ---- writing ---- */

int eventlog_flush(struct eventlog *recorder, struct atoll_error *err)
{
	int r;

	if (!recorder)
		return 0;
	r = eventlog_check_floor(recorder, err);
	if (r == 0)
		r = audit_flush(recorder->log, err);
	if (r < 0) {
		if (err != &recorder->problem)
			recorder->problem = *err;
		if (!recorder->is_stuck)
			recorder->stuck_ns = clock_monotonic_ns();
		recorder->is_stuck = true;
		recorder->retry_ns = clock_monotonic_ns() + RETRY_NS;
		return r;
	}
	recorder->flush_ns = INT64_MAX;
	recorder->is_stuck = recorder->has_events = false;
	return 0;
}

bool eventlog_is_stuck(const struct eventlog *recorder, const struct atoll_error **ret_problem)
{
	if (!recorder || !recorder->is_stuck)
		return false;
	if (ret_problem)
		*ret_problem = &recorder->problem;
	return true;
}

bool eventlog_try_again(struct eventlog *recorder)
{
	if (!recorder || !recorder->is_stuck)
		return false;
	if (clock_monotonic_ns() < recorder->retry_ns)
		return true;
	return eventlog_flush(recorder, &recorder->problem) < 0;
}

void eventlog_prepare_seal(struct eventlog *recorder)
{
	if (recorder && !recorder->is_stuck)
		audit_prepare_seal(recorder->log);
}

int eventlog_seal(struct eventlog *recorder, bool is_last, bool took_long, struct atoll_error *err)
{
	int r;

	if (!recorder)
		return 0;
	eventlog_wait_for_hashes(recorder);
	if (is_last)
		eventlog_write_counted(recorder, 0);
	/* Ends of steps and decisions are written below the free-space floor as well. */
	recorder->has_events = false;
	r = eventlog_flush(recorder, err);
	tell_dropped(recorder);
	if (r == 0)
		r = audit_seal(recorder->log, is_last, took_long, err);
	if (r < 0) {
		recorder->problem = *err;
		recorder->is_stuck = true;
		recorder->retry_ns = clock_monotonic_ns() + RETRY_NS;
		return r;
	}
	recorder->flush_ns = recorder->seal_ns = INT64_MAX;
	if (recorder->hooks.emitted) {
		size_t size;
		const char *line = audit_last_line(recorder->log, &size);

		recorder->hooks.emitted(line, size, recorder->hooks.data);
	}
	return 0;
}

/* ---- in a loop ---- */

void eventlog_want(const struct eventlog *recorder, struct pollfd *fds)
{
	for (size_t i = 0; i < EVENTLOG_WATCHED; i++)
		fds[i] = (struct pollfd){.fd = -1};
	if (!recorder)
		return;
	fds[0] = (struct pollfd){.fd = file_hashes_fd(recorder->hashes), .events = POLLIN};
	if (recorder->hooks.want)
		recorder->hooks.want(fds + 1, recorder->hooks.data);
}

void eventlog_idle(struct eventlog *recorder)
{
	if (recorder)
		file_hashes_rest(recorder->hashes);
}

int64_t eventlog_deadline_ns(const struct eventlog *recorder)
{
	int64_t until, other;

	if (!recorder)
		return INT64_MAX;
	until = recorder->is_stuck ? recorder->retry_ns : recorder->flush_ns;
	if (!recorder->is_stuck && recorder->seal_ns < until)
		until = recorder->seal_ns;
	other = recorder->hooks.deadline_ns ? recorder->hooks.deadline_ns(recorder->hooks.data)
					    : INT64_MAX;
	return other < until ? other : until;
}

void eventlog_move(struct eventlog *recorder, const struct pollfd *fds)
{
	int64_t now_ns;

	if (!recorder)
		return;
	if (fds[0].fd >= 0 && fds[0].revents) {
		file_hashes_move(recorder->hashes, false);
		eventlog_write_hashed(recorder);
	}
	if (recorder->hooks.move)
		recorder->hooks.move(fds + 1, recorder->hooks.data);
	if (recorder->is_stuck ||
	    (recorder->flush_ns == INT64_MAX && recorder->seal_ns == INT64_MAX))
		return;
	now_ns = clock_monotonic_ns();
	if (now_ns >= recorder->flush_ns)
		eventlog_flush(recorder, &recorder->problem);
	/* A head that cannot be made is made later; what it stands for is written. */
	if (!recorder->is_stuck && now_ns >= recorder->seal_ns) {
		eventlog_write_repeated(recorder);
		if (audit_seal(recorder->log, false, false, &recorder->problem) == 0)
			recorder->seal_ns = INT64_MAX;
		else
			recorder->seal_ns = now_ns + SEAL_NS;
	}
}
