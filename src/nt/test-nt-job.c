/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "nt/nt-clauses.h"

#include <errno.h>

static struct nt_job job;
static struct job_tree tree;
static struct nt_request request;
static struct nt_clause clauses[NT_CLAUSES_MAX];

static int load(const char *text, const char *want)
{
	struct atoll_error err = {0};
	int r;

	job_tree_done(&tree);
	nt_job_init(&job);
	r = job_tree_read("job", text, strlen(text), &tree, &err);
	if (r == 0)
		r = nt_job_load(&job, "job", &tree, &err);
	if (want && !strstr(err.text, want))
		test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", err.text, want);
	return r;
}

/* ---- a host ---- */

static int kind(void *context, const char *path)
{
	static const char *const directories[] = {"C:\\u\\me\\p", "C:\\u\\me\\p\\.git",
						  "C:\\u\\me\\cache", "C:\\u\\me\\p\\sub"};

	(void)context;
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++)
		if (streq(path, directories[i]))
			return NT_IS_DIRECTORY;
	return streq(path, "C:\\u\\me\\p\\.envrc") ? NT_IS_FILE : NT_NOTHING;
}

static int sid_of(void *context, const char *root, struct nt_sid *ret, struct atoll_error *err)
{
	uint8_t random[12] = {0};

	(void)context;
	(void)err;
	for (size_t i = 0; root[i]; i++)
		random[i % 12] ^= (uint8_t)(root[i] * (int)(i + 1));
	*ret = nt_sid_from_random(random);
	return 0;
}

static const struct nt_host host = {.home = "C:\\u\\me",
				    .caller = "C:\\u\\me\\p",
				    .store = "C:\\u\\me\\AppData\\Local\\atoll",
				    .user = {5, 5, {21, 9, 9, 9, 1001}},
				    .logon = {5, 3, {5, 0, 1}},
				    .n_processors = 4,
				    .kind = kind,
				    .sid_of = sid_of};

static int make(const char *want)
{
	struct atoll_error err = {0};
	int r;

	nt_request_done(&request);
	r = nt_request_make(&job, &host, &request, &err);
	if (want && !strstr(err.text, want))
		test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", err.text, want);
	return r;
}

static const char whole[] = "version: 1\n"
			    "command: [cmd.exe, /c, echo]\n"
			    "workspace:\n  mode: direct\n  cwd: sub\n"
			    "filesystem:\n"
			    "  write: [~\\cache]\n"
			    "  protect: [sub]\n"
			    "network: off\n"
			    "limits: {memory: 512M, pids: 20, cpus: 2, wall: 10m}\n"
			    "environment:\n  pass: [Path]\n  set: {A: \"1\"}\n"
			    "isolation:\n  accept-weaker: [read, network, protect]\n";

TEST(a_job_file_is_read)
{
	CHECK_INT(load(whole, NULL), 0);
	CHECK_INT(job.n_command, 3);
	CHECK_INT(job.mode, NT_WORKSPACE_DIRECT);
	CHECK_INT(job.n_rules, 2);
	CHECK_INT(job.limits[SPEC_MEMORY], 512 << 20);
	CHECK_INT(job.n_variables, 2);
	CHECK_INT(job.accepted, NT_WEAKER_READ | NT_WEAKER_NETWORK | NT_WEAKER_PROTECT);
}

TEST(unknown_keys_and_wrong_types_are_refused_with_their_line)
{
	CHECK_INT(load("version: 2\n", "must be 1"), -EINVAL);
	CHECK_INT(load("version: 1\nwirte: x\n", "job:2: 'wirte' is an unknown key"), -EINVAL);
	CHECK_INT(load("version: 1\nimage: debian\n", "not available on Windows"), -EINVAL);
	CHECK_INT(load("version: 1\nnetwork:\n  secrets: []\n", "not available on Windows"),
		  -EINVAL);
	CHECK_INT(load("version: 1\ncommand: dir\n", "a list of program and arguments"), -EINVAL);
	CHECK_INT(load("version: 1\nfilesystem: x\n", "is no map"), -EINVAL);
	CHECK_INT(load("version: 1\nfilesystem:\n  write: C:\\x\n", "is no list"), -EINVAL);
	CHECK_INT(load("version: 1\nfilesystem:\n  write: [1]\n", "is no text"), -EINVAL);
	CHECK_INT(load("version: 1\nlimits: {memory: lots}\n", "memory"), -EINVAL);
	CHECK_INT(load("version: 1\nfilesystem.write: [x]\n", "unknown key"), -EINVAL);
	CHECK_INT(load("version: 1\nenvironment: {set: {ATOLL_X: \"1\"}}\n", "atoll alone"),
		  -EPERM);
	CHECK_INT(load("[1]\n", "no map"), -EINVAL);
	CHECK_INT(load("version: 1\nisolation: {accept-weaker: [all]}\n", "accept-weaker 'all'"),
		  -EINVAL);
}

