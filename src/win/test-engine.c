/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine against a Windows in memory (fake.h)
 *
 * Fault injection: call number N fails, or claims success and does nothing, for every N; then calls
 * N to the end, so that taking back fails as well. No command may start on the word of a call that
 * did not do its work, and nothing may stay changed, or it is said, in the ledger, and ended by
 * engine_repair().
 */
#include "base/buf.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "win/engine-probe.h"
#include "win/engine-repair.h"
#include "win/engine.h"
#include "win/fake.h"

#include <errno.h>
#include <stdlib.h>

#define USER  "S-1-5-21-9-9-9-1001"
#define OWNED "O:" USER "D:(A;OICI;FA;;;" USER ")(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
#define STORE "C:\\u\\me\\AppData\\Local\\atoll"

static struct fake fake;
static struct nt_job job;
static struct engine_result result;
static struct atoll_error err;

static const char *const environment[] = {"SystemRoot=C:\\Windows", "PATH=C:\\Windows", "SECRET=x",
					  NULL};

static void add(const char *path, bool is_directory, const char *sddl)
{
	CHECK(nt_world_add(&fake.world, path, is_directory, sddl));
}

static void begin(void)
{
	fake_done(&fake);
	CHECK_INT(fake_init(&fake), 0);
	add("C:\\u", true, "O:SYD:(A;OICI;FA;;;SY)(A;;0x1200a9;;;BU)");
	add("C:\\u\\me", true, OWNED);
	add("C:\\u\\me\\home.txt", false, NULL);
	add("C:\\u\\me\\AppData", true, NULL);
	add("C:\\u\\me\\AppData\\Local", true, NULL);
	add(STORE, true, NULL);
	add(STORE "\\temp", true, NULL);
	add("C:\\u\\me\\p", true, NULL);
	add("C:\\u\\me\\p\\a.txt", false, NULL);
	add("C:\\u\\me\\p\\sub", true, NULL);
	add("C:\\u\\me\\p\\sub\\b.txt", false, NULL);
	add("C:\\u\\me\\p\\.git", true, NULL);
	add("C:\\u\\me\\p\\.git\\config", false, NULL);
	add("C:\\u\\me\\p\\.envrc", false, NULL);
	add("C:\\u\\me\\p\\link", true, NULL);
	nt_world_at(&fake.world, "C:\\u\\me\\p\\link")->link = strdup("C:\\u\\me");
	nt_job_init(&job);
	job.command[0] = "cmd.exe";
	job.n_command = 1;
	job.mode = NT_WORKSPACE_DIRECT;
	job.accepted = NT_WEAKER_READ | NT_WEAKER_NETWORK | NT_WEAKER_PROTECT;
}

static const struct engine_options options = {.job = &job,
					      .home = "C:\\u\\me",
					      .caller = "C:\\u\\me\\p",
					      .store = STORE,
					      .environment = environment};

static int run(void)
{
	const struct win_calls calls = fake_calls(&fake);

	memset(&err, 0, sizeof err);
	return engine_run(&calls, &options, &result, &err);
}

static int repair(bool everything)
{
	const struct win_calls calls = fake_calls(&fake);
	struct engine_repair_result repaired;

	fake.fault_at = 0;
	fake.is_locked = false; /* the lock of a process that is gone */
	return engine_repair(&calls, NULL, everything, &repaired, &err);
}

/* The world without the directories that the store keeps. */
static char *world_text(void)
{
	cleanup_free char *text = nt_world_text(&fake.world);
	cleanup_buf struct buf out = BUF_INIT(SIZE_MAX / 2);

	CHECK(text);
	for (char *line = text, *next; *line; line = next) {
		next = strchr(line, '\n') + 1;
		if (!starts_with(line, STORE "\\temp\\") || strstr(line, "canary") > line + 60)
			buf_add(&out, line, (size_t)(next - line));
	}
	buf_add_str(&out, "");
	return buf_take(&out);
}

/* ---- the good path ---- */

