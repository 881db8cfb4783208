/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns a job into the contract of this host. Called once per run, after the job file and the flags
 * are read. Order: the workspace, the other writable paths, temporary files, protected names,
 * limits.
 */
#include "nt/nt-request.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "nt/nt-path.h"
#include "spec/names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PATH_SIZE 32768

struct maker {
	struct nt_request *request;
	const struct nt_host *host;
	struct atoll_error *err;
};

/* ---- strings and paths ---- */

static char *keep(struct maker *in, char *text)
{
	struct nt_request *request = in->request;
	char **strings;

	if (!text)
		return NULL;
	strings = realloc(request->strings, (request->n_strings + 1) * sizeof *strings);
	if (!strings) {
		free(text);
		return NULL;
	}
	request->strings = strings;
	return strings[request->n_strings++] = text;
}

static char *join(struct maker *in, const char *directory, const char *name)
{
	const size_t size = strlen(directory);
	char *text = NULL;

	if (asprintf(&text, "%s%s%s", directory,
		     size > 0 && directory[size - 1] == '\\' ? "" : "\\", name) < 0)
		return NULL;
	for (char *c = text; *c; c++)
		*c = *c == '/' ? '\\' : *c;
	return keep(in, text);
}

static bool is_absolute(const char *path)
{
	return path[0] == '\\' || path[0] == '/' || (path[0] && path[1] == ':');
}

/* The one form of a path of the job; relative ones count from `from`. */
static int resolve(struct maker *in, const char *path, const char *from, char **ret)
{
	cleanup_free char *form = malloc(PATH_SIZE);
	const char *whole = path;
	enum nt_path_problem problem;

	if (path[0] == '~' && (path[1] == '\\' || path[1] == '/' || !path[1]))
		whole = join(in, in->host->home, path[1] ? path + 2 : "");
	else if (!is_absolute(path))
		whole = join(in, from, path);
	if (!form || !whole)
		return error_oom(in->err);
	problem = nt_path_read(whole, form, PATH_SIZE);
	if (problem != NT_PATH_OK)
		return error_set(in->err, ATOLL_FAULT_REQUEST, EINVAL, "path '%s' %s", path,
				 nt_path_explain(problem));
	*ret = keep(in, strdup(form));
	return *ret ? 0 : error_oom(in->err);
}

/* A name in the store for a workspace: its path hashed (64-bit FNV-1a), letters as upper case. */
static char *store_name(struct maker *in, const char *directory, const char *workspace)
{
	uint64_t hash = UINT64_C(14695981039346656037);
	char name[64];

	for (; *workspace; workspace++) {
		char c = *workspace >= 'a' && *workspace <= 'z' ? *workspace - 32 : *workspace;

		hash = (hash ^ (uint8_t)c) * UINT64_C(1099511628211);
	}
	snprintf(name, sizeof name, "%s\\%016llx", directory, (unsigned long long)hash);
	return join(in, in->host->store, name);
}

/* ---- roots ---- */

static int add_root(struct maker *in, char *path)
{
	struct nt_request *request = in->request;
	struct nt_root *root = &request->roots[request->n_roots];

	if (request->n_roots == NT_ROOTS_MAX)
		return error_set(in->err, ATOLL_FAULT_REQUEST, EINVAL,
				 "over %d writable directories", NT_ROOTS_MAX);
	/* A root in another one would need the other's SID as well; the outer one is enough. */
	for (size_t i = 0; i < request->n_roots; i++)
		if (nt_path_is_within(path, request->roots[i].path))
			return 0;
	root->path = path;
	request->n_roots++;
	return in->host->sid_of(in->host->context, path, &root->sid, in->err);
}

static int refuse_broad(struct maker *in, const char *path)
{
	const struct nt_host *host = in->host;

	if (nt_path_is_within(host->home, path) || nt_path_is_within(host->store, path) ||
	    nt_path_is_within(path, host->store))
		return error_set(in->err, ATOLL_FAULT_POLICY, EPERM,
				 "'%s' holds the home directory or atoll's own files; name a "
				 "directory beneath it",
				 path);
	return 0;
}

