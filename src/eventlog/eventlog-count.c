/* SPDX-License-Identifier: Apache-2.0 */
#include "eventlog/eventlog-count.h"

#include "base/error.h"
#include "base/str.h"
#include "eventlog/eventlog-line.h"
#include "layer/layer.h"
#include "layer/store.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The size limit of an event log
 *
 * The command decides how many events there are, and a refused call costs it a microsecond: 64 MB
 * of denials were written in 10 s. So a log has a size (audit.size in the contract, 16 MiB by
 * default).
 *   - Lines about events (exec, denial, connection, change, flag, lost, refused approvals about the
 *     network) are written up to that size. Three quarters of it may be filled before a step has
 *     ended; the last quarter is for the files that the step changed.
 *   - Beyond it events are counted by kind and rule, connections by verdict as well (an allowed and
 * a refused request may have the same rule), with the number of distinct objects.
 *   - The counts are lines of kind `lost`: at the end of a step, and meanwhile each time that the
 * sum has doubled, so that their number is bounded, too.
 *   - Start, end, permissions and the counts are always written.
 *
 * Event rules and readers (watching.c) get every line, also of a counted event: its `seq` is 2^64 -
 * 1, because it has no place in the log.
 */

#define ROWS	     64
#define RULE_MAX     256
#define DISTINCT_MAX 1024 /* objects that are counted as distinct; half of the slots */
#define SLOTS	     (2 * DISTINCT_MAX)

struct tally_row {
	uint32_t step;
	char kind[16], rule[RULE_MAX]; /* rule "": none, or several rules without a row */
	const char *verdict;	       /* of connections; else NULL */
	uint64_t count, written;
	uint32_t n_distinct;
	bool has_more; /* more distinct objects than DISTINCT_MAX */
	uint64_t *slots;
};

struct eventlog_tally {
	struct tally_row rows[ROWS];
	size_t n;
	uint64_t total, written;
};

/* ---- distinct objects ---- */

static void note_object(struct tally_row *row, const char *object)
{
	unsigned char hash[HASH_SIZE];
	uint64_t key;

	if (!row->slots)
		row->slots = calloc(SLOTS, sizeof *row->slots);
	if (!row->slots) {
		row->has_more = true;
		return;
	}
	hash_sha256(object, strlen(object), hash);
	memcpy(&key, hash, sizeof key);
	key = key ? key : 1;
	for (uint64_t at = key;; at++) {
		uint64_t *slot = &row->slots[at % SLOTS];

		if (*slot == key)
			return;
		if (*slot)
			continue;
		if (row->n_distinct == DISTINCT_MAX) {
			row->has_more = true;
			return;
		}
		*slot = key;
		row->n_distinct++;
		return;
	}
}

/* ---- rows ---- */

static struct tally_row *find(struct eventlog_tally *tally, uint32_t step, const char *kind,
			      const char *verdict, const char *rule)
{
	for (size_t i = 0; i < tally->n; i++) {
		struct tally_row *row = &tally->rows[i];

		if (row->step == step && streq(row->kind, kind) && row->verdict == verdict &&
		    streq(row->rule, rule))
			return row;
	}
	return NULL;
}

/* The row of this kind and rule. If there is no room for it: a row of the kind, or at last one row
 * for everything. Verdicts are constants and compared as pointers. */
static struct tally_row *row_for(struct eventlog_tally *tally, uint32_t step, const char *kind,
				 const char *verdict, const char *rule)
{
	struct tally_row *row = find(tally, step, kind, verdict, rule);

	/* The last 16 rows are for kinds without a rule. */
	if (!row && tally->n >= ROWS - 16)
		row = find(tally, step, kind, verdict, rule = "");
	if (!row && tally->n >= ROWS - 1)
		row = find(tally, step = 0, kind = "event", verdict = NULL, rule = "");
	if (row)
		return row;
	row = &tally->rows[tally->n++];
	*row = (struct tally_row){.step = step, .verdict = verdict};
	snprintf(row->kind, sizeof row->kind, "%s", kind);
	snprintf(row->rule, sizeof row->rule, "%s", rule);
	return row;
}

