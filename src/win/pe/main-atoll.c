/* SPDX-License-Identifier: Apache-2.0 */
/*
 * atoll.exe: run, doctor, self-test
 *
 *	atoll run [OPTIONS] [-f JOB] -- COMMAND...     one command under a contract
 *	atoll doctor [--json] [--repair [PATH]] [--uninstall]
 *	atoll self-test [--json]                       what this Windows keeps, as TAP
 *	atoll canary                                   started by run; see win-canary.h
 *
 * Exit status of `run`: that of the command; 78 if a check refused, 77 if a clause is missing, 124
 * at the wall limit, 125 for everything else. Never run on Windows by us.
 */
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "nt/nt.h"
#include "win/pe/pe.h"
#include "win/pe/win-canary.h"
#include "win/pe/win-text.h"
#include "win/win.h"

#include <shellapi.h>
#include <stdio.h>

enum {
	EXIT_MISSING = 77,
	EXIT_REFUSED = 78,
	EXIT_TIMED_OUT = 124,
	EXIT_FAILED = 125,
};

struct arguments {
	char **values; /* UTF-8, NULL at the end */
	int n;
};

struct session {
	struct win_host host;
	struct win_calls calls;
	char home[WIN_PATH_SIZE], caller[WIN_PATH_SIZE], store[WIN_PATH_SIZE];
	char **environment;
	struct nt_job job;
	struct job_tree tree;
};

static int complain(const struct atoll_error *err, int status)
{
	fprintf(stderr, "atoll: %s\n", err->text);
	return status;
}

/* ---- what the programs begin with ---- */

static int read_arguments(struct arguments *ret)
{
	wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &ret->n);

	ret->values = wide ? calloc((size_t)ret->n + 1, sizeof *ret->values) : NULL;
	if (!ret->values)
		return -ENOMEM;
	for (int i = 0; i < ret->n; i++) {
		ret->values[i] = win_narrow(wide[i]);
		if (!ret->values[i])
			return -EILSEQ;
	}
	LocalFree(wide);
	return 0;
}

/* The one form of a directory that Windows names. */
static int read_place(const wchar_t *wide, const char *what, char *ret, struct atoll_error *err)
{
	cleanup_free char *path = wide ? win_narrow(wide) : NULL;
	enum nt_path_problem problem;

	if (!path)
		return error_set(err, ATOLL_FAULT_HOST, ENOENT, "%s is not known", what);
	problem = nt_path_read(path, ret, WIN_PATH_SIZE);
	if (problem != NT_PATH_OK)
		return error_set(err, ATOLL_FAULT_HOST, EINVAL, "%s '%s' %s", what, path,
				 nt_path_explain(problem));
	return 0;
}

static int read_places(struct session *session, struct atoll_error *err)
{
	cleanup_free wchar_t *caller = calloc(WIN_PATH_SIZE, sizeof *caller);
	char local[WIN_PATH_SIZE / 2];
	int r;

	if (!caller || !GetCurrentDirectoryW(WIN_PATH_SIZE, caller))
		return win_fail(err, "caller.directory", "GetCurrentDirectoryW");
	r = read_place(_wgetenv(L"USERPROFILE"), "USERPROFILE", session->home, err);
	if (r == 0)
		r = read_place(caller, "the current directory", session->caller, err);
	if (r == 0)
		r = read_place(_wgetenv(L"LOCALAPPDATA"), "LOCALAPPDATA", session->store, err);
	if (r < 0)
		return r;
	snprintf(local, sizeof local, "%s", session->store);
	snprintf(session->store, sizeof session->store, "%s\\atoll", local);
	return win_host_open(session->store, &session->host, &session->calls, err);
}

static int read_environment(struct session *session, struct atoll_error *err)
{
	wchar_t *block = GetEnvironmentStringsW();
	size_t n = 0;

	for (const wchar_t *at = block; at && *at; at += wcslen(at) + 1)
		n++;
	session->environment = calloc(n + 1, sizeof *session->environment);
	if (!block || !session->environment)
		return error_oom(err);
	n = 0;
	for (const wchar_t *at = block; *at; at += wcslen(at) + 1) {
		session->environment[n] = win_narrow(at);
		n += session->environment[n] != NULL; /* no valid UTF-16: nobody can pass it on */
	}
	FreeEnvironmentStringsW(block);
	return 0;
}

/* ---- run ---- */

