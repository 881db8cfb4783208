/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b-templates.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "e2b/e2b-template-files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Building templates
 *
 * A client asks for a name, uploads each set of files (e2b-template-files.c), sends the steps, and
 * polls the build until it has ended. The id of a template is its name.
 */

#define BODY_MAX   (4U << 20)
#define ANSWER_MAX (8U << 20)
#define LINES_MAX  1000 /* of one answer */

/* The tenant's build that the first two parameters of the path name. NULL: the call was
 * answered. */
static struct build *get_build(struct api_call *call)
{
	struct build *build =
		build_find(call->tenant, api_parameter(call, 0), api_parameter(call, 1));

	if (!build)
		api_refuse(call, 404, "build '%.64s' of template '%.64s' not found",
			   api_parameter(call, 1), api_parameter(call, 0));
	return build;
}

/* ---- POST /v3/templates ---- */

static void write_tags(struct json *json, json_t *tags)
{
	size_t index;
	json_t *tag;

	json_open(json, "tags", '[');
	json_array_foreach(tags, index, tag) json_str(json, NULL, json_string_value(tag));
	json_close(json, ']');
}

static void answer_build(struct api_call *call, const struct build *build)
{
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {&out};
	char full[160];

	snprintf(full, sizeof full, "local/%s", build->name);
	json_open(&json, NULL, '{');
	json_str(&json, "templateID", build->name);
	json_str(&json, "buildID", build->id);
	json_bool(&json, "public", false);
	json_open(&json, "names", '[');
	json_str(&json, NULL, full);
	json_close(&json, ']');
	write_tags(&json, build->tags);
	json_open(&json, "aliases", '[');
	json_str(&json, NULL, build->name);
	json_close(&json, ']');
	json_close(&json, '}');
	api_answer(call, 202, &out);
}

static bool get_number(struct api_call *call, json_t *body, const char *name, uint32_t *ret)
{
	json_t *value = json_object_get(body, name);

	*ret = 0;
	if (!value || json_is_null(value))
		return true;
	if (json_is_integer(value) && json_integer_value(value) > 0 &&
	    json_integer_value(value) < 1 << 24) {
		*ret = (uint32_t)json_integer_value(value);
		return true;
	}
	api_refuse(call, 400, "%s: no number that makes sense", name);
	return false;
}

static void request_build(struct api_call *call, json_t *body)
{
	const char *name = json_string_value(json_object_get(body, "name"));
	json_t *tags = json_object_get(body, "tags");
	struct atoll_error err = {0};
	uint32_t cpus, memory_mib;
	struct build *build;

	if (!name)
		name = json_string_value(json_object_get(body, "alias"));
	if (!name || (tags && !json_is_null(tags) && !json_is_array(tags))) {
		api_refuse(call, 400, name ? "tags: not a list" : "name: is missing");
		return;
	}
	if (!get_number(call, body, "cpuCount", &cpus) ||
	    !get_number(call, body, "memoryMB", &memory_mib))
		return;
	build = build_new(call->tenant, name, tags, cpus, memory_mib, &err);
	if (build)
		answer_build(call, build);
	else
		api_fail(call, &err);
}

static void templates_post(struct api_call *call)
{
	api_read_json(call, BODY_MAX, true, request_build);
}

/* ---- POST /v2/templates/{id}/builds/{build} ---- */

static void begin_build(struct api_call *call, json_t *body)
{
	struct build *build = get_build(call);
	struct atoll_error err = {0};

	if (!build)
		return;
	if (build_begin(build, body, &err) < 0)
		api_fail(call, &err);
	else
		api_answer_empty(call, 202);
}

static void build_post(struct api_call *call)
{
	api_read_json(call, BODY_MAX, true, begin_build);
}

/* ---- GET /templates/{id}/builds/{build}/status ---- */

static void write_line(struct json *json, const struct build_line *line)
{
	char time[32];

	api_time(line->time_ms, time);
	json_open(json, NULL, '{');
	json_str(json, "timestamp", time);
	json_str(json, "level", line->is_error ? "error" : "info");
	json_str(json, "message", line->text);
	json_close(json, '}');
}

static void write_reason(struct json *json, const struct build *build)
{
	json_open(json, "reason", '{');
	json_str(json, "message", build->reason);
	json_str(json, "step", build->step);
	json_open(json, "logEntries", '[');
	json_close(json, ']');
	json_close(json, '}');
}

static void status_get(struct api_call *call)
{
	static const char *const states[] = {"waiting", "building", "ready", "error"};
	const char *text = exchange_query(call->exchange, "logsOffset");
	struct build *build = get_build(call);
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {&out};
	size_t from, to;

	if (!build)
		return;
	from = text ? strtoul(text, NULL, 10) : 0;
	if (from > build->n_lines)
		from = build->n_lines;
	to = build->n_lines - from > LINES_MAX ? from + LINES_MAX : build->n_lines;
	json_open(&json, NULL, '{');
	json_str(&json, "templateID", build->name);
	json_str(&json, "buildID", build->id);
	json_str(&json, "status", states[build->state]);
	json_open(&json, "logs", '[');
	for (size_t i = from; i < to; i++)
		json_str(&json, NULL, build->lines[i].text);
	json_close(&json, ']');
	json_open(&json, "logEntries", '[');
	for (size_t i = from; i < to; i++)
		write_line(&json, &build->lines[i]);
	json_close(&json, ']');
	if (build->state == BUILD_ERROR)
		write_reason(&json, build);
	json_close(&json, '}');
	api_answer(call, 200, &out);
}

