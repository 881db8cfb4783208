/* SPDX-License-Identifier: Apache-2.0 */
/* The use of boxes, as samples over time. */
#include "e2b/e2b-metrics.h"

#include "base/scope.h"
#include "base/str.h"
#include "e2b/connect.h"
#include "e2b/e2b-objects.h"

#include <stdio.h>
#include <stdlib.h>

#define ANSWER_MAX  (16U << 20)
#define SAMPLES_MAX 8192
#define BOXES_MAX   100

static void write_sample(struct json *json, const char *key, const struct box *box,
			 const struct box_sample *sample)
{
	char text[32];

	json_open(json, key, '{');
	api_time(sample->time_ms, text);
	json_str(json, "timestamp", text);
	json_int(json, "timestampUnix", sample->time_ms / 1000);
	json_uint(json, "cpuCount", box->cpus);
	snprintf(text, sizeof text, "%.2f", sample->cpu_percent);
	e2b_write_raw(json, "cpuUsedPct", text);
	json_uint(json, "memUsed", sample->memory_used);
	json_uint(json, "memTotal", sample->memory_total);
	json_uint(json, "memCache", sample->memory_cache);
	json_uint(json, "diskUsed", sample->disk_used);
	json_uint(json, "diskTotal", sample->disk_total);
	json_close(json, '}');
}

/* Seconds since 1970; `missing_ms` if the parameter is missing. */
static bool read_time(struct api_call *call, const char *name, int64_t missing_ms, int64_t *ret)
{
	const char *text = exchange_query(call->exchange, name);
	uint64_t seconds;

	*ret = missing_ms;
	if (!text)
		return true;
	if (!connect_number(text, &seconds)) {
		api_refuse(call, 400, "%s: is no number of seconds since 1970", name);
		return false;
	}
	*ret = (int64_t)seconds * 1000;
	return true;
}

void e2b_metrics(struct api_call *call)
{
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	cleanup_free struct box_sample *samples = NULL;
	struct box *box = api_box(call);
	struct json json = {&out};
	int64_t from, to;
	size_t n;

	if (!box || !read_time(call, "start", 0, &from) ||
	    !read_time(call, "end", INT64_MAX - 1000, &to))
		return;
	samples = calloc(SAMPLES_MAX, sizeof *samples);
	/* The last second is included. */
	n = samples ? box_samples(box, from, to + 999, samples, SAMPLES_MAX) : 0;
	json_open(&json, NULL, '[');
	for (size_t i = 0; i < n; i++)
		write_sample(&json, NULL, box, &samples[i]);
	json_close(&json, ']');
	api_answer(call, 200, &out);
}

/* The latest sample of a box. */
static void write_latest(struct json *json, struct tenant *tenant, const char *id,
			 struct box_sample *samples)
{
	struct box *box = box_find(tenant, id);
	size_t n = box ? box_samples(box, 0, INT64_MAX, samples, SAMPLES_MAX) : 0;

	if (n > 0)
		write_sample(json, box->id, box, &samples[n - 1]);
}

void e2b_metrics_of_many(struct api_call *call)
{
	const char *ids = exchange_query(call->exchange, "sandbox_ids");
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	cleanup_free struct box_sample *samples = calloc(SAMPLES_MAX, sizeof *samples);
	struct json json = {&out};
	size_t n_boxes = 0;

	if (!ids) {
		api_refuse(call, 400, "sandbox_ids: is missing");
		return;
	}
	json_open(&json, NULL, '{');
	json_open(&json, "sandboxes", '{');
	while (samples && *ids && n_boxes++ < BOXES_MAX) {
		size_t n = strcspn(ids, ",");
		cleanup_free char *id = strndup(ids, n);

		if (id)
			write_latest(&json, call->tenant, id, samples);
		ids += n;
		ids += *ids == ',';
	}
	json_close(&json, '}');
	json_close(&json, '}');
	api_answer(call, 200, &out);
}