static void count(struct eventlog *eventlog, const struct eventlog_event *event)
{
	char rule[RULE_MAX];
	struct tally_row *row;

	if (!eventlog->tally)
		eventlog->tally = calloc(1, sizeof *eventlog->tally);
	if (!eventlog->tally) {
		eventlog->n_dropped += event->count;
		return;
	}
	snprintf(rule, sizeof rule, "%s", event->rule ? event->rule : "");
	row = row_for(eventlog->tally, event->step, event->kind, event->verdict, rule);
	row->count += event->count;
	eventlog->tally->total += event->count;
	if (event->object)
		note_object(row, event->object);
}

/* ---- the size limit ---- */

static uint64_t room(const struct eventlog *eventlog, const struct eventlog_event *event)
{
	/* A log that eventlog_continue() opened has no contract: apply and undo write few lines. */
	const uint64_t size = eventlog->spec ? eventlog->spec->watch.log_bytes : UINT64_MAX;

	return streq(event->kind, "change") ? size : size / 4 * 3;
}

struct json *eventlog_begin_event(struct eventlog *eventlog, const struct eventlog_event *event)
{
	const bool is_counted = audit_bytes(eventlog->log) >= room(eventlog, event);

	eventlog->is_counted = is_counted;
	if (is_counted)
		count(eventlog, event);
	else
		eventlog->has_events = true;
	return is_counted ? audit_begin_unlogged(eventlog->log, event->kind, event->time_ns,
						 event->step)
			  : eventlog_begin(eventlog, event->kind, event->time_ns, event->step);
}

/* ---- writing the counts ---- */

static void write_row(struct eventlog *eventlog, struct tally_row *row)
{
	struct json *json;

	if (row->count == row->written)
		return;
	json = eventlog_begin(eventlog, "lost", 0, row->step);
	json_uint(json, "count", row->count - row->written);
	json_str(json, "why", "the log has its size (audit.size): counted only");
	json_str(json, "of", row->kind);
	if (row->verdict)
		json_str(json, "verdict", row->verdict);
	json_str(json, "rule", row->rule[0] ? row->rule : NULL);
	json_uint(json, "distinct", row->n_distinct);
	if (row->has_more)
		json_bool(json, "more", true);
	row->written = row->count;
	eventlog_commit(eventlog);
}

void eventlog_write_counted(struct eventlog *eventlog, uint32_t step)
{
	struct eventlog_tally *tally = eventlog->tally;

	for (size_t i = 0; tally && i < tally->n;) {
		struct tally_row *row = &tally->rows[i];

		if (step && row->step && row->step != step) {
			i++;
			continue;
		}
		write_row(eventlog, row);
		free(row->slots);
		*row = tally->rows[--tally->n];
	}
	if (tally)
		tally->written = tally->total;
}

void eventlog_write_doubled(struct eventlog *eventlog)
{
	struct eventlog_tally *tally = eventlog->tally;

	if (!tally || tally->total / 2 < tally->written || tally->total == tally->written)
		return;
	tally->written = tally->total;
	for (size_t i = 0; i < tally->n; i++)
		write_row(eventlog, &tally->rows[i]);
}

void eventlog_forget_counted(struct eventlog *eventlog)
{
	for (size_t i = 0; eventlog->tally && i < eventlog->tally->n; i++)
		free(eventlog->tally->rows[i].slots);
	free(eventlog->tally);
	eventlog->tally = NULL;
}

/* ---- the floor ---- */

/* The free-space floor of the disk is for other programs: events may not use it up, the lines that
 * end a step may. */
int eventlog_check_floor(struct eventlog *eventlog, struct atoll_error *err)
{
	uint64_t left, floor;

	if (!eventlog->has_events || audit_space(eventlog->log, &left, &floor) < 0 || left >= floor)
		return 0;
	return error_set(err, ATOLL_FAULT_HOST, ENOSPC,
			 "the record of run %s: %llu KiB are free where it is kept, and %llu KiB "
			 "have to stay so",
			 eventlog->id, (unsigned long long)(left >> 10),
			 (unsigned long long)(floor >> 10));
}
