/* SPDX-License-Identifier: Apache-2.0 */
#include "box/template-build.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/daemon-state.h"
#include "box/db.h"
#include "box/template-builds.h"
#include "box/template-copy.h"
#include "box/template-run.h"
#include "box/template-tags.h"
#include "box/template.h"
#include "isolate/slots.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A build, step by step
 *
 *	build_begin()	looks at all steps, and asks for a box
 *	next()		the step at hand: RUN and WORKDIR are commands in the box; COPY is looked
 *			at on a thread, handed in, and unpacked by a command; ENV and USER are only
 *			noted down for what follows
 *	keep()		a snapshot for each tag, with what was noted down
 *
 * The box goes at the end, whatever that was; and if it goes before, that is the end.
 */

#define BUILD_LABEL	   "atoll:build"
#define BUILDS_RUNNING_MAX 8
#define BUILD_SECONDS	   3600
#define SETTINGS_MAX	   (32U << 10) /* kept with each of the template's tags */

static void next(struct build *build);

/* ---- its end ---- */

static void box_ended(struct box *box, const struct atoll_error *err, void *data)
{
	(void)box;
	(void)err;
	(void)data;
}

static void leave_box(struct build *build)
{
	struct box *box = take_ptr(build->box);

	build_run_drop(build);
	/* Builds that have ended are remembered, and their steps may be large. */
	json_decref(build->request);
	build->request = NULL;
	if (!box)
		return;
	box_forget_gone(box, build->gone);
	box_kill(box, BOX_CAUSE_KILLED, box_ended, NULL);
}

void build_fail(struct build *build, const char *step, const char *format, ...)
{
	va_list list;

	if (build->state != BUILD_BUILDING)
		return;
	va_start(list, format);
	vsnprintf(build->reason, sizeof build->reason, format, list);
	va_end(list);
	if (step)
		snprintf(build->step, sizeof build->step, "%s", step);
	else
		snprintf(build->step, sizeof build->step, "%zu", build->at + 1);
	build->state = BUILD_ERROR;
	build_log(build, true, "%s", build->reason);
	leave_box(build);
}

static void box_gone(struct box *box, void *data)
{
	struct build *build = data;

	(void)box;
	build->box = NULL;
	build_fail(build, NULL, "the sandbox of the build has ended");
}

void builds_forget_lost(struct daemon *daemon)
{
	struct box *box = box_next_any(daemon, NULL);

	build_files_tidy(daemon);

	while (box) {
		struct box *next_one = box_next_any(daemon, box);

		for (size_t i = 0; i < box->labels.n; i++) {
			if (streq(box->labels.items[i].name, BUILD_LABEL)) {
				box_kill(box, BOX_CAUSE_INTERNAL, box_ended, NULL);
				break;
			}
		}
		box = next_one;
	}
}

/* ---- keeping what was built ---- */

static const char settings_sql[] =
	"UPDATE snapshots SET box = '', shape = ? WHERE tenant = ? AND id = ?";

static void keep(struct build *build, size_t n);

static void settings_written(int code, void *data)
{
	(void)code;
	(void)data;
}

static int keep_settings(struct build *build, const char *ref)
{
	struct kind *kind = kind_find(inner_tenant(build->tenant), ref);
	char *text;

	if (!kind)
		return -ENOENT;
	/* From here on it is a template, and no snapshot of a box. */
	kind->box[0] = '\0';
	json_decref(kind->settings);
	kind->settings = json_incref(build->settings);
	text = kind_shape_text(
		&(struct kind_shape){kind->cpus, kind->memory_mib, kind->disk_mib, kind->has_rules},
		kind->settings);
	if (!text)
		return -ENOMEM;
	db_write(build->tenant->daemon->db, DB_FIRM, settings_written, NULL, settings_sql, "sss",
		 text, build->tenant->id, kind->id);
	free(text);
	return 0;
}

/* Several snapshots, one for each name: each can go without the others. */
struct keeping {
	struct tenant *tenant;
	char build[40], ref[160];
	size_t n;
};

static void kept(const struct snapshot *snapshot, const struct atoll_error *err, void *data)
{
	struct keeping *keeping = data;
	struct build *build = build_find(keeping->tenant, NULL, keeping->build);

	if (build && build->state == BUILD_BUILDING) {
		if (!snapshot)
			build_fail(build, "finalize", "%s", err->text);
		else if (keep_settings(build, keeping->ref) < 0)
			build_fail(build, "finalize", "what was built could not be written down");
		else
			keep(build, keeping->n + 1);
	}
	free(keeping);
}