TEST(a_job_becomes_the_contract_of_this_host)
{
	struct nt_plan *plan = malloc(sizeof *plan);
	struct atoll_error err;

	CHECK(plan);
	CHECK_INT(load(whole, NULL), 0);
	CHECK_INT(make(NULL), 0);
	CHECK_STR(request.workspace, "C:\\u\\me\\p");
	CHECK_STR(request.cwd, "C:\\u\\me\\p\\sub");
	CHECK_INT(request.n_roots, 3);
	CHECK_STR(request.roots[0].path, "C:\\u\\me\\p");
	CHECK_STR(request.roots[1].path, "C:\\u\\me\\cache");
	CHECK(strstr(request.roots[2].path, "C:\\u\\me\\AppData\\Local\\atoll\\temp\\"));
	CHECK_STR(request.protected[0].path, "C:\\u\\me\\p\\.git");
	CHECK(request.n_absent > 20);
	CHECK(request.n_placeholders > 5);
	CHECK_INT(request.contract.memory_bytes, 512 << 20);
	CHECK_INT(request.contract.cpu_percent, 50);
	CHECK_INT(request.contract.processes, 20);
	CHECK_INT(nt_plan_make(&request.contract, plan, &err), 0);
	CHECK_INT(plan->weaker, NT_WEAKER_READ | NT_WEAKER_NETWORK | NT_WEAKER_PROTECT);
	CHECK(plan->needs_strong_writes);
	free(plan);
}

TEST(a_layer_has_no_weak_protection_and_its_own_root)
{
	CHECK_INT(load("version: 1\ncommand: [x]\n", NULL), 0);
	CHECK_INT(make(NULL), 0);
	CHECK_INT(request.n_roots, 2);
	CHECK(strstr(request.work_root, "\\atoll\\mirrors\\"));
	CHECK_INT(request.n_protected, 0);
	CHECK_INT(request.n_absent, 0);
}

TEST(broad_and_odd_paths_are_refused)
{
	struct atoll_error err;

	CHECK_INT(load("version: 1\ncommand: [x]\n", NULL), 0);
	CHECK_INT(nt_job_option(&job, "--write", "C:\\u\\me", &err), 0);
	CHECK_INT(make("holds the home directory"), -EPERM);
	job.n_rules = 0;
	CHECK_INT(nt_job_option(&job, "--write", "C:\\u\\me\\AppData\\Local\\atoll\\x", &err), 0);
	CHECK_INT(make("atoll's own files"), -EPERM);
	job.n_rules = 0;
	CHECK_INT(nt_job_option(&job, "--write", "C:\\x:stream", &err), 0);
	CHECK_INT(make("names a stream"), -EINVAL);
	job.n_rules = 0;
	CHECK_INT(nt_job_option(&job, "--write", "gone", &err), 0);
	CHECK_INT(make("write 'C:\\u\\me\\p\\gone'"), -ENOTDIR);
	job.n_rules = 0;
	CHECK_INT(nt_job_option(&job, "--workspace", "C:\\none", &err), 0);
	CHECK_INT(make("workspace 'C:\\none'"), -ENOTDIR);
	CHECK_INT(nt_job_option(&job, "--frobnicate", "1", &err), -ENOENT);
	job.workspace = NULL;
	job.cwd = "..";
	CHECK_INT(make("outside the workspace"), -EINVAL);
	job.n_command = 0;
	CHECK_INT(make("no command"), -EINVAL);
}

static const struct nt_clause *find_clause(const char *name, enum nt_strength strength)
{
	size_t n = nt_request_clauses(&request, clauses);

	for (size_t i = 0; i < n; i++)
		if (streq(clauses[i].clause, name) && clauses[i].strength == strength)
			return &clauses[i];
	return NULL;
}

TEST(clauses_name_what_is_missing_until_it_is_accepted)
{
	cleanup_buf struct buf text = BUF_INIT(1 << 20), json = BUF_INIT(1 << 20);

	CHECK_INT(load("version: 1\ncommand: [x]\nlimits: {disk: 1G}\n", NULL), 0);
	CHECK_INT(make(NULL), 0);
	CHECK(find_clause("filesystem.hide", NT_MISSING));
	CHECK(find_clause("network", NT_MISSING));
	CHECK(find_clause("limits.disk", NT_MISSING));
	CHECK(find_clause("limits.memory", NT_ENFORCED));
	nt_plan_json(&request, clauses, nt_request_clauses(&request, clauses), &json);
	CHECK(strstr(json.data, "\"enforceable\":false"));
	job.accepted = NT_WEAKER_READ | NT_WEAKER_NETWORK | NT_WEAKER_LIMITS;
	CHECK(find_clause("filesystem.hide", NT_WEAKER));
	CHECK(find_clause("network", NT_WEAKER));
	CHECK(!find_clause("filesystem.protect", NT_MISSING));
	json.used = 0;
	nt_plan_json(&request, clauses, nt_request_clauses(&request, clauses), &json);
	CHECK(strstr(json.data, "\"enforceable\":true"));
	nt_plan_text(&request, clauses, nt_request_clauses(&request, clauses), &text);
	CHECK(strstr(text.data, "weaker, accepted"));
	nt_request_done(&request);
	job_tree_done(&tree);
}
