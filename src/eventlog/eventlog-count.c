/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that are only counted
 *
 * A command decides how much happens, and a refused call costs it a microsecond: 64 MB of refusals
 * were written in 10 s. So a log has a size (audit.size in the contract, 16 MiB unless said). Lines
 * about what happens inside (exec, denial, connection, change, flag, lost, and approvals about the
 * network that were not given) are written up to that;
 * three quarters of it may be filled before a step has ended, the rest is for the files that it has
 * changed. Beyond that events are counted by kind and rule, connections by verdict as well (an
 * allowed and a refused request may have the same rule), with the number of different objects,
 * and the counts are lines of kind `lost`: at the end of a step, and meanwhile each time that the
 * sum has doubled, so that their number is bounded, too. Start, end, decisions that let something
 * happen or end it, and the counts themselves are always written.
 *
 * Rules and readers of events (watching.c) get every line, also one that is only counted: its `seq`
 * is 2^64 - 1, since it has no place in the log.
 *
 * Called by eventlog-event.c, eventlog-change.c and watching.c through eventlog_begin_event(), by
 * eventlog_commit() and by eventlog_end().
 */
#include "base/error.h"
#include "base/str.h"
#include "eventlog/eventlog-inner.h"
#include "layer/layer.h"
#include "layer/store.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS	     64
#define RULE_MAX     256
#define DISTINCT_MAX 1024 /* objects that are told apart; a power of 2, and half of the slots */
#define SLOTS	     (2 * DISTINCT_MAX)

struct tally_row {
	uint32_t step;
	char kind[16], rule[RULE_MAX]; /* "": none, or several that found no row */
	const char *verdict;	       /* of connections; else NULL */
	uint64_t count, told;
	uint32_t n_distinct;
	bool has_more; /* different objects than DISTINCT_MAX */
	uint64_t *slots;
};

struct eventlog_tally {
	struct tally_row rows[ROWS];
	size_t n;
	uint64_t total, told;
};

/* ---- different objects ---- */

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

/* The row of this kind and rule; where they are too many, of the kind, and then of all. Verdicts
 * are constants, compared as pointers. */
static struct tally_row *row_for(struct eventlog_tally *tally, uint32_t step, const char *kind,
				 const char *verdict, const char *rule)
{
	struct tally_row *row = find(tally, step, kind, verdict, rule);

	/* Some rows are kept for the kinds themselves. */
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

static void count(struct eventlog *recorder, const struct eventlog_event *event)
{
	char rule[RULE_MAX];
	struct tally_row *row;

	if (!recorder->tally)
		recorder->tally = calloc(1, sizeof *recorder->tally);
	if (!recorder->tally) {
		recorder->n_dropped += event->count;
		return;
	}
	snprintf(rule, sizeof rule, "%s", event->rule ? event->rule : "");
	row = row_for(recorder->tally, event->step, event->kind, event->verdict, rule);
	row->count += event->count;
	recorder->tally->total += event->count;
	if (event->object)
		note_object(row, event->object);
}

/* ---- how full ---- */

static uint64_t room(const struct eventlog *recorder, const struct eventlog_event *event)
{
	/* Later lines about a record (apply, undo) have no contract and no size limit: they are
	 * few. */
	const uint64_t size = recorder->spec ? recorder->spec->watch.log_bytes : UINT64_MAX;

	return streq(event->kind, "change") ? size : size / 4 * 3;
}

struct json *eventlog_begin_event(struct eventlog *recorder, const struct eventlog_event *event)
{
	const bool is_counted = audit_bytes(recorder->log) >= room(recorder, event);

	recorder->is_counted = is_counted;
	if (is_counted)
		count(recorder, event);
	else
		recorder->has_events = true;
	return is_counted ? audit_begin_unlogged(recorder->log, event->kind, event->time_ns,
						 event->step)
			  : eventlog_begin(recorder, event->kind, event->time_ns, event->step);
}

/* ---- telling ---- */

static void tell_row(struct eventlog *recorder, struct tally_row *row)
{
	struct json *json;

	if (row->count == row->told)
		return;
	json = eventlog_begin(recorder, "lost", 0, row->step);
	json_uint(json, "count", row->count - row->told);
	json_str(json, "why", "the log has its size (audit.size): counted only");
	json_str(json, "of", row->kind);
	if (row->verdict)
		json_str(json, "verdict", row->verdict);
	json_str(json, "rule", row->rule[0] ? row->rule : NULL);
	json_uint(json, "distinct", row->n_distinct);
	if (row->has_more)
		json_bool(json, "more", true);
	row->told = row->count;
	eventlog_commit(recorder);
}

void eventlog_write_counted(struct eventlog *recorder, uint32_t step)
{
	struct eventlog_tally *tally = recorder->tally;

	for (size_t i = 0; tally && i < tally->n;) {
		struct tally_row *row = &tally->rows[i];

		if (step && row->step && row->step != step) {
			i++;
			continue;
		}
		tell_row(recorder, row);
		free(row->slots);
		*row = tally->rows[--tally->n];
	}
	if (tally)
		tally->told = tally->total;
}

void eventlog_write_repeated(struct eventlog *recorder)
{
	struct eventlog_tally *tally = recorder->tally;

	if (!tally || tally->total / 2 < tally->told || tally->total == tally->told)
		return;
	tally->told = tally->total;
	for (size_t i = 0; i < tally->n; i++)
		tell_row(recorder, &tally->rows[i]);
}

void eventlog_forget_counted(struct eventlog *recorder)
{
	for (size_t i = 0; recorder->tally && i < recorder->tally->n; i++)
		free(recorder->tally->rows[i].slots);
	free(recorder->tally);
	recorder->tally = NULL;
}

/* ---- the floor ---- */

/* A run leaves some of the disk free for everybody else: what happens inside may not use that up,
 * while the lines that end a step may. */
int eventlog_check_floor(struct eventlog *recorder, struct atoll_error *err)
{
	uint64_t left, floor;

	if (!recorder->has_events || audit_space(recorder->log, &left, &floor) < 0 || left >= floor)
		return 0;
	return error_set(err, ATOLL_FAULT_HOST, ENOSPC,
			 "the record of run %s: %llu KiB are free where it is kept, and %llu KiB "
			 "have to stay so",
			 recorder->id, (unsigned long long)(left >> 10),
			 (unsigned long long)(floor >> 10));
}
