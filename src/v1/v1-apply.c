/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-apply.h"

#include "base/error.h"
#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"
#include "v1/v1-form.h"
#include "v1/v1-state.h"
#include "v1/v1-wait.h"

#include <errno.h>
#include <stdio.h>

/*
 * POST /v1/sandboxes/{id}/apply and /undo
 *
 * Only for a workspace that the configuration grants to the tenant; the thread checks this each
 * time. The rules are those of `atoll apply`: all or nothing, a marked file only if it is named,
 * links are not followed.
 */

#define LIST_MAX ((size_t)64 << 20)

struct apply_work {
	struct v1_work work;
	const struct config_tenant *grants;
	char **paths; /* relative to the workspace; NULL: all */
	bool merges, is_forced, is_dry, is_undo;
	struct atoll_apply_report report;
	bool has_conflicts;
	struct buf list;
	struct json json;
};

/* ---- on a thread ---- */

static const char *fate_name(enum atoll_apply_fate fate)
{
	static const char *const names[] = {
		[ATOLL_FATE_LEFT] = "left",	    [ATOLL_FATE_APPLIED] = "applied",
		[ATOLL_FATE_MERGED] = "merged",	    [ATOLL_FATE_HELD] = "held",
		[ATOLL_FATE_CONFLICT] = "conflict",
	};

	return names[fate];
}

static void add_fate(const struct atoll_change *change, enum atoll_apply_fate fate, const char *why,
		     void *data)
{
	struct apply_work *own = data;

	json_open(&own->json, NULL, '{');
	json_str(&own->json, "path", change->path);
	json_str(&own->json, "fate", fate_name(fate));
	json_str(&own->json, "why", why ? why : change->mark);
	json_close(&own->json, '}');
}

/* The library resolves relative paths by the working directory, which the daemon does not have. */
static char **whole_paths(const struct apply_work *own, const char *workspace)
{
	size_t n = 0;
	char **whole;

	while (own->paths[n])
		n++;
	whole = calloc(n + 1, sizeof *whole);
	for (size_t i = 0; whole && i < n; i++)
		whole[i] = path_join(workspace, own->paths[i]);
	return whole;
}

static void free_paths(char ***paths)
{
	for (size_t i = 0; *paths && (*paths)[i]; i++)
		free((*paths)[i]);
	free(*paths);
}

static int apply(struct apply_work *own, const char *workspace, struct atoll_error *err)
{
	cleanup_with(free_paths) char **paths = own->paths ? whole_paths(own, workspace) : NULL;
	struct atoll_apply_options options = {
		.paths = paths,
		.merges = own->merges,
		.is_forced = own->is_forced,
		.is_dry = own->is_dry,
		.told = add_fate,
		.data = own,
	};
	int r;

	if (own->paths && !paths)
		return error_oom(err);
	json_open(&own->json, NULL, '[');
	r = atoll_apply(own->work.sandbox, &options, &own->report, err);
	json_close(&own->json, ']');
	if (r >= 0 && buf_error(&own->list) < 0)
		r = error_set(err, ATOLL_FAULT_HOST, -buf_error(&own->list),
			      "it is applied, and its list is too long");
	return r;
}

static int run_apply(struct v1_work *work, struct atoll_error *err)
{
	struct apply_work *own = (struct apply_work *)work;
	char workspace[PATH_MAX];
	int r = box_granted_workspace(own->grants, work->sandbox, workspace, err);

	if (r < 0)
		return r;
	if (own->is_undo)
		r = atoll_undo(work->sandbox, own->is_forced, &own->report, err);
	else
		r = apply(own, workspace, err);
	own->has_conflicts = r == -EEXIST && own->report.n_conflicts > 0;
	return own->has_conflicts ? 0 : r;
}

/* ---- the answer ---- */