TEST(a_command_runs_and_leaves_only_the_entries_of_its_roots)
{
	cleanup_free char *before = NULL, *after = NULL;

	begin();
	before = world_text();
	fake.status = 23;
	if (run() < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK(result.has_run);
	CHECK_INT(result.status, 23);
	CHECK_INT(fake.n_started, 1);
	CHECK_INT(fake.n_wrong, 0);
	CHECK_INT(fake.n_open, 0);
	CHECK(!fake.is_locked);
	CHECK(!nt_world_at(&fake.world, "C:\\u\\me\\p\\.vscode"));
	after = world_text();
	CHECK(strcmp(before, after) != 0);
	CHECK(!strstr(after, "canary"));
	CHECK_INT(repair(false), 0);
	CHECK_INT(repair(true), 0);
	free(after);
	after = world_text();
	CHECK_STR(after, before);
}

TEST(links_are_not_followed)
{
	begin();
	CHECK_INT(run(), 0);
	CHECK(!strstr(fake.ledger, "home.txt"));
	CHECK_INT(nt_world_at(&fake.world, "C:\\u\\me\\home.txt")->sd.dacl.n_aces, 3);
}

TEST(a_root_keeps_its_sid_for_ever)
{
	cleanup_free char *first = NULL;

	begin();
	CHECK_INT(run(), 0);
	first = strndup(fake.ledger, strcspn(fake.ledger, "\n"));
	CHECK_INT(repair(true), 0);
	CHECK_INT(run(), 0);
	CHECK(starts_with(fake.ledger, first));
	CHECK(!strstr(fake.ledger + strlen(first), "\troot\t3"));
}

TEST(a_later_start_does_not_depend_on_the_size_of_the_tree)
{
	size_t first[2], later[2];
	static const unsigned sizes[] = {10, 100000};

	for (size_t i = 0; i < 2; i++) {
		begin();
		for (unsigned n = 0; n < sizes[i]; n++) {
			char path[64];

			if (n % 1000 == 0) {
				snprintf(path, sizeof path, "C:\\u\\me\\p\\sub\\%u", n / 1000);
				add(path, true, NULL);
			}
			snprintf(path, sizeof path, "C:\\u\\me\\p\\sub\\%u\\f%u", n / 1000, n);
			add(path, false, NULL);
		}
		fake.n_calls = 0;
		CHECK_INT(run(), 0);
		first[i] = fake.n_calls;
		fake.n_calls = 0;
		CHECK_INT(run(), 0);
		later[i] = fake.n_calls;
	}
	CHECK(first[1] > first[0] + 5 * 99990);
	CHECK_INT(later[1], later[0]);
}

TEST(a_command_without_end_is_ended_at_its_wall_limit)
{
	begin();
	fake.runs_for_ever = true;
	CHECK_INT(run(), 0);
	CHECK(result.timed_out);
	CHECK_INT(fake.n_open, 0);
}

TEST(a_new_protected_name_is_protected_at_the_next_start)
{
	begin();
	CHECK_INT(run(), 0);
	add("C:\\u\\me\\p\\.claude", true, NULL);
	add("C:\\u\\me\\p\\.claude\\settings.json", false, NULL);
	CHECK_INT(run(), 0);
	CHECK_INT(nt_world_at(&fake.world, "C:\\u\\me\\p\\.claude")->sd.dacl.aces[0].type,
		  NT_ACE_DENY);
}

/* ---- refusals ---- */

static void check_refused(const char *check)
{
	cleanup_free char *after = world_text();

	CHECK(run() < 0);
	if (strcmp(result.check, check) != 0)
		test_fail(__FILE__, __LINE__, "check '%s', not '%s': %s", result.check, check,
			  err.text);
	CHECK_INT(fake.n_started, 0);
	CHECK(!result.is_dirty);
	CHECK_INT(fake.n_open, 0);
	CHECK(!strstr(after, "canary"));
}

#define LYING(field, check)                                                                        \
	do {                                                                                       \
		cleanup_free char *before_ = NULL, *after_ = NULL;                                 \
		begin();                                                                           \
		before_ = world_text();                                                            \
		fake.field = true;                                                                 \
		check_refused(check);                                                              \
		after_ = world_text();                                                             \
		CHECK_STR(after_, before_);                                                        \
	} while (0)

TEST(a_platform_that_lies_is_refused_by_the_name_of_the_check)
{
	LYING(ignores_restricting, "token.restricting");
	LYING(ignores_privileges, "token.privileges");
	LYING(ignores_integrity, "token.integrity");
	LYING(ignores_lists, "list.read-back");
	LYING(ignores_labels, "list.read-back");
	LYING(ignores_limits, "job.memory");
	LYING(ignores_interface, "job.user-interface");
	LYING(ignores_desktop_list, "desktop.list");
	LYING(ignores_second_walk, "canary.outside");
	LYING(is_elevated, "caller.elevated");
}

/* The token reads back as asked for, and is not enforced: only the canary sees it. */
TEST(protected_paths_need_the_stronger_reading)
{
	begin();
	fake.write_covers = NT_COVERS_WRITE;
	check_refused("canary.inside");
	CHECK(strstr(err.text, "change the list"));
	/* Without anything protected the weaker reading is enough. */
	begin();
	fake.write_covers = NT_COVERS_WRITE;
	job.mode = NT_WORKSPACE_READ_ONLY;
	if (run() < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK_INT(fake.n_started, 1);
}

TEST(clauses_that_are_not_accepted_refuse_before_anything_changes)
{
	static const struct {
		unsigned accepted;
		const char *want;
	} cases[] = {{NT_WEAKER_NETWORK | NT_WEAKER_PROTECT, "--accept-weaker read"},
		     {NT_WEAKER_READ | NT_WEAKER_PROTECT, "--accept-weaker network"},
		     {NT_WEAKER_READ | NT_WEAKER_NETWORK, "--accept-weaker protect"}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cleanup_free char *before = NULL, *after = NULL;

		begin();
		before = world_text();
		job.accepted = cases[i].accepted;
		CHECK_INT(run(), -EPERM);
		CHECK(strstr(err.text, cases[i].want));
		after = world_text();
		CHECK_STR(after, before);
	}
}

TEST(the_plan_says_the_same_and_changes_no_file)
{
	const struct win_calls calls = fake_calls(&fake);
	cleanup_free char *before = NULL, *after = NULL;
	cleanup_buf struct buf out = BUF_INIT(1 << 20);

	begin();
	before = world_text();
	job.accepted = 0;
	CHECK_INT(engine_plan(&calls, &options, true, &out, &err), -EPERM);
	CHECK(strstr(out.data, "\"enforceable\":false"));
	CHECK(strstr(out.data, "C:\\\\u\\\\me\\\\p\\\\.git"));
	after = world_text();
	CHECK_STR(after, before);
	CHECK(!fake.is_locked);
}

TEST(a_root_that_is_a_link_is_refused)
{
	begin();
	nt_world_at(&fake.world, "C:\\u\\me\\p\\.envrc")->link = strdup("C:\\u\\me\\home.txt");
	check_refused("file.link");
}

/* ---- probes ---- */

TEST(a_good_host_passes_every_probe_and_a_lying_one_fails_by_name)
{
	const struct win_calls calls = fake_calls(&fake);
	struct engine_probe probes[ENGINE_PROBES_MAX];
	cleanup_free char *before = NULL, *after = NULL;
	size_t n, n_failed = 0;

	begin();
	before = world_text();
	n = engine_probe_all(&calls, STORE, probes);
	CHECK_INT(n, 24);
	for (size_t i = 0; i < n; i++)
		if (!probes[i].holds)
			test_fail(__FILE__, __LINE__, "%s: %s", probes[i].name, probes[i].observed);
	fake.ignores_restricting = fake.ignores_labels = fake.ignores_interface = true;
	n = engine_probe_all(&calls, STORE, probes);
	for (size_t i = 0; i < n; i++)
		n_failed += !probes[i].holds;
	CHECK_INT(n_failed, 5); /* restricting, write-restricted, interface, label, inside */
	after = world_text();
	CHECK_STR(after, before);
	CHECK_INT(fake.n_open, 0);
}

/* ---- a damaged ledger ---- */

TEST(a_damaged_ledger_does_not_stop_the_next_run)
{
	begin();
	CHECK_INT(run(), 0);
	free(fake.ledger);
	fake.ledger = strdup("\1\2\3 torn");
	CHECK_INT(run(), 0);
	CHECK_INT(fake.n_started, 2);
}

TEST(entries_of_a_lost_ledger_are_found_by_their_tag)
{
	const struct win_calls calls = fake_calls(&fake);
	cleanup_free char *before = NULL, *after = NULL;
	struct engine_repair_result repaired;

	begin();
	before = world_text();
	CHECK_INT(run(), 0);
	free(fake.ledger);
	fake.ledger = strdup("");
	CHECK_INT(engine_repair(&calls, "C:\\u\\me\\p", true, &repaired, &err), 0);
	CHECK(repaired.n_files >= 7);
	after = world_text();
	CHECK_STR(after, before);
}

/* ---- fault injection ---- */

/* Calls whose lie no check can see. doc/windows.md has the same list. */
static const char *const unseen[] = {"lock", "close", "list", "resume"};

/* A call without a result cannot fail: closing has only lies. */
static bool is_unseen(const char *call, enum fake_fault fault)
{
	for (size_t i = 0; i < ARRAY_SIZE(unseen); i++)
		if (streq(unseen[i], call))
			return fault == FAKE_LIES || streq(call, "close");
	return false;
}

static size_t seen_lies[ARRAY_SIZE(unseen)];

static void note_unseen(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(unseen); i++)
		seen_lies[i] += streq(unseen[i], fake.fault_call);
}

struct injection {
	char *before, *granted; /* worlds: untouched, and after an honest run */
	size_t n_calls, n_resume;
};

/* One run with faults. `is_outage`: every call from there on. */
static void inject(const struct injection *in, size_t at, enum fake_fault fault, bool is_outage)
{
	cleanup_free char *after = NULL;
	bool had_started;
	int r;

	begin();
	fake.fault_at = at;
	fake.faults_to = is_outage ? SIZE_MAX : 0;
	fake.fault = fault;
	r = run();
	had_started = fake.n_started > 0;
	CHECK_INT(fake.n_wrong, 0);
	if (fake.lie_is_truth)
		return;
	if (had_started && at <= in->n_resume && !is_unseen(fake.fault_call, fault))
		test_fail(__FILE__, __LINE__, "call %zu (%s) had fault %d, and a command ran", at,
			  fake.fault_call, fault);
	if (had_started && at <= in->n_resume)
		note_unseen();
	if (result.is_dirty && !strstr(err.text, "doctor --repair"))
		test_fail(__FILE__, __LINE__, "call %zu: %s", at, err.text);
	if (r < 0 && !*err.text)
		test_fail(__FILE__, __LINE__, "call %zu: no reason", at);
	after = world_text();
	/* A command that ran leaves the entries of its roots, a refused one nothing. */
	if (strcmp(after, had_started ? in->granted : in->before) != 0) {
		if (!result.is_dirty && !is_unseen(fake.fault_call, fault))
			test_fail(__FILE__, __LINE__,
				  "call %zu (%s), fault %d: changed and not said: %s\n%s", at,
				  fake.fault_call, fault, err.text, after);
		if (!result.is_dirty)
			note_unseen();
		CHECK_INT(repair(!had_started), 0);
		free(after);
		after = world_text();
		if (strcmp(after, had_started ? in->granted : in->before) != 0)
			test_fail(__FILE__, __LINE__, "call %zu (%s): not repaired:\n%s", at,
				  fake.fault_call, after);
	}
}

static void prepare_injection(struct injection *in)
{
	begin();
	in->before = world_text();
	CHECK_INT(run(), 0);
	in->n_calls = fake.n_calls;
	in->granted = world_text();
	in->n_resume = 0;
	for (size_t at = in->n_calls; at > 0 && !in->n_resume; at--) {
		begin();
		fake.fault_at = at;
		fake.fault = FAKE_LIES;
		run();
		if (streq(fake.fault_call, "resume"))
			in->n_resume = at;
	}
	CHECK(in->n_resume > 100);
}

static void inject_all(enum fake_fault fault, bool is_outage)
{
	struct injection in;

	prepare_injection(&in);
	for (size_t at = 1; at <= in.n_calls; at++)
		inject(&in, at, fault, is_outage);
	free(in.before);
	free(in.granted);
}

TEST(no_command_starts_if_a_call_fails)
{
	inject_all(FAKE_FAILS, false);
}

TEST(no_command_starts_if_a_call_does_nothing)
{
	inject_all(FAKE_LIES, false);
}

TEST(what_cannot_be_taken_back_is_repaired_later)
{
	inject_all(FAKE_FAILS, true);
}

TEST(the_list_of_lies_that_no_check_sees_is_exact)
{
	cleanup_buf struct buf seen = BUF_INIT(1000);

	buf_add_str(&seen, "");
	for (size_t i = 0; i < ARRAY_SIZE(unseen); i++)
		if (!seen_lies[i])
			buf_addf(&seen, "%s ", unseen[i]);
	fake_done(&fake);
	CHECK_STR(seen.data, "");
}
