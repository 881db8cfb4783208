/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command on Windows. Called by `atoll.exe run`; on Linux by tests with a fake of Windows.
 *
 * The steps, in order (each may refuse; then undo() takes back what the earlier ones changed):
 *	begin()               who runs this; the lock; the ledger
 *	plan()                the job as a request and a plan
 *	check_names()         every trusted name in a root is in the plan
 *	apply_roots()         entries and labels, once per root
 *	make_placeholders()   directories under names that must not be made
 *	make_objects()        token, job object, desktop; each is read back
 *	try_canaries()        the canary child
 *	launch()              the command, suspended, inspected, let run
 *	finish()              the job ends, placeholders go, the lock opens
 */
#include "win/engine.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "nt/nt.h"
#include "spec/names.h"
#include "win/engine-canary.h"
#include "win/engine-environment.h"
#include "win/engine-ledger.h"
#include "win/engine-objects.h"
#include "win/engine-things.h"
#include "win/engine-tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct engine {
	const struct win_calls *calls;
	const struct engine_options *options;
	struct atoll_error *err;
	struct win_identity identity;
	bool is_locked;
	struct engine_ledger ledger;
	struct nt_request request;
	struct nt_plan plan;
	/* What undo() takes back. */
	bool root_is_ours[NT_ROOTS_MAX]; /* this run began to change the root */
	size_t n_placeholders;
	struct engine_canaries canaries;
	/* For the launch. */
	win_handle token, job, desktop, process;
	char desktop_name[WIN_NAME_SIZE];
	char *command_line, *environment;
	int environment_size;
};

static int fail(struct engine *engine, const char *check, const char *what)
{
	return error_set(engine->err, ATOLL_FAULT_HOST, EIO, "%s: %s", check, what);
}

/* ---- begin and plan ---- */

static bool is_logon_sid(const struct nt_sid *sid)
{
	return sid->authority == 5 && sid->n_subs == 3 && sid->subs[0] == 5;
}

static int begin(struct engine *engine)
{
	const struct win_calls *calls = engine->calls;
	int r = calls->identify(calls->context, &engine->identity, engine->err);

	if (r < 0)
		return r;
	if (engine->identity.user.n_subs == 0 || !is_logon_sid(&engine->identity.logon))
		return fail(engine, "caller.identity", "the user or the logon session is unknown");
	r = calls->lock(calls->context, engine->err);
	if (r < 0)
		return r;
	engine->is_locked = true;
	return engine_ledger_open(calls, &engine->ledger, engine->err);
}

static int host_kind(void *context, const char *path)
{
	const struct engine *engine = context;

	return engine->calls->kind(engine->calls->context, path);
}

static int host_sid(void *context, const char *root, struct nt_sid *ret, struct atoll_error *err)
{
	struct engine *engine = context;

	return engine_ledger_sid(&engine->ledger, root, ret, err);
}

static int make_request(struct engine *engine)
{
	const struct engine_options *options = engine->options;
	const struct nt_host host = {.home = options->home,
				     .caller = options->caller,
				     .store = options->store,
				     .user = engine->identity.user,
				     .logon = engine->identity.logon,
				     .n_processors = engine->identity.n_processors,
				     .context = engine,
				     .kind = host_kind,
				     .sid_of = host_sid};

	return nt_request_make(options->job, &host, &engine->request, engine->err);
}

static int plan(struct engine *engine)
{
	int r = make_request(engine);

	if (r < 0)
		return r;
	if (engine->options->job->mode == NT_WORKSPACE_LAYER)
		return error_set(engine->err, ATOLL_FAULT_HOST, ENOTSUP,
				 "workspace.layer: mode layer is not available on Windows yet; use "
				 "--mode direct or --mode read-only");
	r = nt_command_line(engine->options->job->command, &engine->command_line);
	if (r < 0)
		return error_set(engine->err, ATOLL_FAULT_REQUEST, -r, "command line");
	engine->environment_size = engine_environment(&engine->request, engine->options,
						      &engine->environment, engine->err);
	if (engine->environment_size < 0)
		return engine->environment_size;
	return nt_plan_make(&engine->request.contract, &engine->plan, engine->err);
}

/* ---- apply ---- */

static bool is_planned(const struct engine *engine, const char *path)
{
	for (size_t i = 0; i < engine->request.n_protected; i++)
		if (engine->request.protected[i].exists &&
		    nt_path_equal(engine->request.protected[i].path, path))
			return true;
	return false;
}

/* names_refuse() compares as the most forgiving file system would; its paths have slashes. */
static bool is_trusted_name(const char *name)
{
	char path[300];

	if (snprintf(path, sizeof path, "/r/%s", name) >= (int)sizeof path)
		return false;
	return names_is_git(name, strlen(name)) || names_refuse("/r", path, NAMES_WRITE);
}

