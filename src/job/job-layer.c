/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job-layer.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "job/run.h"
#include "layer/layer.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The part of a command line that a record shows to people. */
#define COMMAND_MAX 4000

/* ---- the store ---- */

/* Does a line grant a place in the store? The defaults grant none. */
static bool is_granted_within(const struct spec *spec, const char *store)
{
	char path[PATH_MAX];

	if (path_is_within(spec->workspace, store))
		return true;
	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if (rule->access == SPEC_HIDE || streq(rule->origin, "default"))
			continue;
		if (!rule->is_pattern)
			fd_real_path(rule->path, path);
		if (path_is_within(rule->is_pattern ? rule->path : path, store))
			return true;
	}
	return false;
}

int layer_check_reach(const struct spec *spec, struct atoll_error *err)
{
	const char *path = spec->store;
	const struct spec_rule *rule;

	if (!path)
		return 0;
	rule = spec_rule_for(spec, path);
	if ((rule ? rule->access == SPEC_HIDE : !path_is_within(path, spec->workspace)) &&
	    !is_granted_within(spec, path))
		return 0;
	return error_set(err, ATOLL_FAULT_POLICY, 0,
			 "records of runs are kept in '%s', which this command could reach; set "
			 "XDG_STATE_HOME to a place that it cannot",
			 path);
}

/* ---- before the command ---- */

/* The command line with quotes, as for a shell. */
static char *command_text(char *const *argv)
{
	cleanup_buf struct buf text = BUF_INIT((size_t)16 << 20);

	for (size_t i = 0; argv && argv[i] && text.used < COMMAND_MAX; i++) {
		bool is_plain =
			argv[i][0] && !argv[i][strcspn(argv[i], " \t\n\"'\\$`|&;<>()*?[#~!{")];

		if (i)
			buf_add_char(&text, ' ');
		if (!is_plain)
			buf_add_char(&text, '\'');
		for (const char *c = argv[i]; *c && text.used < COMMAND_MAX; c++) {
			if (*c == '\'')
				buf_add_str(&text, is_plain ? "'" : "'\\''");
			else
				buf_add_char(&text, *c);
		}
		if (!is_plain)
			buf_add_char(&text, '\'');
	}
	if (text.used >= COMMAND_MAX)
		buf_add_str(&text, "...");
	return buf_take(&text);
}

int layer_note_rules(struct layer_record *record, const struct spec *spec, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; i < spec->n_rules && r == 0; i++) {
		const struct spec_rule *rule = &spec->rules[i];
		bool is_hosts = streq(rule->origin, SPEC_ORIGIN_HOST);

		if (rule->access == SPEC_HIDE)
			r = layer_record_add_rule(record, "hide", rule->path, err);
		else if (rule->access == SPEC_PROTECT)
			r = layer_record_add_rule(record, is_hosts ? "obeyed" : "protect",
						  rule->path, err);
	}
	return r;
}

static int fill_record(struct run_layer *layer, const struct spec *spec, struct atoll_error *err)
{
	struct layer_record *record = layer->record;
	int r = layer_store_keep_bounds(&record->store, err);

	if (r == 0)
		r = spec_digest(spec, record->info.digest, err);
	if (r < 0)
		return r;
	record->info.is_memory = layer_store_needs_memory(spec->workspace);
	record->info.command = command_text(spec->command);
	layer->top = layer_top_path(record);
	if (!record->info.command || !layer->top)
		return error_oom(err);
	layer->cell.top = record->info.is_memory ? NULL : layer->top;
	r = layer_note_rules(record, spec, err);
	return r < 0 ? r : layer_record_save_soon(record, err);
}

int run_layer_open(struct run *run, struct atoll_error *err)
{
	struct run_layer *layer = &run->layer;
	int r;

	/* The second back end uses the same record. */
	if (run->spec->workspace_mode != SPEC_WORKSPACE_LAYER || layer->record)
		return 0;
	r = layer_record_create(ATOLL_RECORD_RUN, run->spec->workspace, &layer->record, err);
	if (r < 0)
		return r;
	r = fill_record(layer, run->spec, err);
	if (r < 0)
		return r;
	run->net.extra.layer = &layer->cell;
	run->net.extra.layer_is_memory = layer->record->info.is_memory;
	return 0;
}