static int add_work_root(struct maker *in)
{
	struct nt_request *request = in->request;
	int r;

	if (request->job->mode == NT_WORKSPACE_LAYER) {
		request->work_root = store_name(in, "mirrors", request->workspace);
		return request->work_root ? add_root(in, request->work_root) : error_oom(in->err);
	}
	request->work_root = request->workspace;
	if (request->job->mode == NT_WORKSPACE_READ_ONLY)
		return 0;
	r = refuse_broad(in, request->workspace);
	return r < 0 ? r : add_root(in, request->workspace);
}

static int add_written(struct maker *in, const struct nt_job_rule *rule)
{
	char *path;
	int r = resolve(in, rule->path, rule->is_flag ? in->host->caller : in->request->workspace,
			&path);

	if (r == 0)
		r = refuse_broad(in, path);
	if (r < 0)
		return r;
	if (in->host->kind(in->host->context, path) != NT_IS_DIRECTORY)
		return error_set(in->err, ATOLL_FAULT_REQUEST, ENOTDIR, "write '%s'", path);
	return add_root(in, path);
}

static int find_places(struct maker *in)
{
	struct nt_request *request = in->request;
	const struct nt_job *job = request->job;
	int r = job->workspace ? resolve(in, job->workspace, in->host->caller, &request->workspace)
			       : resolve(in, in->host->caller, "C:\\", &request->workspace);

	if (r == 0 && in->host->kind(in->host->context, request->workspace) != NT_IS_DIRECTORY)
		r = error_set(in->err, ATOLL_FAULT_REQUEST, ENOTDIR, "workspace '%s'",
			      request->workspace);
	if (r == 0)
		r = add_work_root(in);
	for (size_t i = 0; r == 0 && i < job->n_rules; i++)
		if (job->rules[i].access == SPEC_WRITE)
			r = add_written(in, &job->rules[i]);
	if (r < 0)
		return r;
	r = resolve(in, job->cwd ? job->cwd : ".", request->work_root, &request->cwd);
	if (r == 0 && !nt_path_is_within(request->cwd, request->work_root))
		r = error_set(in->err, ATOLL_FAULT_REQUEST, EINVAL,
			      "cwd '%s' lies outside the workspace", job->cwd);
	request->temp = store_name(in, "temp", request->workspace);
	if (r < 0)
		return r;
	return request->temp ? add_root(in, request->temp) : error_oom(in->err);
}

/* ---- protected names ---- */

/* Names that hold a directory which a host program obeys, and that nothing inside misses if the
 * directory is empty. */