/* A second look at the root, by listing: no trusted name may exist that the plan does not deny. */
static int check_names_in(struct engine *engine, const struct nt_root *root)
{
	const struct win_calls *calls = engine->calls;
	cleanup_free char *names = NULL;
	win_handle handle = 0;
	int r = calls->open(calls->context, root->path, &handle, engine->err);

	if (r < 0)
		return r;
	r = handle ? calls->list(calls->context, handle, &names, engine->err)
		   : fail(engine, "file.open", "a root has no handle");
	calls->close(calls->context, handle);
	if (r == 0 && !names)
		return fail(engine, "file.list", "a root has no names");
	for (const char *name = names; r == 0 && name && *name; name += strlen(name) + 1) {
		cleanup_free char *path = NULL;

		if (!is_trusted_name(name))
			continue;
		if (asprintf(&path, "%s\\%s", root->path, name) < 0)
			return error_oom(engine->err);
		if (!is_planned(engine, path))
			r = error_set(engine->err, ATOLL_FAULT_HOST, EIO,
				      "protect.missed: '%s' exists and is not protected", path);
	}
	return r;
}

static int check_names(struct engine *engine)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < engine->request.n_roots; i++)
		if (!nt_path_is_within(engine->request.roots[i].path, engine->options->store))
			r = check_names_in(engine, &engine->request.roots[i]);
	return r;
}

/* Whether every operation of a root holds already: reads the files that the plan names only. */
static int root_holds(struct engine *engine, const struct nt_root *root)
{
	for (size_t i = 0; i < engine->plan.n_operations; i++) {
		const struct nt_operation *operation = &engine->plan.operations[i];
		int r;

		if (!nt_sid_equal(&operation->sid, &root->sid))
			continue;
		r = tree_holds(engine->calls, operation, engine->err);
		if (r <= 0)
			return r;
	}
	return 1;
}

static int apply_operations(struct engine *engine, const struct nt_root *root)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < engine->plan.n_operations; i++)
		if (nt_sid_equal(&engine->plan.operations[i].sid, &root->sid))
			r = tree_apply(engine->calls, &engine->plan.operations[i], engine->err);
	return r < 0 ? r : tree_descend(engine->calls, root->path, &root->sid, engine->err);
}

static int apply_root(struct engine *engine, size_t number)
{
	const struct nt_root *root = &engine->request.roots[number];
	const struct nt_ledger_root *entry = nt_ledger_find(&engine->ledger.parsed, root->path);
	int r;

	if (entry && entry->state == NT_ROOT_GRANTED) {
		r = root_holds(engine, root);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	engine->root_is_ours[number] = true;
	r = engine_ledger_state(&engine->ledger, root->path, "changing", engine->err);
	if (r == 0)
		r = apply_operations(engine, root);
	if (r == 0)
		r = engine_ledger_state(&engine->ledger, root->path, "granted", engine->err);
	return r;
}

/* Directories of the store are made here; they stay, empty, like the store itself. */
static int make_store_roots(struct engine *engine)
{
	const struct win_calls *calls = engine->calls;
	int r = 0;

	for (size_t i = 0; r == 0 && i < engine->request.n_roots; i++) {
		const char *path = engine->request.roots[i].path;
		int kind;

		if (!nt_path_is_within(path, engine->options->store))
			continue;
		kind = calls->kind(calls->context, path);
		if (kind < 0)
			return fail(engine, "store.directory", "cannot be looked at");
		if (kind == NT_IS_DIRECTORY)
			continue;
		r = calls->make_directory(calls->context, path, engine->err);
		if (r == 0 && calls->kind(calls->context, path) != NT_IS_DIRECTORY)
			r = fail(engine, "store.directory", "was not made");
	}
	return r;
}

static int apply_roots(struct engine *engine)
{
	int r = make_store_roots(engine);

	for (size_t i = 0; r == 0 && i < engine->request.n_roots; i++)
		r = apply_root(engine, i);
	return r;
}

/* ---- things that are made and removed ---- */

static const struct nt_root *root_of(const struct engine *engine, const char *path)
{
	for (size_t i = 0; i < engine->request.n_roots; i++)
		if (nt_path_is_within(path, engine->request.roots[i].path))
			return &engine->request.roots[i];
	return NULL;
}

static int make_placeholders(struct engine *engine)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < engine->request.n_placeholders; i++) {
		engine->n_placeholders = i + 1;
		r = thing_make(engine->calls, &engine->ledger, engine->request.placeholders[i],
			       engine->err);
		if (r == 0)
			r = thing_deny(engine->calls, engine->request.placeholders[i],
				       &root_of(engine, engine->request.placeholders[i])->sid,
				       engine->err);
		/* From here on the placeholder is a protected path like others. */
		engine->plan.needs_strong_writes = true;
	}
	return r;
}

