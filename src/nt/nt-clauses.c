/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says clause by clause what holds on Windows and by which mechanism. Called for `--plan` and for
 * the summary of a run, with the same request that the planner gets.
 */
#include "nt/nt-clauses.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/scope.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct list {
	struct nt_clause *clauses;
	size_t n;
	unsigned accepted;
};

static const char *const strength_words[] = {[NT_ENFORCED] = "enforced",
					     [NT_WEAKER] = "weaker",
					     [NT_MISSING] = "missing",
					     [NT_NOTE] = "note"};

const char *nt_strength_word(enum nt_strength strength)
{
	return strength_words[strength];
}

__attribute__((format(printf, 6, 7))) static void add(struct list *list, const char *clause,
						      enum nt_strength strength,
						      const char *mechanism, const char *note,
						      const char *format, ...)
{
	struct nt_clause *line = &list->clauses[list->n];
	va_list args;

	if (list->n == NT_CLAUSES_MAX)
		return;
	*line = (struct nt_clause){
		.clause = clause, .strength = strength, .mechanism = mechanism, .note = note};
	va_start(args, format);
	vsnprintf(line->subject, sizeof line->subject, format, args);
	va_end(args);
	list->n++;
}

static enum nt_strength accepted(const struct list *list, unsigned weaker)
{
	return list->accepted & weaker ? NT_WEAKER : NT_MISSING;
}

static void add_files(struct list *list, const struct nt_request *request)
{
	add(list, "filesystem.hide", accepted(list, NT_WEAKER_READ),
	    "none: the command reads what the user may read",
	    "'atoll setup' would hide them; accept it with --accept-weaker read",
	    "home directory, secrets and 'hide' lines");
	for (size_t i = 0; i < request->n_roots; i++) {
		const struct nt_root *root = &request->roots[i];
		const char *note = NULL;

		if (root->path == request->temp)
			note = "temporary files";
		else if (root->path == request->work_root)
			note = request->job->mode == NT_WORKSPACE_LAYER
				       ? "workspace: a private copy, taken over by 'atoll apply'"
				       : "workspace: the host's files are written at once";
		add(list, "filesystem.write", NT_ENFORCED,
		    "capability SID in list and token, label low", note, "%s", root->path);
	}
	if (request->job->mode == NT_WORKSPACE_READ_ONLY)
		add(list, "filesystem.read", NT_ENFORCED, "no writable root", "workspace", "%s",
		    request->workspace);
	add(list, "filesystem.system", NT_ENFORCED,
	    "write-restricted token with the integrity level low",
	    "nothing without the label low is changed", "everything else");
}

static void add_protection(struct list *list, const struct nt_request *request)
{
	for (size_t i = 0; i < request->n_protected; i++)
		if (request->protected[i].exists)
			add(list, "filesystem.protect", NT_ENFORCED,
			    "denial for the capability SID, label medium", NULL, "%s",
			    request->protected[i].path);
	for (size_t i = 0; i < request->n_placeholders; i++)
		add(list, "filesystem.protect", NT_ENFORCED,
		    "empty directory with a denial, removed at the end", "does not exist", "%s",
		    request->placeholders[i]);
	if (request->job->mode == NT_WORKSPACE_LAYER)
		add(list, "filesystem.protect", NT_ENFORCED, "held when changes are applied", NULL,
		    "names that the host trusts, in the workspace");
	if (request->n_absent || (request->has_patterns && request->n_placeholders))
		add(list, "filesystem.protect", accepted(list, NT_WEAKER_PROTECT),
		    "none: rights are per directory",
		    "found after the run and moved away; mode layer holds them; accept it with "
		    "--accept-weaker protect",
		    "names that do not exist yet, and names deeper in the tree");
}

static void add_network(struct list *list, const struct nt_request *request)
{
	if (request->job->network == NT_NETWORK_OPEN)
		add(list, "network", NT_NOTE, "not limited", NULL, "open");
	else
		add(list, "network", accepted(list, NT_WEAKER_NETWORK),
		    "none: an unelevated process cannot be cut off",
		    "'atoll setup' would; accept it with --accept-weaker network", "%s",
		    request->job->network == NT_NETWORK_OFF ? "off" : "rules");
	add(list, "network", NT_NOTE, "Windows",
	    "Schannel gives a restricted token no credentials: curl.exe of Windows, PowerShell, "
	    ".NET and NuGet cannot do HTTPS; git is set to its OpenSSL back end",
	    "HTTPS");
}