void run_layer_started(const struct run *run)
{
	if (run->layer.record)
		dprintf(run->layer.record->lock_fd, "%d\n", run->handle.pid);
}

/* The supervisor removes leftovers of earlier runs while its command is idle: for TIDY_NS at a
 * time, and not before TIDY_AFTER_NS unless there are many, so that a short run does none of it. */
#define TIDY_NS	      500000
#define TIDY_AFTER_NS 25000000

void run_layer_idle(struct run *run)
{
	struct run_layer *layer = &run->layer;
	int64_t now_ns = clock_monotonic_ns();

	if (!layer->record || layer->is_tidy)
		return;
	if (!layer->tidy_ns) {
		bool is_littered = layer_store_is_littered(&layer->record->store);

		layer->tidy_ns = now_ns + (is_littered ? 0 : TIDY_AFTER_NS);
		/* A run that took a spare record usually returns it at its end. */
		if (!layer->record->is_ahead)
			layer_store_prepare(&layer->record->store);
	} else if (now_ns >= layer->tidy_ns) {
		layer->is_tidy = !layer_store_tidy(&layer->record->store, TIDY_NS);
		if (layer->is_tidy)
			layer_store_prepare(&layer->record->store);
	}
}

int64_t run_layer_wait_ms(const struct run *run)
{
	const struct run_layer *layer = &run->layer;
	int64_t left_ns = layer->tidy_ns - clock_monotonic_ns();

	if (!layer->record || layer->is_tidy)
		return INT_MAX;
	return !layer->tidy_ns || left_ns <= 0 ? 0 : left_ns / 1000000 + 1;
}

/* ---- after the command ---- */

static void count(struct atoll_result *result, const struct atoll_changes *changes)
{
	for (size_t i = 0; i < changes->n; i++) {
		switch (changes->items[i].kind) {
		case ATOLL_ADDED:
			result->n_added++;
			break;
		case ATOLL_DELETED:
			result->n_deleted++;
			break;
		default:
			result->n_changed++;
		}
	}
	result->n_marked = changes->n_marked;
	result->n_conflicts = changes->n_conflicts;
}

/* Returns 1 if the layer is empty. */
static int finish_record(struct run *run, struct atoll_error *err)
{
	struct layer_record *record = run->layer.record;
	struct layer_changes *changes;
	struct timespec now;
	int r = 0;

	if (run->handle.layer_fd >= 0)
		r = layer_take_in(record, run->handle.layer_fd, err);
	if (r < 0 || layer_top_is_empty(record))
		return r < 0 ? r : 1;
	r = layer_keep_base(record, err);
	if (r == 0)
		r = layer_changes_read(record, false, &changes, err);
	if (r < 0)
		return r;
	count(run->result, &changes->list);
	eventlog_changes(run->recorder, RUN_STEP, changes);
	r = changes->list.n == 0;
	atoll_changes_close(&changes->list);
	clock_gettime(CLOCK_REALTIME, &now);
	record->info.end_ns = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
	record->info.status = atoll_result_status(run->result);
	return r;
}

void run_layer_read(struct run *run)
{
	struct run_layer *layer = &run->layer;

	if (!layer->record || !run->is_started || layer->is_read)
		return;
	layer->is_read = true;
	layer->is_empty = finish_record(run, &layer->problem) == 1;
}

/* Finish the record of a run that has started. If that fails, the result has the reason; the files
 * stay in the store. */
static void keep(struct run *run)
{
	struct layer_record *record = run->layer.record;
	struct atoll_error *problem = &run->layer.problem;

	run_layer_read(run);
	if (run->layer.is_empty) {
		layer_record_recycle(record, NULL);
		return;
	}
	strcpy(run->result->record, record->info.id);
	if (!problem->text[0])
		layer_record_save_soon(record, problem);
	if (problem->text[0])
		snprintf(run->result->layer_note, sizeof run->result->layer_note, "%s",
			 problem->text);
}

void run_layer_close(struct run *run)
{
	struct run_layer *layer = &run->layer;

	if (!layer->record)
		return;
	if (run->is_started)
		keep(run);
	else
		layer_record_recycle(layer->record, NULL);
	if (run->handle.layer_fd >= 0)
		close(run->handle.layer_fd);
	layer_record_close(layer->record);
	free(layer->top);
	*layer = (struct run_layer){0};
}