/* ---- token, job object, desktop ---- */

static int make_objects(struct engine *engine)
{
	const struct win_calls *calls = engine->calls;
	int r = engine_make_token(calls, &engine->plan.token, &engine->token, engine->err);

	if (r == 0)
		r = engine_make_job(calls, &engine->plan.job, &engine->job, engine->err);
	if (r == 0)
		r = thing_name(calls, "atoll-", engine->desktop_name, sizeof engine->desktop_name,
			       engine->err);
	return r < 0 ? r
		     : engine_make_desktop(calls, engine->desktop_name, &engine->identity.logon,
					   &engine->desktop, engine->err);
}

static struct win_launch launch_of(const struct engine *engine)
{
	return (struct win_launch){.token = engine->token,
				   .job = engine->job,
				   .desktop = engine->desktop,
				   .desktop_name = engine->desktop_name,
				   .command_line = engine->command_line,
				   .environment = engine->environment,
				   .environment_size = (size_t)engine->environment_size,
				   .directory = engine->request.cwd,
				   .is_terminal = engine->options->is_terminal};
}

/* ---- canaries ---- */

static int try_canaries(struct engine *engine)
{
	const struct win_launch what = launch_of(engine);
	struct engine_canaries *set = &engine->canaries;
	int r = engine_canaries_make(set, engine->options->store, &engine->request, engine->err);

	if (r == 0)
		r = engine_canaries_run(set, &what, engine->plan.needs_strong_writes, engine->err);
	if (r == 0)
		r = engine_canaries_remove(set, engine->err);
	/* Last, so that a platform that fails an earlier check is refused by the name of that one.
	 */
	if (r == 0 && engine->identity.is_elevated)
		r = fail(engine, "caller.elevated",
			 "started as administrator; start it from an ordinary prompt");
	return r;
}

/* ---- launch ---- */

static int inspect_process(struct engine *engine)
{
	const struct win_calls *calls = engine->calls;
	struct win_process_view view = {0};
	const char *differs;
	int r = calls->inspect(calls->context, engine->process, engine->job, &view, engine->err);

	if (r < 0)
		return r;
	differs = nt_token_differs(&engine->plan.token, &view.token);
	nt_acl_done(&view.token.default_list);
	if (differs)
		return fail(engine, differs, "the process has another token");
	if (!view.is_in_job)
		return fail(engine, "process.job", "the process is not in the job object");
	if (!view.is_suspended)
		return fail(engine, "process.suspended", "the process runs already");
	return 0;
}

static int launch(struct engine *engine, struct engine_result *result)
{
	const struct win_launch what = launch_of(engine);
	const struct win_calls *calls = engine->calls;
	uint64_t wall = engine->options->job->limits[SPEC_WALL];
	int r = calls->start(calls->context, &what, &engine->process, engine->err);

	if (r == 0 && !engine->process)
		r = fail(engine, "process.started", "there is no process");
	if (r == 0)
		r = inspect_process(engine);
	if (r == 0)
		r = calls->resume(calls->context, engine->process, engine->err);
	if (r < 0)
		return r;
	result->has_run = true;
	r = calls->wait(calls->context, engine->process, wall, &result->status, engine->err);
	if (r == -ETIME) {
		result->timed_out = true;
		r = 0;
	}
	return r;
}

/* ---- the end ---- */

/* Every process of the job is gone, or the error says so. */
static int end_job(struct engine *engine, struct atoll_error *err)
{
	const struct win_calls *calls = engine->calls;
	int r, n;

	if (!engine->job)
		return 0;
	r = calls->end_job(calls->context, engine->job, err);
	if (r < 0)
		return r;
	n = calls->count_job(calls->context, engine->job, err);
	if (n > 0)
		return error_set(err, ATOLL_FAULT_HOST, EBUSY,
				 "job.end: %d processes are left in the job object", n);
	return n;
}

static int remove_placeholders(struct engine *engine, struct atoll_error *err)
{
	int first = 0;

	while (engine->n_placeholders > 0) {
		const char *path = engine->request.placeholders[--engine->n_placeholders];
		int r = thing_remove(engine->calls, &engine->ledger, path, err);

		if (r < 0 && first == 0) {
			first = r;
			err = NULL;
		}
	}
	return first;
}

/* A root that an earlier run had finished loses its entries as well: the next run grants it anew.
 */
static int undo_root(struct engine *engine, const struct nt_root *root, struct atoll_error *err)
{
	int64_t r = tree_revoke(engine->calls, root->path, &root->sid, err);

	return r < 0 ? (int)r : engine_ledger_state(&engine->ledger, root->path, "returned", err);
}

