/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract in words, for the command inside
 *
 * An agent that knows its walls does not run against them. It learns what it may do and whom to ask
 * for more; not what is hidden, because a hidden name is a secret, too, and no variable's value.
 *
 * In a layer nothing of the workspace is refused because of its name: the host's files are not
 * touched. What the host would run or obey is held back later, when the changes are applied, and
 * the words say so.
 */
#include "base/buf.h"
#include "base/json.h"
#include "spec/names.h"
#include "spec/network-inner.h"

static void write_rules(struct json *json, const struct spec *spec, enum spec_access access)
{
	json_open(json, spec_access_word(access), '[');
	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];
		char path[INSIDE_PATH_MAX];

		if (rule->access != access)
			continue;
		json_open(json, NULL, '{');
		json_str(json, "path", inside_shown(spec, rule->path, path));
		if (rule->is_optional)
			json_bool(json, "if_exists", true);
		if (rule->is_pattern)
			json_bool(json, "pattern", true);
		json_close(json, '}');
	}
	json_close(json, ']');
}

/* When is a change of what the host trusts stopped, in the workspace? */
static const char *protected_when(const struct spec *spec)
{
	switch (spec->workspace_mode) {
	case SPEC_WORKSPACE_LAYER:
		return "apply";
	case SPEC_WORKSPACE_DIRECT:
		return "write";
	case SPEC_WORKSPACE_READ_ONLY:
		break;
	}
	return "always";
}

static void write_workspace(struct json *json, const struct spec *spec)
{
	json_str(json, "workspace", spec_at(spec));
	json_bool(json, "workspace_is_writable", spec->workspace_mode != SPEC_WORKSPACE_READ_ONLY);
	json_str(json, "workspace_mode", spec_mode_word(spec->workspace_mode));
	json_str(json, "root", spec->root_is_layer ? "layer" : "read-only");
	json_str(json, "checkpoints", spec->checkpoints_every_step ? "every-step" : "manual");
	json_str(json, "cwd", spec->cwd);
}