static int load_job(struct session *session, const char *name, struct atoll_error *err)
{
	cleanup_free wchar_t *wide = win_wide(name);
	cleanup_free char *text = malloc(JOB_TEXT_MAX + 2);
	HANDLE file = wide ? CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING,
					 0, NULL)
			   : INVALID_HANDLE_VALUE;
	DWORD n = 0;
	int r = 0;

	if (file == INVALID_HANDLE_VALUE || !text)
		return error_set(err, ATOLL_FAULT_REQUEST, ENOENT, "job file '%s'", name);
	if (!ReadFile(file, text, JOB_TEXT_MAX + 1, &n, NULL))
		r = win_fail(err, "job", "ReadFile");
	CloseHandle(file);
	if (r == 0)
		r = job_tree_read(name, text, n, &session->tree, err);
	return r < 0 ? r : nt_job_load(&session->job, name, &session->tree, err);
}

struct run_options {
	bool is_plan, is_json;
};

/* Options up to "--" or the command. Returns the number of the command's first word. */
static int read_options(struct session *session, const struct arguments *in,
			struct run_options *ret, struct atoll_error *err)
{
	int i, r = 0;

	for (i = 2; i < in->n && r == 0; i++) {
		const char *word = in->values[i];

		if (streq(word, "--"))
			return i + 1;
		if (word[0] != '-')
			return i;
		if (streq(word, "--plan"))
			ret->is_plan = true;
		else if (streq(word, "--json"))
			ret->is_json = true;
		else if (streq(word, "--direct"))
			session->job.mode = NT_WORKSPACE_DIRECT;
		else if (i + 1 >= in->n)
			r = error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "'%s' needs a value", word);
		else if (streq(word, "-f"))
			r = load_job(session, in->values[++i], err);
		else
			r = nt_job_option(&session->job, word, in->values[++i], err);
	}
	return r < 0 ? r : i;
}

static int set_command(struct session *session, const struct arguments *in, int first,
		       struct atoll_error *err)
{
	if (in->n - first > NT_JOB_COMMAND_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, E2BIG, "over %d arguments",
				 NT_JOB_COMMAND_MAX);
	if (first < in->n)
		session->job.n_command = 0;
	for (int i = first; i < in->n; i++)
		session->job.command[session->job.n_command++] = in->values[i];
	session->job.command[session->job.n_command] = NULL;
	return 0;
}

static int show_plan(struct session *session, const struct engine_options *options, bool is_json)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 22);
	struct atoll_error err = {0};
	int r = engine_plan(&session->calls, options, is_json, &out, &err);

	if (out.data)
		fputs(out.data, stdout);
	if (r == -EPERM)
		return complain(&err, EXIT_MISSING);
	return r < 0 ? complain(&err, EXIT_FAILED) : 0;
}

static void show_result_json(const struct engine_result *result, const struct atoll_error *err)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 16);
	struct json json = {.out = &out};

	json_open(&json, NULL, '{');
	json_bool(&json, "ran", result->has_run);
	json_uint(&json, "status", result->status);
	json_bool(&json, "timed-out", result->timed_out);
	json_str(&json, "check", *result->check ? result->check : NULL);
	json_str(&json, "error", *err->text ? err->text : NULL);
	json_bool(&json, "needs-repair", result->is_dirty);
	json_open(&json, "weaker", '[');
	for (unsigned bit = 1; bit; bit <<= 1)
		if ((result->weaker & bit) && nt_weaker_word(bit))
			json_str(&json, NULL, nt_weaker_word(bit));
	json_close(&json, ']');
	json_close(&json, '}');
	if (out.data)
		fprintf(stderr, "%s\n", out.data);
}

static int exit_status(int r, const struct engine_result *result)
{
	if (r == -EPERM && !result->has_run)
		return EXIT_MISSING;
	if (r < 0)
		return *result->check && !result->has_run ? EXIT_REFUSED : EXIT_FAILED;
	return result->timed_out ? EXIT_TIMED_OUT : (int)result->status;
}

static int cmd_run(struct session *session, const struct arguments *in)
{
	struct atoll_error err = {0};
	struct run_options flags = {0};
	struct engine_result result;
	struct engine_options options = {.job = &session->job,
					 .home = session->home,
					 .caller = session->caller,
					 .store = session->store,
					 .environment = (const char *const *)session->environment};
	int r;

	nt_job_init(&session->job);
	r = read_options(session, in, &flags, &err);
	if (r >= 0)
		r = set_command(session, in, r, &err);
	if (r < 0)
		return complain(&err, EXIT_FAILED);
	if (flags.is_plan)
		return show_plan(session, &options, flags.is_json);
	session->host.output_limit = session->job.limits[SPEC_OUTPUT];
	r = engine_run(&session->calls, &options, &result, &err);
	if (flags.is_json)
		show_result_json(&result, &err);
	else if (r < 0)
		complain(&err, 0);
	else if (result.timed_out)
		fprintf(stderr, "atoll: ended at its wall limit\n");
	return exit_status(r, &result);
}