static void keep(struct build *build, size_t n)
{
	const char *tag = json_string_value(json_array_get(build->tags, n));
	struct keeping *keeping;

	if (!tag) {
		build->state = BUILD_READY;
		build_log(build, false, "Build finished, template %s is ready", build->name);
		leave_box(build);
		return;
	}
	keeping = calloc(1, sizeof *keeping);
	if (!keeping) {
		build_fail(build, "finalize", "out of memory");
		return;
	}
	keeping->tenant = build->tenant;
	keeping->n = n;
	memcpy(keeping->build, build->id, sizeof keeping->build);
	snprintf(keeping->ref, sizeof keeping->ref, "%s:%s", build->name, tag);
	box_snapshot(build->box, keeping->ref, kept, keeping);
}

/* ---- the template's own command is tried once ---- */

static void was_ready(struct build *build, int status, const char *why)
{
	if (status != 0)
		build_fail(build, "finalize", "the template's command was not ready in time (%s)",
			   why);
	else
		keep(build, 0);
}

static void finalize(struct build *build)
{
	/* A snapshot is of files: what runs goes with the box. What it prints is shown if it is not
	 * ready; through a file, since who has started something in the background would keep a
	 * pipe open. */
	static const char script[] =
		"log=$(mktemp)\n"
		"if [ -n \"$1\" ]; then setsid bash -l -c \"$1\" >\"$log\" 2>&1 </dev/null & fi\n"
		"started=$!\n"
		"end() { [ -z \"$started\" ] || kill -KILL -- \"-$started\" 2>/dev/null\n"
		"  [ \"$1\" = 0 ] || tail -c 4000 \"$log\"; rm -f \"$log\"; exit \"$1\"; }\n"
		"[ -n \"$2\" ] || { sleep 1; end 0; }\n"
		"for i in $(seq 1 240); do\n"
		"  bash -l -c \"$2\" >/dev/null 2>&1 </dev/null && end 0\n"
		"  sleep 0.5\n"
		"done\n"
		"end 1\n";
	const char *start = json_string_value(json_object_get(build->settings, "start"));
	const char *ready = json_string_value(json_object_get(build->settings, "ready"));
	cleanup_free char *text = json_dumps(build->settings, JSON_COMPACT);

	if (!text || strlen(text) > SETTINGS_MAX) {
		build_fail(build, "finalize",
			   "environment, directory and commands of a template have at most %u KiB",
			   SETTINGS_MAX >> 10);
		return;
	}
	if (!start && !ready) {
		keep(build, 0);
		return;
	}
	build_log(build, false, "Waiting for the template's command to be ready");
	build_run(build, NULL, script,
		  (const char *const[]){start ? start : "", ready ? ready : "", NULL}, was_ready);
}

/* ---- steps ---- */

const char *build_argument(const struct build *build, size_t n)
{
	json_t *steps = json_object_get(build->request, "steps");
	json_t *arguments = json_object_get(json_array_get(steps, build->at), "args");
	const char *text = json_string_value(json_array_get(arguments, n));

	return text && text[0] ? text : NULL;
}

void build_step_done(struct build *build, int status, const char *why)
{
	json_t *steps = json_object_get(build->request, "steps");
	json_t *step = json_array_get(steps, build->at);
	const char *kind = json_string_value(json_object_get(step, "type"));

	if (status != 0) {
		build_fail(build, NULL, "%s %.200s failed: %s", kind, build_argument(build, 0),
			   why);
		return;
	}
	build->at++;
	next(build);
}

static void set_environment(struct build *build)
{
	json_t *env = json_object_get(build->settings, "env");
	json_t *step = json_array_get(json_object_get(build->request, "steps"), build->at);
	json_t *arguments = json_object_get(step, "args");

	for (size_t i = 0; i + 1 < json_array_size(arguments); i += 2)
		json_object_set(env, json_string_value(json_array_get(arguments, i)),
				json_array_get(arguments, i + 1));
	build_step_done(build, 0, NULL);
}

static void user_known(struct build *build, int status, const char *why)
{
	if (status == 0)
		json_object_set_new(build->settings, "user", json_string(build_argument(build, 0)));
	build_step_done(build, status, why);
}

