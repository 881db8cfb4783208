/* SPDX-License-Identifier: Apache-2.0 */
#include "eventlog/watching.h"

#include "audit/event-rules.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "eventlog/eventlog-count.h"
#include "eventlog/eventlog-line.h"
#include "eventlog/watchers.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

/* Verdicts that wait to be written: they come while another line is being written. */
#define VERDICTS_MAX 32
/* Flags and failures of the monitor that are written in one run. */
#define MONITOR_HITS_MAX 64

/* See watching.h. run-watch.c and holder-rules.c call these functions. */
struct watching {
	const struct spec *spec;
	struct eventlog *eventlog;
	struct atoll_result *result;
	struct rules *rules;
	struct watchers readers;
	struct watch_monitor monitor;
	size_t monitor_index; /* among the readers */
	unsigned monitor_hits;
	bool is_last; /* the last lines were sent: an end of the program is no failure now */
	struct watch_verdict verdicts[VERDICTS_MAX];
	size_t n_verdicts;
	uint64_t lost; /* lines that readers missed, not yet in the log */
	char lost_why[160];
};

/* ---- verdicts ---- */

static void queue_verdict(struct watching *watch, const struct watch_verdict *verdict)
{
	if (watch->n_verdicts < VERDICTS_MAX) {
		watch->verdicts[watch->n_verdicts++] = *verdict;
		return;
	}
	/* The list is full: keep the gravest verdict. */
	if (verdict->verdict > watch->verdicts[VERDICTS_MAX - 1].verdict)
		watch->verdicts[VERDICTS_MAX - 1] = *verdict;
}

static void check_rules(struct watching *watch, const char *line, size_t size)
{
	struct rule_hit hits[RULE_COUNT];
	size_t n = rules_look(watch->rules, line, size, hits);

	for (size_t i = 0; i < n; i++) {
		struct watch_verdict verdict = {.verdict = watch->spec->watch.rules[hits[i].rule],
						.step = hits[i].step,
						.about = {hits[i].seq},
						.n_about = 1};

		snprintf(verdict.by, sizeof verdict.by, "rule:%s", rule_name(hits[i].rule));
		snprintf(verdict.why, sizeof verdict.why, "%s", hits[i].why);
		queue_verdict(watch, &verdict);
	}
}

static void emitted(const char *line, size_t size, void *data)
{
	struct watching *watch = data;

	if (watch->rules)
		check_rules(watch, line, size);
	watchers_send(&watch->readers, line, size);
}

static void missed(void *data, const struct watcher *watcher, uint64_t count, const char *why)
{
	struct watching *watch = data;
	char unused[192], *note = watch->result ? watch->result->events_note : unused;
	const size_t size = sizeof unused;

	_Static_assert(sizeof unused == sizeof watch->result->events_note, "the same size");
	if (count) {
		snprintf(note, size, "%s missed %llu lines: %s", watcher->name,
			 (unsigned long long)watcher->lost_in_all, why);
		snprintf(watch->lost_why, sizeof watch->lost_why, "%s: %s", watcher->name, why);
		watch->lost += count;
	} else if (watcher->fd != watch->monitor.fd || watch->monitor.fd < 0) {
		snprintf(note, size, "%s went away: %s", watcher->name, why);
	}
}

/* ---- the loop ---- */

static void want(struct pollfd *fds, void *data)
{
	const struct watching *watch = data;

	_Static_assert(EVENTLOG_EXTRA >= WATCHERS_MAX, "each reader has its entry");
	for (size_t i = 0; i < EVENTLOG_EXTRA; i++)
		fds[i] = (struct pollfd){.fd = -1};
	watchers_want(&watch->readers, fds);
	if (watch->monitor.fd < 0 || watch->monitor.has_ended)
		return;
	fds[watch->monitor_index].fd = watch->monitor.fd;
	fds[watch->monitor_index].events |= POLLIN;
}