/* ---- doctor and self-test ---- */

static int cmd_repair(struct session *session, const char *path, bool everything)
{
	struct engine_repair_result result;
	struct atoll_error err = {0};
	int r = engine_repair(&session->calls, path, everything, &result, &err);

	printf("took back %zu roots, changed %zu files, removed %zu directories; %zu lines of the "
	       "ledger were damaged\n",
	       result.n_roots, result.n_files, result.n_things, result.n_damaged);
	return r < 0 ? complain(&err, EXIT_FAILED) : 0;
}

static void show_probes_json(const struct engine_probe *probes, size_t n)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 20);
	struct json json = {.out = &out};
	OSVERSIONINFOW version = {.dwOSVersionInfoSize = sizeof version};

	GetVersionExW(&version);
	json_open(&json, NULL, '{');
	json_str(&json, "version", ATOLL_VERSION);
	json_uint(&json, "windows-build", version.dwBuildNumber);
	json_open(&json, "checks", '[');
	for (size_t i = 0; i < n; i++) {
		json_open(&json, NULL, '{');
		json_str(&json, "name", probes[i].name);
		json_bool(&json, "holds", probes[i].holds);
		json_str(&json, "observed", probes[i].observed);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_close(&json, '}');
	if (out.data)
		puts(out.data);
}

static int cmd_probe(struct session *session, bool is_json)
{
	struct engine_probe probes[ENGINE_PROBES_MAX];
	struct atoll_error err = {0};
	size_t n, n_failed = 0;

	if (session->calls.lock(session->calls.context, &err) < 0)
		return complain(&err, EXIT_FAILED);
	n = engine_probe_all(&session->calls, session->store, probes);
	session->calls.unlock(session->calls.context);
	for (size_t i = 0; i < n; i++)
		n_failed += !probes[i].holds;
	if (is_json) {
		show_probes_json(probes, n);
	} else {
		printf("1..%zu\n", n);
		for (size_t i = 0; i < n; i++)
			printf("%s %zu - %s # %s\n", probes[i].holds ? "ok" : "not ok", i + 1,
			       probes[i].name, probes[i].observed);
		printf("# Schannel: programs that use it (curl.exe of Windows, PowerShell, .NET, "
		       "NuGet) cannot do HTTPS in a sandbox; git is set to OpenSSL\n");
	}
	return n_failed ? EXIT_REFUSED : 0;
}

static int cmd_doctor(struct session *session, const struct arguments *in)
{
	bool is_json = false;

	for (int i = 2; i < in->n; i++) {
		if (streq(in->values[i], "--json"))
			is_json = true;
		else if (streq(in->values[i], "--repair"))
			return cmd_repair(session, i + 1 < in->n ? in->values[i + 1] : NULL, false);
		else if (streq(in->values[i], "--uninstall"))
			return cmd_repair(session, NULL, true);
		else {
			fprintf(stderr, "atoll: unknown option '%s'\n", in->values[i]);
			return EXIT_FAILED;
		}
	}
	return cmd_probe(session, is_json);
}

/* ---- the front door ---- */

static int usage(void)
{
	fputs("usage: atoll run [OPTIONS] [-f JOB] -- COMMAND...\n"
	      "       atoll doctor [--json] [--repair [PATH]] [--uninstall]\n"
	      "       atoll self-test [--json]\n",
	      stderr);
	return EXIT_FAILED;
}

int main(void)
{
	static struct session session;
	struct arguments in = {0};
	struct atoll_error err = {0};
	int r;

	/* No dialog box of a program that crashes, and no DLL from the current directory. */
	SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
	SetDllDirectoryW(L"");
	if (read_arguments(&in) < 0 || in.n < 2)
		return usage();
	if (streq(in.values[1], "canary"))
		return win_canary_main();
	if (!streq(in.values[1], "run") && !streq(in.values[1], "doctor") &&
	    !streq(in.values[1], "self-test"))
		return usage();
	r = read_places(&session, &err);
	if (r == 0)
		r = read_environment(&session, &err);
	if (r < 0)
		return complain(&err, EXIT_FAILED);
	if (streq(in.values[1], "run"))
		return cmd_run(&session, &in);
	return cmd_doctor(&session, &in);
}