static void add_limits(struct list *list, const struct nt_request *request)
{
	static const struct {
		enum spec_limit_id id;
		const char *mechanism, *note;
	} ways[] = {
		{SPEC_WALL, "the launcher ends the job object", NULL},
		{SPEC_CPU_TIME, "job object, time in user mode", NULL},
		{SPEC_CPUS, "job object, rate of all processors", NULL},
		{SPEC_MEMORY, "job object, committed memory", NULL},
		{SPEC_PIDS, "job object", "counts processes, not threads"},
		{SPEC_DISK, NULL, NULL},
		{SPEC_FILES, NULL, NULL},
		{SPEC_OPEN_FILES, NULL, NULL},
		{SPEC_OUTPUT, "the launcher counts and ends the job object", NULL},
		{SPEC_GRACE, "the launcher ends the job object", NULL},
	};
	static const char *const names[] = {"limits.wall",   "limits.cpu",	  "limits.cpus",
					    "limits.memory", "limits.pids",	  "limits.disk",
					    "limits.files",  "limits.open-files", "limits.output",
					    "limits.grace"};
	char text[64];

	_Static_assert(ARRAY_SIZE(ways) == SPEC_LIMIT_COUNT, "every limit has its way");
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		const struct nt_job *job = request->job;

		if (job->limits[ways[i].id] == SPEC_UNLIMITED)
			continue;
		spec_format_limit(ways[i].id, job->limits[ways[i].id], text, sizeof text);
		if (ways[i].mechanism)
			add(list, names[i], NT_ENFORCED, ways[i].mechanism, ways[i].note, "%s",
			    text);
		else if (job->is_written[ways[i].id])
			add(list, names[i], accepted(list, NT_WEAKER_LIMITS),
			    "none: no job object has it", "accept it with --accept-weaker limits",
			    "%s", text);
		else
			add(list, names[i], NT_NOTE, "not limited on Windows", NULL, "unlimited");
	}
}

size_t nt_request_clauses(const struct nt_request *request, struct nt_clause *ret)
{
	struct list list = {.clauses = ret, .accepted = request->job->accepted};

	add(&list, "isolation.tier", NT_NOTE,
	    "restricted token, integrity level, lists, job object, desktop",
	    "never run on Windows by us", "windows, unelevated");
	add_files(&list, request);
	add_protection(&list, request);
	add_network(&list, request);
	add(&list, "processes", NT_ENFORCED, "job object: all end with the command, none leaves it",
	    NULL, "all processes");
	add(&list, "privileges", NT_ENFORCED, "token without privileges but traverse", NULL,
	    "none");
	add(&list, "desktop", NT_ENFORCED, "private desktop; job object limits", NULL,
	    "windows, clipboard, handles of other programs");
	add_limits(&list, request);
	add(&list, "environment", NT_ENFORCED, "a block of its own", NULL,
	    "%zu variables asked for", request->job->n_variables);
	return list.n;
}

/* ---- as text and as JSON ---- */

void nt_plan_text(const struct nt_request *request, const struct nt_clause *clauses, size_t n,
		  struct buf *out)
{
	buf_add_str(out, "command    ");
	for (size_t i = 0; i < request->job->n_command; i++)
		buf_addf(out, "%s%s", i ? " " : "", request->job->command[i]);
	buf_addf(out, "\nworkspace  %s\ntier       windows\n\n", request->workspace);
	for (size_t i = 0; i < n; i++) {
		const struct nt_clause *line = &clauses[i];

		buf_addf(out, "  %-22s %s  [%s]%s\n", line->clause, line->subject, line->mechanism,
			 line->strength == NT_MISSING  ? " MISSING"
			 : line->strength == NT_WEAKER ? " weaker, accepted"
						       : "");
		if (line->note)
			buf_addf(out, "  %-22s   %s\n", "", line->note);
	}
}

void nt_plan_json(const struct nt_request *request, const struct nt_clause *clauses, size_t n,
		  struct buf *out)
{
	struct json json = {.out = out};
	bool is_enforceable = true;

	for (size_t i = 0; i < n; i++)
		is_enforceable = is_enforceable && clauses[i].strength != NT_MISSING;
	json_open(&json, NULL, '{');
	json_uint(&json, "version", 1);
	json_str(&json, "tier", "windows");
	json_bool(&json, "enforceable", is_enforceable);
	json_open(&json, "command", '[');
	for (size_t i = 0; i < request->job->n_command; i++)
		json_str(&json, NULL, request->job->command[i]);
	json_close(&json, ']');
	json_str(&json, "workspace", request->workspace);
	json_open(&json, "clauses", '[');
	for (size_t i = 0; i < n; i++) {
		json_open(&json, NULL, '{');
		json_str(&json, "clause", clauses[i].clause);
		json_str(&json, "subject", clauses[i].subject);
		json_str(&json, "strength", nt_strength_word(clauses[i].strength));
		json_str(&json, "mechanism", clauses[i].mechanism);
		json_str(&json, "note", clauses[i].note);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_close(&json, '}');
	buf_add_char(out, '\n');
}
