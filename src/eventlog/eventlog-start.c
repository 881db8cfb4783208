/* SPDX-License-Identifier: Apache-2.0 */
#include "eventlog/eventlog-start.h"

#include "base/str.h"
#include "eventlog/eventlog-line.h"
#include "isolate/plan.h"
#include "layer/layer.h"
#include "spec/spec.h"

#include <atoll/audit.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A command line may have a megabyte; the log has its first 64 KiB. */
#define ARGV_MAX (64 << 10)

static void add_argv(struct json *json, char *const *argv)
{
	size_t used = 0, n = 0;

	json_open(json, "argv", '[');
	for (; argv[n]; n++) {
		used += strlen(argv[n]);
		if (used > ARGV_MAX)
			break;
		eventlog_add_redacted(json, NULL, argv[n], n ? argv[n - 1] : NULL);
	}
	json_close(json, ']');
	if (argv[n])
		json_bool(json, "cut", true);
}

/* The names of the variables, without their values. */
static void add_names(struct json *json, char *const *env)
{
	json_open(json, "env", '[');
	for (size_t i = 0; env && env[i]; i++)
		json_strn(json, NULL, env[i], strcspn(env[i], "="));
	json_close(json, ']');
}

static void add_mechanisms(struct json *json, const struct plan *plan)
{
	static const char *const words[] = {
		[PLAN_ENFORCED] = "enforced", [PLAN_WEAKER] = "weaker", [PLAN_MISSING] = "missing"};

	json_open(json, "mechanisms", '[');
	for (size_t i = 0; plan && i < plan->n_lines; i++) {
		const struct plan_line *line = &plan->lines[i];

		if (line->strength == PLAN_NOTE)
			continue;
		json_open(json, NULL, '{');
		json_str(json, "clause", line->clause);
		json_str(json, "strength", words[line->strength]);
		json_str(json, "mechanism", line->mechanism);
		json_close(json, '}');
	}
	json_close(json, ']');
}

/* A plan creates no key: only look whether there is one. */
static bool has_key(const char *state)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof path, "%s/keys/key.pem", state) < PATH_MAX &&
	       access(path, F_OK) == 0;
}

void eventlog_describe(const struct spec *spec, struct plan *plan)
{
	char state[PATH_MAX] = "", mechanism[PATH_MAX + 64], size[32];
	struct atoll_error err = {0};
	struct atoll_key key = {0};

	if (spec->record == SPEC_RECORD_OFF) {
		plan_add(plan, PLAN_NOTE, "audit.record", "off", "nothing is written down", NULL,
			 spec->record_origin);
		return;
	}
	if (layer_store_path(state, &err) < 0) {
		plan_add(plan, PLAN_MISSING, "audit.record", spec_record_word(spec->record),
			 "a signed log", err.text, spec->record_origin);
		return;
	}
	if (has_key(state) && atoll_key_show(&key, &err) == 0)
		snprintf(mechanism, sizeof mechanism, "signed by key %s, in %s/log", key.id, state);
	else
		snprintf(mechanism, sizeof mechanism,
			 "signed by a key that will be made, in %s/log", state);
	plan_add(plan, PLAN_NOTE, "audit.record", spec_record_word(spec->record), mechanism, NULL,
		 spec->record_origin);
	spec_format_limit(SPEC_DISK, spec->watch.log_bytes, size, sizeof size);
	plan_add(plan, PLAN_NOTE, "audit.size", size,
		 "then events are counted by kind and rule; start, end and decisions are written",
		 NULL, spec->watch.log_origin ? spec->watch.log_origin : "default");
	if (spec->keeps_output)
		plan_add(plan, PLAN_NOTE, "audit.output", "keep", "beside the log", NULL,
			 spec->output_origin);
}

int eventlog_start(struct eventlog *eventlog, const struct eventlog_start *start,
		   struct atoll_error *err)
{
	const struct spec *spec;
	struct json *json;
	char digest[7 + 65] = "sha256:";
	int r;

	if (!eventlog)
		return 0;
	spec = eventlog->spec;
	r = spec_digest(spec, digest + 7, err);
	if (r < 0)
		return r;
	json = eventlog_begin(eventlog, "start", 0, start->step);
	add_argv(json, start->argv);
	json_str(json, "cwd", start->cwd);
	add_names(json, start->env);
	json_str(json, "contract", digest);
	json_str(json, "job", spec->file);
	json_str(json, "workspace", spec->workspace);
	if (spec_is_moved(spec))
		json_str(json, "workspace_at", spec_at(spec));
	json_str(json, "mode", spec_mode_word(spec->workspace_mode));
	json_uint(json, "user", getuid());
	json_str(json, "tier", "process");
	add_mechanisms(json, start->plan);
	json_open(json, "accepted", '[');
	for (size_t i = 0; i < spec->n_accepted; i++)
		json_str(json, NULL, spec->accepted[i].text);
	json_close(json, ']');
	if (start->input)
		json_str(json, "input", start->input);
	if (start->commit && start->commit[0])
		json_str(json, "commit", start->commit);
	if (start->image)
		json_str(json, "image", start->image);
	eventlog_commit(eventlog);
	if (eventlog->is_stuck) {
		*err = eventlog->problem;
		return err->errnum ? -err->errnum : -1;
	}
	return eventlog_flush(eventlog, err);
}