/* Conflicts are answered by 409 with their list. */
static void answer_apply(struct v1_work *work, struct api_call *call)
{
	struct apply_work *own = (struct apply_work *)work;
	cleanup_buf struct buf out = BUF_INIT(LIST_MAX + 4096);
	struct json json = {.out = &out};

	json_open(&json, NULL, '{');
	json_uint(&json, "applied", own->has_conflicts ? 0 : own->report.n_applied);
	json_uint(&json, "merged", own->has_conflicts ? 0 : own->report.n_merged);
	json_uint(&json, "held", own->report.n_held);
	json_uint(&json, "conflicts", own->report.n_conflicts);
	json_str(&json, "dropped", own->report.n_dropped ? own->report.dropped : NULL);
	json_bool(&json, "dry", own->is_dry);
	json_raw(&json, "changes", own->list.used ? own->list.data : "[]");
	json_close(&json, '}');
	api_answer(call, own->has_conflicts ? 409 : 200, &out);
}

static void free_apply(struct v1_work *work)
{
	struct apply_work *own = (struct apply_work *)work;

	free_paths(&own->paths);
	buf_done(&own->list);
}

static void submit(struct api_call *call, const struct apply_work *wanted)
{
	struct box *box = v1_box(call);
	struct apply_work *own = box ? v1_work_new(call, sizeof *own, box) : NULL;

	if (!own) {
		free_paths(&(char **){wanted->paths});
		return;
	}
	own->grants = tenant_grants(call->tenant);
	own->paths = wanted->paths;
	own->merges = own->work.compares = wanted->merges;
	own->is_forced = wanted->is_forced;
	own->is_dry = wanted->is_dry;
	own->is_undo = wanted->is_undo;
	own->list = (struct buf)BUF_INIT(LIST_MAX);
	own->json = (struct json){.out = &own->list};
	own->work.run = run_apply;
	own->work.answer = answer_apply;
	own->work.free = free_apply;
	v1_work_submit(&own->work);
}

/* ---- the request ---- */

/* A path as the diff writes it: relative, without "." and "..". */
static bool is_plain(const char *path)
{
	if (!path[0] || path[0] == '/')
		return false;
	for (const char *at = path; *at;) {
		size_t length = strcspn(at, "/");

		if (length == 0 || (at[0] == '.' && (length == 1 || (length == 2 && at[1] == '.'))))
			return false;
		at += length + (at[length] == '/');
	}
	return true;
}

/* Copies the strings: the work outlives the body. */
static char **read_paths(struct form *form)
{
	char **words = form_words(form, "paths"), **paths;
	size_t n = 0;

	while (words && words[n])
		n++;
	paths = words ? calloc(n + 1, sizeof *paths) : NULL;
	for (size_t i = 0; paths && i < n; i++) {
		if (!is_plain(words[i]))
			form_bad(form, "'paths' are as the diff names them, from the workspace's "
				       "top, without '.' and '..'");
		paths[i] = strdup(words[i]);
		if (!paths[i])
			form_bad(form, "out of memory");
	}
	free(words);
	return paths;
}

static void read_apply(struct api_call *call, json_t *body)
{
	static const char *const keys[] = {"paths", "merge", "force", "dry", NULL};
	struct form form = {.call = call, .body = body};
	struct apply_work wanted = {
		.merges = form_bool(&form, "merge", false),
		.is_forced = form_bool(&form, "force", false),
		.is_dry = form_bool(&form, "dry", false),
		.paths = read_paths(&form),
	};

	form_known(&form, keys);
	if (form_fails(&form))
		free_paths(&wanted.paths);
	else
		submit(call, &wanted);
}

void v1_apply(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, false, read_apply);
}

static void read_undo(struct api_call *call, json_t *body)
{
	static const char *const keys[] = {"force", NULL};
	struct form form = {.call = call, .body = body};
	struct apply_work wanted = {.is_forced = form_bool(&form, "force", false), .is_undo = true};

	form_known(&form, keys);
	if (!form_fails(&form))
		submit(call, &wanted);
}

void v1_undo(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, false, read_undo);
}