static int undo_roots(struct engine *engine, struct atoll_error *err)
{
	int first = 0;

	for (size_t i = engine->request.n_roots; i-- > 0;) {
		int r = engine->root_is_ours[i] ? undo_root(engine, &engine->request.roots[i], err)
						: 0;

		if (r < 0 && first == 0) {
			first = r;
			err = NULL;
		}
	}
	return first;
}

/* Take back what this run changed. */
static int undo(struct engine *engine, struct atoll_error *err)
{
	int r = end_job(engine, err), again;

	again = engine_canaries_remove(&engine->canaries, r < 0 ? NULL : err);
	r = r < 0 ? r : again;
	again = remove_placeholders(engine, r < 0 ? NULL : err);
	r = r < 0 ? r : again;
	again = undo_roots(engine, r < 0 ? NULL : err);
	return r < 0 ? r : again;
}

static void close_all(struct engine *engine)
{
	const struct win_calls *calls = engine->calls;
	const win_handle handles[] = {engine->process, engine->token, engine->desktop, engine->job};

	/* The job last: its last handle ends whatever is still in it. */
	for (size_t i = 0; i < ARRAY_SIZE(handles); i++)
		if (handles[i])
			calls->close(calls->context, handles[i]);
	if (engine->is_locked)
		calls->unlock(calls->context);
	engine_canaries_done(&engine->canaries);
	engine_ledger_close(&engine->ledger);
	nt_request_done(&engine->request);
	free(engine->command_line);
	free(engine->environment);
}

/* The check is the first word of an error such as "token.integrity: ...". */
static void name_check(const struct atoll_error *err, struct engine_result *result)
{
	size_t size = strcspn(err->text, ": ");

	if (err->text[size] == ':' && size < sizeof result->check) {
		memcpy(result->check, err->text, size);
		result->check[size] = '\0';
	}
}

static int run_steps(struct engine *engine, struct engine_result *result)
{
	int r = begin(engine);

	if (r == 0)
		r = plan(engine);
	if (r == 0)
		r = check_names(engine);
	if (r == 0)
		r = apply_roots(engine);
	if (r == 0)
		r = make_placeholders(engine);
	if (r == 0)
		r = make_objects(engine);
	if (r == 0)
		r = try_canaries(engine);
	return r < 0 ? r : launch(engine, result);
}

/* After the command: its processes end and placeholders go; entries of roots stay. */
static int finish(struct engine *engine, struct atoll_error *err)
{
	int r = end_job(engine, err), again;

	again = remove_placeholders(engine, r < 0 ? NULL : err);
	return r < 0 ? r : again;
}

int engine_run(const struct win_calls *calls, const struct engine_options *options,
	       struct engine_result *ret, struct atoll_error *err)
{
	struct engine *engine = calloc(1, sizeof *engine);
	struct atoll_error failed = {0};
	int r, undone;

	*ret = (struct engine_result){0};
	if (!engine)
		return error_oom(err);
	engine->calls = calls;
	engine->options = options;
	engine->err = err;
	engine->canaries.calls = calls;
	engine->canaries.ledger = &engine->ledger;
	r = run_steps(engine, ret);
	ret->weaker = engine->plan.weaker;
	if (r < 0)
		name_check(err, ret);
	undone = ret->has_run ? finish(engine, &failed) : undo(engine, &failed);
	if (r == 0 && undone < 0)
		*err = failed;
	if (undone < 0) {
		ret->is_dirty = true;
		if (r < 0)
			error_context(err, r,
				      "not everything was taken back (%s); run 'atoll "
				      "doctor --repair'",
				      failed.text);
		else
			r = error_context(err, undone,
					  "the command ended, but not everything was "
					  "taken back; run 'atoll doctor --repair'");
	}
	close_all(engine);
	free(engine);
	return r;
}

int engine_plan(const struct win_calls *calls, const struct engine_options *options, bool is_json,
		struct buf *out, struct atoll_error *err)
{
	struct engine *engine = calloc(1, sizeof *engine);
	struct nt_clause *clauses = calloc(NT_CLAUSES_MAX, sizeof *clauses);
	size_t n;
	int r = -ENOMEM;

	if (!engine || !clauses) {
		error_oom(err);
		goto done;
	}
	engine->calls = calls;
	engine->options = options;
	engine->err = err;
	r = begin(engine);
	if (r == 0)
		r = make_request(engine);
	if (r == 0) {
		n = nt_request_clauses(&engine->request, clauses);
		(is_json ? nt_plan_json : nt_plan_text)(&engine->request, clauses, n, out);
		r = nt_plan_make(&engine->request.contract, &engine->plan, err);
	}
	close_all(engine);
done:
	free(clauses);
	free(engine);
	return r;
}