static void write_names(struct json *json, const struct spec *spec)
{
	json_str(json, "protected_when", protected_when(spec));
	json_open(json, "protected_names", '[');
	for (size_t i = 0; i < names_group_count; i++) {
		if (names_groups[i].is_mark && spec->workspace_mode != SPEC_WORKSPACE_LAYER)
			continue;
		json_open(json, NULL, '{');
		json_str(json, "what", names_groups[i].what);
		json_open(json, "names", '[');
		for (size_t j = 0; names_groups[i].names[j]; j++)
			json_str(json, NULL, names_groups[i].names[j]);
		json_close(json, ']');
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void write_limits(struct json *json, const struct spec *spec)
{
	json_open(json, "limits", '{');
	for (enum spec_limit_id id = 0; id < SPEC_LIMIT_COUNT; id++) {
		char text[64];

		spec_format_limit(id, spec->limits[id].value, text, sizeof text);
		json_open(json, spec_limits[id].key, '{');
		if (spec->limits[id].value != SPEC_UNLIMITED)
			json_uint(json, "value", spec->limits[id].value);
		json_str(json, "unit", spec_limits[id].unit);
		json_str(json, "text", text);
		json_close(json, '}');
	}
	json_close(json, '}');
}

static void write_lists(struct json *json, const struct spec *spec)
{
	json_open(json, "sockets", '[');
	for (size_t i = 0; i < spec->n_sockets; i++)
		json_str(json, NULL, spec->sockets[i].text);
	json_close(json, ']');
	json_open(json, "variables", '[');
	for (size_t i = 0; i < spec->n_variables; i++)
		json_str(json, NULL, spec->variables[i].name);
	json_close(json, ']');
	json_open(json, "weaker", '[');
	for (size_t i = 0; i < spec->n_accepted; i++)
		json_str(json, NULL, spec->accepted[i].text);
	json_close(json, ']');
}

static int end(const struct buf *out, struct atoll_error *err)
{
	if (buf_error(out))
		return error_set(err, ATOLL_FAULT_HOST, -buf_error(out), "write the contract");
	return 0;
}

int spec_explain_json(const struct spec *spec, struct buf *out, struct atoll_error *err)
{
	struct json json = {.out = out};
	char digest[65];
	int r = spec_digest(spec, digest, err);

	if (r < 0)
		return r;
	json_open(&json, NULL, '{');
	json_uint(&json, "version", 1);
	json_str(&json, "digest", digest);
	write_workspace(&json, spec);
	write_rules(&json, spec, SPEC_WRITE);
	write_rules(&json, spec, SPEC_READ);
	write_rules(&json, spec, SPEC_PROTECT);
	write_names(&json, spec);
	network_explain_json(&spec->network, &json);
	json_str(&json, "record", spec_record_word(spec->record));
	write_limits(&json, spec);
	write_lists(&json, spec);
	inside_explain_json(spec, &json);
	json_str(&json, "ask",
		 "the person who started you can run atoll again with --read PATH, "
		 "--write PATH, --allow HOST, --memory SIZE and the like");
	json_close(&json, '}');
	return end(out, err);
}

static bool is_shown(const struct spec_rule *rule, enum spec_access access, bool is_default)
{
	return rule->access == access && rule->is_optional == is_default;
}

/* One line per path. Back ticks would end the code mark; a name with one is shown without it. */
static void list_rules(struct buf *out, const struct spec *spec, enum spec_access access,
		       bool is_default)
{
	for (size_t i = 0; i < spec->n_rules; i++) {
		char text[512], path[INSIDE_PATH_MAX];

		if (!is_shown(&spec->rules[i], access, is_default))
			continue;
		str_show(inside_shown(spec, spec->rules[i].path, path), text, sizeof text);
		for (char *p = strchr(text, '`'); p; p = strchr(p, '`'))
			*p = '\'';
		buf_addf(out, "- `%s`\n", text);
	}
}

static bool has_rules(const struct spec *spec, enum spec_access access, bool is_default)
{
	for (size_t i = 0; i < spec->n_rules; i++)
		if (is_shown(&spec->rules[i], access, is_default))
			return true;
	return false;
}

/* Where what is written ends up. */
static void explain_layers(struct buf *out, const struct spec *spec)
{
	if (spec->workspace_mode == SPEC_WORKSPACE_LAYER)
		buf_add_str(out,
			    "\nWhat you change in the workspace is kept in a layer: you see it as "
			    "usual, and the files on the host stay as they are until the person "
			    "who started you has looked at the changes (`atoll diff`) and takes "
			    "them (`atoll apply`). Do not expect others to see your files before "
			    "that. Other directories of this list are written on the host at "
			    "once.\n");
	if (spec->root_is_layer)
		buf_add_str(out,
			    "\nSystem directories can be written, too: /var, and if you are root "
			    "(`id -u` says 0) also /usr, /etc, /opt and the like, so that packages "
			    "can be installed. That is no part of what can be applied, and is gone "
			    "at the end; but as root a sandbox that lives on keeps it with its "
			    "checkpoints.\n");
	if (spec->checkpoints_every_step)
		buf_add_str(out, "\nEach step ends in a checkpoint, to which the person can "
				 "return.\n");
}

static void explain_files(struct buf *out, const struct spec *spec)
{
	buf_add_str(out, "## Files\n\nYou may write, besides your private home, /tmp, /var/tmp and "
			 "/dev/shm, which are gone at the end:\n\n");
	list_rules(out, spec, SPEC_WRITE, false);
	if (!has_rules(spec, SPEC_WRITE, false))
		buf_add_str(out, "- nothing else: the workspace is read-only\n");
	explain_layers(out, spec);
	inside_explain_text(spec, out);
	buf_add_str(out,
		    "\nYou may read those, the system's programs and libraries (/usr, /bin, /lib, "
		    "/etc, /opt) and toolchains installed in the home directory");
	if (has_rules(spec, SPEC_READ, false)) {
		buf_add_str(out, ", and also:\n\n");
		list_rules(out, spec, SPEC_READ, false);
	} else {
		buf_add_str(out, ".\n");
	}
	buf_add_str(out,
		    "\nNothing else of this machine is here; a file that seems to be missing may "
		    "simply not be shown to you.\n");
}

static void explain_protection(struct buf *out, const struct spec *spec)
{
	bool is_later = spec->workspace_mode == SPEC_WORKSPACE_LAYER;

	buf_add_str(out,
		    "\n## Protected names\n\nSome files are later run or obeyed outside of this "
		    "sandbox");
	buf_add_str(out,
		    is_later
			    ? ". In the workspace you may change them, but when your changes are "
			      "applied these are held back until the person names each of them, so "
			      "say which you changed and why. In other directories you may read "
			      "and not change them:\n\n"
			    : ", so you may read and not change them, wherever they are:\n\n");
	for (size_t i = 0; i < names_group_count; i++)
		if (is_later || !names_groups[i].is_mark)
			buf_addf(out, "- %s\n", names_groups[i].what);
	list_rules(out, spec, SPEC_PROTECT, false);
	list_rules(out, spec, SPEC_PROTECT, true);
	if (is_later) {
		buf_add_str(out,
			    "\nGit works as usual. Hooks and keys of `.git/config` that name a "
			    "program hold in here, and are among what is held back.\n");
		return;
	}
	buf_add_str(
		out,
		"\nGit works: `git add`, `commit`, `branch`, `merge` and `rebase` write objects, "
		"refs "
		"and the index, which is allowed. Hooks stay as they are, and `.git/config` takes "
		"only keys that name neither a program nor a place elsewhere (user, branch): git "
		"would run or contact what they say on the host. Such a change fails with EACCES "
		"or EPERM; do not work "
		"around it, tell the person what you wanted to change.\n");
}

static void explain_limits(struct buf *out, const struct spec *spec)
{
	static const char *const words[SPEC_LIMIT_COUNT] = {
		[SPEC_WALL] = "time",
		[SPEC_CPU_TIME] = "CPU time, all processes together",
		[SPEC_CPUS] = "CPUs",
		[SPEC_MEMORY] = "memory, all processes together",
		[SPEC_PIDS] = "processes and threads",
		[SPEC_DISK] = "disk space",
		[SPEC_FILES] = "new files",
		[SPEC_OPEN_FILES] = "open files of one process",
		[SPEC_OUTPUT] = "output",
		[SPEC_GRACE] = "from SIGTERM to SIGKILL",
	};

	buf_add_str(out, "\n## Limits\n\n");
	for (enum spec_limit_id id = 0; id < SPEC_LIMIT_COUNT; id++) {
		char text[64];

		spec_format_limit(id, spec->limits[id].value, text, sizeof text);
		buf_addf(out, "- %s: %s\n", words[id], text);
	}
}

static void explain_record(struct buf *out, const struct spec *spec)
{
	if (spec->record == SPEC_RECORD_OFF)
		return;
	buf_add_str(out,
		    "\n## Record\n\nWhat you do is written down outside, where you cannot reach "
		    "it: ");
	buf_add_str(out,
		    spec->record == SPEC_RECORD_FULL
			    ? "programs that you execute and their arguments, what was refused, "
			      "connections and changed files. What looks like a credential is left "
			      "out.\n"
			    : "when you began and ended, connections and changed files.\n");
	spec_watch_explain_text(&spec->watch, out);
}

int spec_explain_text(const struct spec *spec, struct buf *out, struct atoll_error *err)
{
	if (!spec->is_finished)
		return error_set(err, ATOLL_FAULT_BUG, 0, "explain an unfinished job");
	buf_add_str(out, "# Where you are\n\nYou run in an atoll sandbox. This is what it allows; "
			 "`contract.json` beside this file says the same for programs.\n\n");
	explain_files(out, spec);
	explain_protection(out, spec);
	network_explain_text(&spec->network, out);
	explain_limits(out, spec);
	explain_record(out, spec);
	buf_add_str(out,
		    "\n## If you need more\n\nAsk the person who started you to run atoll again "
		    "with, for "
		    "example, `--write PATH`, `--read PATH`, `--allow HOST`, `--memory 8G` or "
		    "`--timeout 2h`, and "
		    "say why. You cannot change the contract from inside.\n");
	return end(out, err);
}