static void monitor_is_gone(struct watching *watch)
{
	struct watch_verdict verdict = {.by = "monitor",
					.verdict = watch->spec->watch.monitor.on_failure,
					.why = "the monitor's program has ended before the run"};

	if (!watch->is_last)
		queue_verdict(watch, &verdict);
}

static void read_answers(struct watching *watch)
{
	struct watch_verdict verdict;
	int r;

	while ((r = watch_monitor_read(&watch->monitor, &verdict)) > 0) {
		if (r == 1 &&
		    (watch->monitor_hits++ < MONITOR_HITS_MAX || verdict.verdict > RULE_FLAG))
			queue_verdict(watch, &verdict);
	}
	if (r == -EPIPE && watch->monitor.fd >= 0) {
		monitor_is_gone(watch);
		/* watchers_close() closes it. */
		watch->monitor.fd = -1;
	}
}

static void move(const struct pollfd *fds, void *data)
{
	struct watching *watch = data;

	if (watch->monitor.fd >= 0 && fds[watch->monitor_index].revents & (POLLIN | POLLHUP))
		read_answers(watch);
	watchers_move(&watch->readers, fds);
}

static int64_t deadline_ns(void *data)
{
	const struct watching *watch = data;

	return watch->n_verdicts || watch->lost ? 0 : watchers_deadline_ns(&watch->readers);
}

/* ---- life ---- */

static int start(struct watching *watch, const char *const *events, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && events && events[i]; i++)
		r = watchers_add(&watch->readers, events[i], err);
	if (r == 0 && spec_watch_has_rules(&watch->spec->watch)) {
		watch->rules = rules_new(watch->spec->watch.rules);
		r = watch->rules ? 0 : error_oom(err);
	}
	if (r < 0 || !watch->spec->watch.monitor.url)
		return r;
	r = watch_monitor_open(watch->spec, &watch->monitor, err);
	watch->monitor_index = watch->readers.n;
	if (watch->monitor.fd < 0)
		return r;
	/* From here on watchers_close() closes it. */
	if (watchers_add_socket(&watch->readers, watch->monitor.fd, "monitor", err) < 0)
		return -ENOMEM;
	return r;
}

int watching_open(const struct spec *spec, const char *const *events, struct eventlog *eventlog,
		  struct atoll_result *result, struct watching **ret, struct atoll_error *err)
{
	struct watching *watch;
	int r;

	*ret = NULL;
	if (!spec_watch_has_rules(&spec->watch) && !spec->watch.monitor.url &&
	    !(events && events[0]))
		return 0;
	watch = calloc(1, sizeof *watch);
	if (!watch)
		return error_oom(err);
	watch->spec = spec;
	watch->eventlog = eventlog;
	watch->result = result;
	watch->monitor.fd = -1;
	watch->readers.missed = missed;
	watch->readers.data = watch;
	r = start(watch, events, err);
	if (r < 0) {
		watching_close(watch);
		return r;
	}
	eventlog_watch(eventlog, &(struct eventlog_hooks){.emitted = emitted,
							  .want = want,
							  .move = move,
							  .deadline_ns = deadline_ns,
							  .data = watch});
	*ret = watch;
	return 0;
}

bool watching_should_pause(struct watching *watch)
{
	return watch && watchers_should_pause(&watch->readers);
}

/* ---- writing verdicts ---- */

static const char *word_of(const struct watch_verdict *verdict)
{
	return verdict->verdict == RULE_OFF ? "allow" : rule_verdict_word(verdict->verdict);
}

static void add_flag(struct atoll_result *result, const struct watch_verdict *verdict)
{
	struct atoll_flag *flag = &result->flags[result->n_flags];

	if (result->n_flags++ >= ATOLL_FLAGS_MAX)
		return;
	flag->seq = verdict->n_about ? verdict->about[0] : UINT64_MAX;
	snprintf(flag->by, sizeof flag->by, "%s", verdict->by);
	snprintf(flag->verdict, sizeof flag->verdict, "%s", word_of(verdict));
	snprintf(flag->why, sizeof flag->why, "%s", verdict->why);
}