static bool wants_placeholder(const char *name)
{
	static const char *const names[] = {".git",   ".vscode",      ".idea",	 ".claude",
					    ".codex", ".agents",      ".cursor", ".gemini",
					    ".husky", ".devcontainer"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (streq(name, names[i]))
			return true;
	return false;
}

static int add_protected(struct maker *in, const char *path)
{
	struct nt_request *request = in->request;

	if (request->n_protected == NT_PROTECTED_MAX)
		return error_set(in->err, ATOLL_FAULT_REQUEST, EINVAL, "over %d protected paths",
				 NT_PROTECTED_MAX);
	for (size_t i = 0; i < request->n_protected; i++)
		if (nt_path_equal(request->protected[i].path, path))
			return 0;
	request->protected[request->n_protected++] =
		(struct nt_protected){.path = path, .exists = true};
	return 0;
}

/* One name in a root: denied if it exists, else a placeholder or nothing. */
static int protect_name(struct maker *in, const char *root, const char *name)
{
	struct nt_request *request = in->request;
	char *path;
	int kind;

	if (strchr(name, '*')) {
		request->has_patterns = true;
		return 0;
	}
	path = join(in, root, name);
	if (!path)
		return error_oom(in->err);
	kind = in->host->kind(in->host->context, path);
	if (kind < 0)
		return error_set(in->err, ATOLL_FAULT_HOST, -kind, "look at '%s'", path);
	if (kind != NT_NOTHING)
		return add_protected(in, path);
	if (wants_placeholder(name) && request->n_placeholders < NT_PLACEHOLDERS_MAX)
		request->placeholders[request->n_placeholders++] = path;
	else
		request->n_absent++;
	return 0;
}

static int protect_names(struct maker *in, const char *root)
{
	int r = protect_name(in, root, ".git");

	for (size_t i = 0; r == 0 && i < names_group_count; i++)
		for (size_t k = 0; r == 0 && names_groups[i].names[k]; k++)
			if (!names_groups[i].is_mark && !streq(names_groups[i].names[k], ".git"))
				r = protect_name(in, root, names_groups[i].names[k]);
	return r;
}

static int protect_line(struct maker *in, const struct nt_job_rule *rule)
{
	char *path;
	int r;

	if (strpbrk(rule->path, "*?[")) {
		in->request->has_patterns = true;
		return 0;
	}
	r = resolve(in, rule->path, rule->is_flag ? in->host->caller : in->request->work_root,
		    &path);
	if (r < 0)
		return r;
	r = in->host->kind(in->host->context, path);
	if (r < 0)
		return error_set(in->err, ATOLL_FAULT_HOST, -r, "look at '%s'", path);
	if (r != NT_NOTHING)
		return add_protected(in, path);
	in->request->n_absent++;
	return 0;
}

/* A root of the store has no names that a host program obeys. */
static int find_protected(struct maker *in)
{
	struct nt_request *request = in->request;
	int r = 0;

	for (size_t i = 0; r == 0 && i < request->n_roots; i++)
		if (!nt_path_is_within(request->roots[i].path, in->host->store))
			r = protect_names(in, request->roots[i].path);
	for (size_t i = 0; r == 0 && i < request->job->n_rules; i++)
		if (request->job->rules[i].access == SPEC_PROTECT &&
		    request->job->mode != NT_WORKSPACE_LAYER)
			r = protect_line(in, &request->job->rules[i]);
	/* The planner needs to know that there is one. */
	if (r == 0 && (request->n_absent || (request->has_patterns && request->n_roots > 0)))
		if (!nt_path_is_within(request->roots[0].path, in->host->store))
			request->protected[request->n_protected++] =
				(struct nt_protected){.path = request->roots[0].path};
	return r;
}

/* ---- the rest ---- */

static uint64_t limit_of(const struct nt_job *job, enum spec_limit_id id)
{
	return job->limits[id] == SPEC_UNLIMITED ? 0 : job->limits[id];
}

/* Thousandths of a processor to a share of all of them, rounded up; 100 and more is no limit. */
static uint64_t cpu_percent(const struct nt_job *job, unsigned n_processors)
{
	uint64_t cpus = limit_of(job, SPEC_CPUS), all = 1000ULL * (n_processors ? n_processors : 1);
	uint64_t percent = (cpus * 100 + all - 1) / all;

	return percent >= 100 ? 0 : percent;
}

static const char *missing_limit(const struct nt_job *job)
{
	static const enum spec_limit_id none[] = {SPEC_DISK, SPEC_FILES, SPEC_OPEN_FILES};

	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		if (job->is_written[none[i]] && limit_of(job, none[i]))
			return spec_limits[none[i]].key;
	return NULL;
}

static void fill_contract(struct maker *in)
{
	struct nt_request *request = in->request;
	const struct nt_job *job = request->job;

	request->contract = (struct nt_contract){
		.roots = request->roots,
		.n_roots = request->n_roots,
		.protected = request->protected,
		.n_protected = request->n_protected,
		.user = in->host->user,
		.logon = in->host->logon,
		.hides = true, /* the home and secrets are invisible by default */
		.cuts_network = job->network != NT_NETWORK_OPEN,
		.no_limit = missing_limit(job),
		.accepted = job->accepted,
		.memory_bytes = limit_of(job, SPEC_MEMORY),
		.processes = limit_of(job, SPEC_PIDS),
		.cpu_percent = cpu_percent(job, in->host->n_processors),
		.cpu_time_ms = limit_of(job, SPEC_CPU_TIME),
	};
}

int nt_request_make(const struct nt_job *job, const struct nt_host *host, struct nt_request *ret,
		    struct atoll_error *err)
{
	struct maker in = {.request = ret, .host = host, .err = err};
	int r;

	memset(ret, 0, sizeof *ret);
	ret->job = job;
	if (job->n_command == 0)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "no command");
	r = find_places(&in);
	if (r == 0)
		r = find_protected(&in);
	if (r < 0) {
		nt_request_done(ret);
		return r;
	}
	fill_contract(&in);
	return 0;
}

void nt_request_done(struct nt_request *request)
{
	for (size_t i = 0; i < request->n_strings; i++)
		free(request->strings[i]);
	free(request->strings);
	memset(request, 0, sizeof *request);
}
