/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/top-data.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "remote/remote-http.h"
#include "remote/remote.h"
#include "remote/top.h"

#include <stdio.h>

static void describe(const json_t *box, char *ret, size_t size)
{
	json_t *labels = json_object_get(box, "labels"), *value;
	cleanup_buf struct buf out = BUF_INIT(4096);
	const char *name;

	json_object_foreach(labels, name, value)
		buf_addf(&out, "%s%s=%s", out.used ? " " : "", name, json_string_value(value));
	if (!out.used)
		buf_add_str(&out, text_of(box, "template"));
	str_show(out.data ? out.data : "", ret, size);
}

static void read_row(const json_t *box, struct top_row *ret)
{
	json_t *usage = json_object_get(box, "usage");

	str_show(text_of(box, "id"), ret->id, sizeof ret->id);
	str_show(text_of(box, "state"), ret->state, sizeof ret->state);
	describe(box, ret->what, sizeof ret->what);
	ret->cpu = fraction_of(usage, "cpuPercent");
	ret->memory = (uint64_t)number_of(usage, "memory");
	ret->bytes_in = (uint64_t)number_of(usage, "bytesIn");
	ret->bytes_out = (uint64_t)number_of(usage, "bytesOut");
	ret->processes = (uint64_t)number_of(usage, "processes");
	ret->steps = (uint64_t)number_of(usage, "livingSteps");
	ret->start_ms = time_of(box, "startedAt");
}

static int add_page(struct top *top, const json_t *page, size_t *n, struct atoll_error *err)
{
	json_t *items = json_object_get(page, "items"), *box;
	struct top_row *rows = realloc(top->rows, (*n + json_array_size(items) + 1) * sizeof *rows);
	size_t i;

	if (!rows)
		return error_oom(err);
	top->rows = rows;
	json_array_foreach(items, i, box) read_row(box, &rows[(*n)++]);
	return 0;
}

/* Fetches all sandboxes, page by page. On failure the old rows stay. */
static int fetch(struct top *top, struct atoll_error *err)
{
	cleanup_free char *after = NULL;
	json_t *page;
	size_t n = 0;
	int r;

	do {
		cleanup_free char *path = remote_path(NULL, "", "limit", "1000", "usage", "true",
						      "after", after, NULL);

		r = remote_call(&remote, "GET", path, NULL, 0, &page, err);
		if (r < 0)
			return r;
		r = add_page(top, page, &n, err);
		free(after);
		after = text_of(page, "next")[0] ? strdup(text_of(page, "next")) : NULL;
		json_decref(page);
	} while (r == 0 && after);
	top->n = n;
	return r;
}

static enum top_order sorted_by;

static int compare(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	double d = 0;

	if (sorted_by == ORDER_CPU)
		d = y->cpu - x->cpu;
	else if (sorted_by == ORDER_MEMORY)
		d = (double)y->memory - (double)x->memory;
	else if (sorted_by == ORDER_NETWORK)
		d = (double)(y->bytes_in + y->bytes_out) - (double)(x->bytes_in + x->bytes_out);
	else if (sorted_by == ORDER_AGE)
		d = (double)x->start_ms - (double)y->start_ms;
	return d < 0 ? -1 : d > 0 ? 1 : strcmp(x->id, y->id);
}

void top_sort(struct top *top)
{
	sorted_by = top->order;
	if (top->n > 1)
		qsort(top->rows, top->n, sizeof *top->rows, compare);
	/* The selection stays on the same sandbox after sorting. */
	for (size_t i = 0; i < top->n; i++) {
		if (streq(top->rows[i].id, top->selected_id))
			top->selected = i;
	}
	if (top->selected >= top->n)
		top->selected = top->n ? top->n - 1 : 0;
}

void top_fetch(struct top *top)
{
	struct atoll_error err = {0};

	top->problem[0] = '\0';
	if (fetch(top, &err) < 0)
		str_show(err.text, top->problem, sizeof top->problem);
	top->seen_ns = clock_monotonic_ns();
	top_sort(top);
}

const struct top_row *top_row(const struct top *top)
{
	return top->selected < top->n ? &top->rows[top->selected] : NULL;
}

/* ---- inside ---- */

static void read_step(const json_t *step, struct top_step *ret)
{
	cleanup_buf struct buf out = BUF_INIT(4096);
	json_t *word;
	size_t i;

	json_array_foreach(json_object_get(step, "command"), i, word)
		buf_addf(&out, "%s%s", i ? " " : "", json_string_value(word));
	ret->number = number_of(step, "number");
	ret->pid = number_of(step, "pid");
	ret->start_ms = time_of(step, "startedAt");
	str_show(text_of(step, "user"), ret->user, sizeof ret->user);
	str_show(out.data ? out.data : "", ret->command, sizeof ret->command);
}

void top_fetch_steps(struct top *top)
{
	cleanup_free char *path = remote_path(top->selected_id, "/steps", "state", "running", NULL);
	struct atoll_error err = {0};
	json_t *page, *items, *step;
	struct top_step *steps;
	size_t i;

	top->problem[0] = '\0';
	top->seen_ns = clock_monotonic_ns();
	if (remote_call(&remote, "GET", path, NULL, 0, &page, &err) < 0) {
		str_show(err.text, top->problem, sizeof top->problem);
		top->n_steps = 0;
		return;
	}
	items = json_object_get(page, "items");
	steps = realloc(top->steps, (json_array_size(items) + 1) * sizeof *steps);
	if (steps) {
		top->steps = steps;
		top->n_steps = json_array_size(items);
		json_array_foreach(items, i, step) read_step(step, &steps[i]);
	}
	json_decref(page);
}

/* ---- deeds ---- */

static void act(struct top *top, const char *method, const char *suffix, json_t *body,
		const char *done)
{
	const struct top_row *row = top_row(top);
	struct atoll_error err = {0};
	cleanup_free char *path = row ? remote_path(row->id, suffix, NULL) : NULL;

	if (!row)
		json_decref(body);
	else if (remote_call(&remote, method, path, body, 0, NULL, &err) < 0)
		str_show(err.text, top->said, sizeof top->said);
	else
		snprintf(top->said, sizeof top->said, "%s %s", row->id, done);
	top_fetch(top);
}

void top_toggle(struct top *top)
{
	const struct top_row *row = top_row(top);

	if (row && streq(row->state, "paused"))
		act(top, "POST", "/resume", json_object(), "goes on");
	else
		act(top, "POST", "/pause", json_object(), "is paused");
}

void top_kill(struct top *top)
{
	act(top, "DELETE", "", NULL, "is gone");
}

void top_free(struct top *top)
{
	free(top->rows);
	free(top->steps);
}