static void write_flag(struct watching *watch, const struct watch_verdict *verdict)
{
	/* A verdict that stops or ends a step is always written. A command can cause flags without
	 * end, so the log's size bounds them. */
	struct json *json =
		verdict->verdict <= RULE_FLAG
			? eventlog_begin_event(watch->eventlog,
					       &(struct eventlog_event){.kind = "flag",
									.step = verdict->step,
									.rule = verdict->by,
									.count = 1})
			: eventlog_begin(watch->eventlog, "flag", 0, verdict->step);

	json_str(json, "by", verdict->by);
	json_str(json, "verdict", word_of(verdict));
	json_str(json, "why", verdict->why);
	if (verdict->n_about && verdict->about[0] != UINT64_MAX)
		json_uint(json, "about", verdict->about[0]);
	else
		json_none(json, "about");
	if (verdict->n_about > 1) {
		json_open(json, "more", '[');
		for (size_t i = 1; i < verdict->n_about; i++)
			json_uint(json, NULL, verdict->about[i]);
		json_close(json, ']');
	}
	eventlog_commit(watch->eventlog);
}

static void write_lost(struct watching *watch)
{
	/* A command can make a reader slow as often as it likes: the log's size bounds these lines.
	 */
	struct json *json = eventlog_begin_event(watch->eventlog,
						 &(struct eventlog_event){.kind = "lost",
									  .rule = watch->lost_why,
									  .count = watch->lost});

	json_uint(json, "count", watch->lost);
	json_str(json, "why", watch->lost_why);
	watch->lost = 0;
	eventlog_commit(watch->eventlog);
}

bool watching_settle(struct watching *watch, struct watch_verdict *ret)
{
	struct watch_verdict gravest = {0};
	bool has_any = false;

	if (!watch)
		return false;
	if (watch->lost)
		write_lost(watch);
	/* A line that is written here may cause another verdict. */
	for (size_t i = 0; i < watch->n_verdicts; i++) {
		const struct watch_verdict verdict = watch->verdicts[i];

		write_flag(watch, &verdict);
		if (watch->result)
			add_flag(watch->result, &verdict);
		if (!has_any || verdict.verdict > gravest.verdict)
			gravest = verdict;
		has_any = true;
	}
	watch->n_verdicts = 0;
	*ret = gravest;
	return has_any;
}

/* ---- the end ---- */

/* Close the monitor's input, which makes it ask about its last batch, and wait for the answer. */
static void read_last_answer(struct watching *watch)
{
	int64_t until_ns = clock_monotonic_ns() +
			   ((int64_t)watch->spec->watch.monitor.timeout_ms + 1000) * 1000000;
	struct watcher *reader = &watch->readers.items[watch->monitor_index];
	bool is_shut = false;

	while (watch->monitor.fd >= 0 && clock_monotonic_ns() < until_ns) {
		struct pollfd fds[EVENTLOG_EXTRA];

		if (!is_shut && reader->used == 0) {
			watch->is_last = true;
			shutdown(watch->monitor.fd, SHUT_WR);
			is_shut = true;
		}
		want(fds, watch);
		if (poll(fds, EVENTLOG_EXTRA, 100) > 0)
			move(fds, watch);
	}
	watch->is_last = true;
}

void watching_finish(struct watching *watch)
{
	if (!watch)
		return;
	if (watch->monitor.fd >= 0)
		read_last_answer(watch);
	if (watch->monitor.pid > 0) {
		struct watcher *reader = &watch->readers.items[watch->monitor_index];

		watch_monitor_reap(&watch->monitor);
		watch->monitor.fd = -1;
		if (reader->fd >= 0)
			close(reader->fd);
		reader->fd = -1;
		reader->used = 0;
	}
}

void watching_close(struct watching *watch)
{
	if (!watch)
		return;
	watch_monitor_reap(&watch->monitor);
	watchers_close(&watch->readers);
	rules_free(watch->rules);
	free(watch);
}
