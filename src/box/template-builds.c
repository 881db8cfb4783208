/* SPDX-License-Identifier: Apache-2.0 */
#include "box/template-builds.h"

#include "base/error.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/daemon-state.h"
#include "box/template.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Which builds there are, what they are called, and what they have said
 *
 * In memory only. Of those that have ended a tenant's latest are remembered, for whoever asks how
 * they went.
 */

#define BUILDS_MAX 64 /* of a tenant */

static struct build *builds;

/* ---- its log ---- */

void build_log_text(struct build *build, bool is_error, const char *text, size_t size)
{
	struct build_line *line;

	if (size > BUILD_LINE_MAX)
		size = BUILD_LINE_MAX;
	if (build->n_lines >= BUILD_LOGS_MAX || build->log_bytes > BUILD_LOG_MAX)
		return;
	build->log_bytes += size + sizeof *line;
	if (build->n_lines == build->room) {
		size_t room = build->room ? build->room * 2 : 64;
		struct build_line *lines = realloc(build->lines, room * sizeof *lines);

		if (!lines)
			return;
		build->lines = lines;
		build->room = room;
	}
	line = &build->lines[build->n_lines];
	*line = (struct build_line){daemon_now_ms(), is_error};
	if (build->n_lines == BUILD_LOGS_MAX - 1 || build->log_bytes > BUILD_LOG_MAX)
		line->text = strdup("[the log is full]");
	else
		line->text = strndup(text, size);
	build->n_lines += line->text != NULL;
}

void build_log(struct build *build, bool is_error, const char *format, ...)
{
	char text[1024];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	build_log_text(build, is_error, text, strlen(text));
}

/* ---- which there are ---- */

static void build_free(struct build *build)
{
	struct build **at = &builds;

	while (*at != build)
		at = &(*at)->next;
	*at = build->next;
	for (size_t i = 0; i < build->n_lines; i++)
		free(build->lines[i].text);
	free(build->lines);
	json_decref(build->tags);
	json_decref(build->request);
	json_decref(build->settings);
	free(build);
}

/* Those that have ended make room, the oldest first; they stand at the end. */
static int make_room(struct tenant *tenant, struct atoll_error *err)
{
	struct build *oldest = NULL;
	size_t n = 0;

	for (struct build *at = builds; at; at = at->next) {
		if (at->tenant != tenant)
			continue;
		n++;
		if (at->state != BUILD_BUILDING)
			oldest = at;
	}
	if (n < BUILDS_MAX)
		return 0;
	if (!oldest)
		return error_set(err, ATOLL_FAULT_POLICY, EDQUOT, "%d builds are the most",
				 BUILDS_MAX);
	build_free(oldest);
	return 0;
}

static bool is_word(const char *text, size_t size, size_t max)
{
	return size < max && str_is_plain_name(text, size) &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-_.") >= size;
}

static int copy_tag(struct build *build, const char *tag, struct atoll_error *err)
{
	size_t index;
	json_t *known;

	if (!tag || !is_word(tag, strlen(tag), 32))
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "'%.40s' is no tag: a-z, 0-9, '-', '_', '.'", tag ? tag : "");
	json_array_foreach(build->tags, index, known)
	{
		if (streq(json_string_value(known), tag))
			return 0;
	}
	if (json_array_size(build->tags) >= 16)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "16 tags are the most");
	return json_array_append_new(build->tags, json_string(tag)) < 0 ? error_oom(err) : 0;
}

static int copy_names(struct build *build, const char *name, json_t *tags, struct atoll_error *err)
{
	char plain[160];
	const char *colon;
	size_t index;
	json_t *tag;
	int r = 0;

	kind_plain(name, plain);
	colon = strchr(plain, ':');
	if (!is_word(plain, colon ? (size_t)(colon - plain) : strlen(plain), 64))
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "'%.64s' is no name of a template: a-z, 0-9, '-', '_', '.', and "
				 "perhaps ':TAG'",
				 name);
	snprintf(build->name, sizeof build->name, "%.*s",
		 colon ? (int)(colon - plain) : (int)strlen(plain), plain);
	build->tags = json_array();
	if (!build->tags)
		return error_oom(err);
	if (colon)
		r = copy_tag(build, colon + 1, err);
	json_array_foreach(tags, index, tag)
	{
		if (r == 0)
			r = copy_tag(build, json_string_value(tag), err);
	}
	if (r == 0 && json_array_size(build->tags) == 0)
		r = copy_tag(build, "default", err);
	return r;
}

struct build *build_new(struct tenant *tenant, const char *name, json_t *tags, uint32_t cpus,
			uint32_t memory_mib, struct atoll_error *err)
{
	struct build *build;
	const struct kind *kind;

	if (make_room(tenant, err) < 0)
		return NULL;
	build = calloc(1, sizeof *build);
	if (!build) {
		error_oom(err);
		return NULL;
	}
	build->tenant = tenant;
	build->made_ms = daemon_now_ms();
	build->cpus = cpus;
	build->memory_mib = memory_mib;
	daemon_random_hex(build->id, 32);
	build->next = builds;
	builds = build;
	if (copy_names(build, name, tags, err) < 0) {
		build_free(build);
		return NULL;
	}
	kind = kind_find(inner_tenant(tenant), build->name);
	if (kind && !kind->tenant) {
		error_set(err, ATOLL_FAULT_REQUEST, EEXIST, "'%s' is a template of ours",
			  build->name);
		build_free(build);
		return NULL;
	}
	return build;
}

struct build *build_find(struct tenant *tenant, const char *name, const char *id)
{
	struct build *build = builds;

	while (build && (build->tenant != tenant || !streq(build->id, id) ||
			 (name && !streq(build->name, name))))
		build = build->next;
	return build;
}

size_t build_count(struct tenant *tenant)
{
	size_t n = 0;

	for (const struct build *at = builds; at; at = at->next)
		n += at->tenant == tenant && at->state == BUILD_BUILDING;
	return n;
}