static void went_to(struct build *build, int status, const char *why)
{
	const char *was = json_string_value(json_object_get(build->settings, "workdir"));
	char path[PATH_MAX];

	if (build_argument(build, 0)[0] == '/')
		snprintf(path, sizeof path, "%s", build_argument(build, 0));
	else
		snprintf(path, sizeof path, "%s/%s", was ? was : "/home/user",
			 build_argument(build, 0));
	if (status == 0)
		json_object_set_new(build->settings, "workdir", json_string(path));
	build_step_done(build, status, why);
}

static void set_workdir(struct build *build)
{
	const char *user = json_string_value(json_object_get(build->settings, "user"));

	build_run(build, "root",
		  "[ -d \"$1\" ] || { mkdir -p -- \"$1\" && chown \"$2\" -- \"$1\" 2>/dev/null || "
		  "[ -d \"$1\" ]; }",
		  (const char *const[]){build_argument(build, 0), user ? user : "user", NULL},
		  went_to);
}

static void next(struct build *build)
{
	json_t *steps = json_object_get(build->request, "steps");
	json_t *step = json_array_get(steps, build->at);
	const char *kind = json_string_value(json_object_get(step, "type"));

	if (!step) {
		finalize(build);
		return;
	}
	build_log(build, false, "[%zu/%zu] %s %s", build->at + 1, json_array_size(steps), kind,
		  build_argument(build, 0) ? build_argument(build, 0) : "");
	if (streq(kind, "RUN"))
		build_run(build, build_argument(build, 1), build_argument(build, 0), NULL,
			  build_step_done);
	else if (streq(kind, "COPY"))
		build_copy(build);
	else if (streq(kind, "ENV"))
		set_environment(build);
	else if (streq(kind, "WORKDIR"))
		set_workdir(build);
	else
		build_run(build, build_argument(build, 0), ":", NULL, user_known);
}

/* ---- its beginning ---- */

static int check_step(json_t *step, size_t n, struct atoll_error *err)
{
	static const struct {
		const char *kind;
		size_t least, most;
	} kinds[] = {
		{"RUN", 1, 2}, {"COPY", 2, 4}, {"ENV", 2, 2000}, {"WORKDIR", 1, 1}, {"USER", 1, 1}};
	const char *kind = json_string_value(json_object_get(step, "type"));
	json_t *arguments = json_object_get(step, "args"), *text;
	size_t i = 0, index;

	while (kind && i < ARRAY_SIZE(kinds) && !streq(kinds[i].kind, kind))
		i++;
	if (!kind || i == ARRAY_SIZE(kinds))
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "step %zu: '%.40s' is none of RUN, COPY, ENV, WORKDIR, USER",
				 n + 1, kind ? kind : "");
	if (json_array_size(arguments) < kinds[i].least ||
	    json_array_size(arguments) > kinds[i].most ||
	    (streq(kind, "ENV") && json_array_size(arguments) % 2))
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "step %zu: %s has %zu arguments",
				 n + 1, kind, json_array_size(arguments));
	json_array_foreach(arguments, index, text)
	{
		if (!json_is_string(text) ||
		    (index < kinds[i].least && i != 2 && !json_string_value(text)[0]) ||
		    (i == 2 && index % 2 == 0 &&
		     (!json_string_value(text)[0] || strchr(json_string_value(text), '='))))
			return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
					 "step %zu: argument %zu of %s makes no sense", n + 1,
					 index + 1, kind);
	}
	return 0;
}

/* What E2B's own images stand for is what `base` is here; there is no registry to fetch others
 * from, and a sandbox's root is the host's. */
static const char *from(struct build *build, json_t *request, struct atoll_error *err)
{
	const char *name = json_string_value(json_object_get(request, "fromTemplate"));
	const char *image = json_string_value(json_object_get(request, "fromImage"));

	if (name && name[0])
		return name;
	/* One that the configuration, or the tenant, has under this name. */
	if (image && kind_find(inner_tenant(build->tenant), image))
		return image;
	if (!image || starts_with(image, "e2bdev/base") ||
	    starts_with(image, "e2bdev/code-interpreter"))
		return "base";
	error_set(
		err, ATOLL_FAULT_REQUEST, EINVAL,
		"image '%.100s': images cannot be fetched here, and a sandbox has the host's root; "
		"build from the template 'base', or from one that the configuration has under this "
		"name",
		image);
	return NULL;
}

