/* SPDX-License-Identifier: Apache-2.0 */
#include "eventlog/watching.h"

#include "audit/event-rules.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "eventlog/eventlog-inner.h"
#include "eventlog/watchers.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

/* What was said and is not written down yet: lines come while another is being written. */
#define SAID_MAX 32
/* As often a monitor's flags and failures are told in one run. */
#define MONITOR_HITS_MAX 64

struct watching {
	const struct spec *spec;
	struct eventlog *recorder;
	struct atoll_result *result;
	struct rules *rules;
	struct watchers readers;
	struct watch_monitor monitor;
	size_t monitor_index; /* among the readers */
	unsigned monitor_hits;
	bool is_last; /* the monitor is asked about nothing more */
	struct watch_said said[SAID_MAX];
	size_t n_said;
	uint64_t lost; /* lines that readers missed, for the record */
	char lost_why[160];
};

/* ---- what is said ---- */

static void say(struct watching *watch, const struct watch_said *said)
{
	if (watch->n_said < SAID_MAX) {
		watch->said[watch->n_said++] = *said;
		return;
	}
	/* The gravest must not be missed. */
	if (said->verdict > watch->said[SAID_MAX - 1].verdict)
		watch->said[SAID_MAX - 1] = *said;
}

static void look(struct watching *watch, const char *line, size_t size)
{
	struct rule_hit hits[RULE_COUNT];
	size_t n = rules_look(watch->rules, line, size, hits);

	for (size_t i = 0; i < n; i++) {
		struct watch_said said = {.verdict = watch->spec->watch.rules[hits[i].rule],
					  .step = hits[i].step,
					  .about = {hits[i].seq},
					  .n_about = 1};

		snprintf(said.by, sizeof said.by, "rule:%s", rule_name(hits[i].rule));
		snprintf(said.why, sizeof said.why, "%s", hits[i].why);
		say(watch, &said);
	}
}

static void emitted(const char *line, size_t size, void *data)
{
	struct watching *watch = data;

	if (watch->rules)
		look(watch, line, size);
	watchers_send(&watch->readers, line, size);
}

static void missed(void *data, const struct watcher *watcher, uint64_t count, const char *why)
{
	struct watching *watch = data;
	char unheard[192], *note = watch->result ? watch->result->events_note : unheard;
	const size_t size = sizeof unheard;

	_Static_assert(sizeof unheard == sizeof watch->result->events_note, "the same size");
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
	struct watch_said said = {.by = "monitor",
				  .verdict = watch->spec->watch.monitor.on_failure,
				  .why = "the monitor's program has ended before the run"};

	if (!watch->is_last)
		say(watch, &said);
}

static void take_answers(struct watching *watch)
{
	struct watch_said said;
	int r;

	while ((r = watch_monitor_take(&watch->monitor, &said)) > 0) {
		if (r == 1 &&
		    (watch->monitor_hits++ < MONITOR_HITS_MAX || said.verdict > RULE_FLAG))
			say(watch, &said);
	}
	if (r == -EPIPE && watch->monitor.fd >= 0) {
		monitor_is_gone(watch);
		/* Closed by the readers, to whom it belongs. */
		watch->monitor.fd = -1;
	}
}

static void move(const struct pollfd *fds, void *data)
{
	struct watching *watch = data;

	if (watch->monitor.fd >= 0 && fds[watch->monitor_index].revents & (POLLIN | POLLHUP))
		take_answers(watch);
	watchers_move(&watch->readers, fds);
}

static int64_t deadline_ns(void *data)
{
	const struct watching *watch = data;

	return watch->n_said || watch->lost ? 0 : watchers_deadline_ns(&watch->readers);
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
	/* From here on it is the readers', who close it. */
	if (watchers_add_socket(&watch->readers, watch->monitor.fd, "monitor", err) < 0)
		return -ENOMEM;
	return r;
}

int watching_open(const struct spec *spec, const char *const *events, struct eventlog *recorder,
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
	watch->recorder = recorder;
	watch->result = result;
	watch->monitor.fd = -1;
	watch->readers.missed = missed;
	watch->readers.data = watch;
	r = start(watch, events, err);
	if (r < 0) {
		watching_close(watch);
		return r;
	}
	eventlog_watch(recorder, &(struct eventlog_hooks){.emitted = emitted,
							  .want = want,
							  .move = move,
							  .deadline_ns = deadline_ns,
							  .data = watch});
	*ret = watch;
	return 0;
}

bool watching_holds(struct watching *watch)
{
	return watch && watchers_hold(&watch->readers);
}

/* ---- lines about lines ---- */

static const char *word_of(const struct watch_said *said)
{
	return said->verdict == RULE_OFF ? "allow" : rule_verdict_word(said->verdict);
}

static void keep(struct atoll_result *result, const struct watch_said *said)
{
	struct atoll_flag *flag = &result->flags[result->n_flags];

	if (result->n_flags++ >= ATOLL_FLAGS_MAX)
		return;
	flag->seq = said->n_about ? said->about[0] : UINT64_MAX;
	snprintf(flag->by, sizeof flag->by, "%s", said->by);
	snprintf(flag->verdict, sizeof flag->verdict, "%s", word_of(said));
	snprintf(flag->why, sizeof flag->why, "%s", said->why);
}

static void write_flag(struct watching *watch, const struct watch_said *said)
{
	/* What a rule ends or holds is written whatever the log's size; a mere remark may be
	 * repeated without end. */
	struct json *json =
		said->verdict <= RULE_FLAG
			? eventlog_begin_event(watch->recorder,
					       &(struct eventlog_event){.kind = "flag",
									.step = said->step,
									.rule = said->by,
									.count = 1})
			: eventlog_begin(watch->recorder, "flag", 0, said->step);

	json_str(json, "by", said->by);
	json_str(json, "verdict", word_of(said));
	json_str(json, "why", said->why);
	if (said->n_about && said->about[0] != UINT64_MAX)
		json_uint(json, "about", said->about[0]);
	else
		json_none(json, "about");
	if (said->n_about > 1) {
		json_open(json, "more", '[');
		for (size_t i = 1; i < said->n_about; i++)
			json_uint(json, NULL, said->about[i]);
		json_close(json, ']');
	}
	eventlog_commit(watch->recorder);
}

static void write_lost(struct watching *watch)
{
	/* Each time that a slow reader has caught up: as often as the command likes. */
	struct json *json = eventlog_begin_event(watch->recorder,
						 &(struct eventlog_event){.kind = "lost",
									  .rule = watch->lost_why,
									  .count = watch->lost});

	json_uint(json, "count", watch->lost);
	json_str(json, "why", watch->lost_why);
	watch->lost = 0;
	eventlog_commit(watch->recorder);
}

bool watching_settle(struct watching *watch, struct watch_said *ret)
{
	struct watch_said gravest = {0};
	bool has_said = false;

	if (!watch)
		return false;
	if (watch->lost)
		write_lost(watch);
	/* Lines that are written here may add to it. */
	for (size_t i = 0; i < watch->n_said; i++) {
		const struct watch_said said = watch->said[i];

		write_flag(watch, &said);
		if (watch->result)
			keep(watch->result, &said);
		if (!has_said || said.verdict > gravest.verdict)
			gravest = said;
		has_said = true;
	}
	watch->n_said = 0;
	*ret = gravest;
	return has_said;
}

/* ---- the end ---- */

/* The last batch is asked about at once, and waited for as long as an answer may take. */
static void hear_last(struct watching *watch)
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
		hear_last(watch);
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