/* ---- tags ---- */

/* Tags are set one after the other; the client may go meanwhile. */
struct tagging {
	struct api_call *call; /* NULL: the client has gone */
	struct tenant *tenant;
	json_t *body;
	size_t at;
};

static void tag_next(struct tagging *tagging);

static void tagging_over(struct api_call *call, bool is_broken)
{
	struct tagging *tagging = call->own;

	(void)is_broken;
	if (tagging)
		tagging->call = NULL;
}

static void tagging_end(struct tagging *tagging, const struct atoll_error *err)
{
	const char *target = json_string_value(json_object_get(tagging->body, "target"));
	struct api_call *call = tagging->call;
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {&out};
	struct template_tag tag = {0};
	const struct kind *at = NULL;
	char name[160];

	if (call) {
		call->own = NULL;
		call->over = NULL;
	}
	if (call && err) {
		api_fail(call, err);
	} else if (call) {
		snprintf(name, sizeof name, "%.*s", (int)strcspn(target, ":"), target);
		template_tag_next(tagging->tenant, name, &at, &tag);
		json_open(&json, NULL, '{');
		json_str(&json, "buildID", tag.build);
		write_tags(&json, json_object_get(tagging->body, "tags"));
		json_close(&json, '}');
		api_answer(call, 201, &out);
	}
	json_decref(tagging->body);
	free(tagging);
}

static void on_tagged(const struct atoll_error *err, void *data)
{
	struct tagging *tagging = data;

	if (err->fault != ATOLL_FAULT_NONE)
		tagging_end(tagging, err);
	else
		tag_next(tagging);
}

static void tag_next(struct tagging *tagging)
{
	json_t *tags = json_object_get(tagging->body, "tags");
	const char *tag = json_string_value(json_array_get(tags, tagging->at++));

	if (tag)
		template_add_tag(tagging->tenant,
				 json_string_value(json_object_get(tagging->body, "target")), tag,
				 on_tagged, tagging);
	else
		tagging_end(tagging, NULL);
}

static bool check_tags(struct api_call *call, json_t *body, const char *name)
{
	json_t *tags = json_object_get(body, "tags"), *tag;
	bool is_good = json_is_array(tags) && json_array_size(tags) > 0 &&
		       json_array_size(tags) <= 64 && json_is_string(json_object_get(body, name));
	size_t index;

	json_array_foreach(tags, index, tag) is_good = is_good && json_is_string(tag);
	if (!is_good)
		api_refuse(call, 400, "%s and a list of tags are wanted", name);
	return is_good;
}

static void add_tags(struct api_call *call, json_t *body)
{
	struct tagging *tagging;

	if (!check_tags(call, body, "target"))
		return;
	tagging = calloc(1, sizeof *tagging);
	if (!tagging) {
		api_refuse(call, 500, "out of memory");
		return;
	}
	*tagging = (struct tagging){call, call->tenant, json_incref(body)};
	call->own = tagging;
	call->over = tagging_over;
	tag_next(tagging);
}

static void tags_post(struct api_call *call)
{
	api_read_json(call, BODY_MAX, true, add_tags);
}

static void remove_tags(struct api_call *call, json_t *body)
{
	const char *name = json_string_value(json_object_get(body, "name"));
	size_t index;
	json_t *tag;
	char ref[512];

	if (!check_tags(call, body, "name"))
		return;
	json_array_foreach(json_object_get(body, "tags"), index, tag)
	{
		snprintf(ref, sizeof ref, "%.128s:%.64s", name, json_string_value(tag));
		if (template_remove(call->tenant, ref) < 0) {
			api_refuse(call, 404, "template '%s' not found", ref);
			return;
		}
	}
	api_answer_empty(call, 204);
}

void e2b_remove_tags(struct api_call *call)
{
	api_read_json(call, BODY_MAX, true, remove_tags);
}

static void tags_get(struct api_call *call)
{
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {&out};
	const struct kind *at = NULL;
	struct template_tag tag;
	char time[32];

	json_open(&json, NULL, '[');
	while (template_tag_next(call->tenant, api_parameter(call, 0), &at, &tag)) {
		api_time(tag.made_ms, time);
		json_open(&json, NULL, '{');
		json_str(&json, "tag", tag.tag);
		json_str(&json, "buildID", tag.build);
		json_str(&json, "createdAt", time);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	if (!at)
		api_refuse(call, 404, "template '%.128s' not found", api_parameter(call, 0));
	else
		api_answer(call, 200, &out);
}

const struct api_route e2b_template_routes[] = {
	{"POST", "/v3/templates", templates_post},
	{"POST", "/v2/templates", templates_post},
	{"POST", "/v2/templates/{id}/builds/{build}", build_post},
	{"GET", "/templates/{id}/builds/{build}/status", status_get},
	{"GET", "/templates/{id}/files/{hash}", e2b_template_files_get},
	{"PUT", "/templates/{id}/files/{hash}", e2b_template_files_put, API_OPEN},
	{"POST", "/templates/tags", tags_post},
	{"GET", "/templates/{id}/tags", tags_get},
	{0},
};