static void begun(struct box *box, const struct atoll_error *err, void *data)
{
	struct keeping *keeping = data;
	struct build *build = build_find(keeping->tenant, NULL, keeping->build);

	free(keeping);
	if (!build) {
		if (box)
			box_kill(box, BOX_CAUSE_KILLED, box_ended, NULL);
		return;
	}
	if (!box) {
		build_fail(build, "base", "%s", err->text);
		return;
	}
	build->box = box;
	build->gone = box_on_gone(box, box_gone, build);
	next(build);
}

/* What it is built from is where it begins. */
static json_t *first_settings(struct build *build, const char *name)
{
	const struct kind *kind = kind_find(inner_tenant(build->tenant), name);
	json_t *settings = kind && kind->settings ? json_deep_copy(kind->settings) : json_object();

	if (settings && !json_object_get(settings, "env"))
		json_object_set_new(settings, "env", json_object());
	json_object_set_new(settings, "build", json_string(build->id));
	for (size_t i = 0; i < 2; i++) {
		const char *command = json_string_value(
			json_object_get(build->request, i ? "readyCmd" : "startCmd"));

		if (command && command[0])
			json_object_set_new(settings, i ? "ready" : "start", json_string(command));
	}
	return settings;
}

static int check_request(struct build *build, json_t *request, struct atoll_error *err)
{
	json_t *steps = json_object_get(request, "steps"), *step;
	size_t index, n = build_count(build->tenant);
	int r = 0;

	if (build->state != BUILD_WAITING)
		return error_set(err, ATOLL_FAULT_REQUEST, EBUSY, "build %s was begun already",
				 build->id);
	if (n >= BUILDS_RUNNING_MAX)
		return error_set(err, ATOLL_FAULT_POLICY, EAGAIN, "%zu builds are under way", n);
	if (steps && (!json_is_array(steps) || json_array_size(steps) > BUILD_STEPS_MAX))
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "steps: a list of at most %d is wanted", BUILD_STEPS_MAX);
	json_array_foreach(steps, index, step)
	{
		if (r == 0)
			r = check_step(step, index, err);
	}
	return r;
}

/* How large boxes are is in their contract, which those that branch off have from the first. */
static void set_size(struct build *build, struct box_request *wanted)
{
	const struct kind *kind = kind_find(inner_tenant(build->tenant), wanted->template_ref);

	if (kind && !kind->tenant) {
		wanted->cpus = build->cpus;
		wanted->memory_mib = build->memory_mib;
	} else if (kind && ((build->cpus && build->cpus != kind->cpus) ||
			    (build->memory_mib && build->memory_mib != kind->memory_mib))) {
		build_log(build, true, "CPUs and memory stay those of %s: %u, %u MiB", kind->id,
			  kind->cpus, kind->memory_mib);
	}
}

int build_begin(struct build *build, json_t *request, struct atoll_error *err)
{
	struct box_request wanted = {
		.timeout_s = BUILD_SECONDS, .is_public = true, .has_internet = true};
	struct keeping *keeping;
	int r = check_request(build, request, err);

	if (r < 0)
		return r;
	build->state = BUILD_BUILDING;
	build->request = json_incref(request);
	build_log(build, false, "Building template %s", build->name);
	/* One id owns nothing of a system: there is no root to be kept. */
	if (!slots_are_ours())
		build_log(build, true,
			  "This daemon is an ordinary user's: of what the steps write only "
			  "/home/user is kept in the template");
	wanted.template_ref = from(build, request, err);
	if (!wanted.template_ref) {
		build_fail(build, "base", "%s", err->text);
		return 0;
	}
	build->settings = first_settings(build, wanted.template_ref);
	set_size(build, &wanted);
	keeping = calloc(1, sizeof *keeping);
	if (!keeping || !build->settings) {
		free(keeping);
		build_fail(build, "base", "out of memory");
		return 0;
	}
	keeping->tenant = build->tenant;
	memcpy(keeping->build, build->id, sizeof keeping->build);
	/* By which a daemon that comes after us knows that nobody needs it any more. */
	wanted.labels = (struct box_pairs){&(struct box_pair){(char *)BUILD_LABEL, build->id}, 1};
	box_create(build->tenant, &wanted, begun, keeping);
	return 0;
}
