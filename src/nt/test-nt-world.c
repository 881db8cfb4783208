/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks against the planned lists and token, in the model's file system
 *
 * The cases are those of the published suites of the sandbox that this design comes from (its smoke
 * suite and its tests of delete, rename, junctions, case and streams), as far as they are about
 * files, each under both readings of "write-restricted". A project with a .git lies beside
 * directories of the user's and of others.
 */
#include "base/scope.h"
#include "base/test.h"
#include "nt/nt-plan.h"
#include "nt/nt-world.h"

#include <errno.h>

#define USER "S-1-5-21-9-9-9-1001"
/* What Windows gives a home directory, and a directory that everybody may write. */
#define OWNED  "O:" USER "D:(A;OICI;FA;;;" USER ")(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
#define PUBLIC "O:SYD:(A;OICI;FA;;;WD)"

static const struct nt_sid user = {.authority = 5, .n_subs = 5, .subs = {21, 9, 9, 9, 1001}};
static const struct nt_sid logon = {.authority = 5, .n_subs = 3, .subs = {5, 0, 4711}};
static const struct nt_sid cap = {.authority = 5, .n_subs = 5, .subs = {21, 1, 1, 1, 2147483649}};
static const struct nt_sid cap2 = {.authority = 5, .n_subs = 5, .subs = {21, 2, 2, 2, 2147483650}};

static const struct nt_group groups[] = {
	{.sid = {.authority = 1, .n_subs = 1}},
	{.sid = {.authority = 5, .n_subs = 1, .subs = {11}}},
	{.sid = {.authority = 5, .n_subs = 2, .subs = {32, 545}}},
	{.sid = {.authority = 5, .n_subs = 3, .subs = {5, 0, 4711}}},
	{.sid = {.authority = 5, .n_subs = 2, .subs = {32, 544}}, .is_deny_only = true},
};

static struct nt_world world;
static struct nt_plan plan;
static struct nt_token child;

static void add(const char *path, bool is_directory, const char *sddl)
{
	CHECK(nt_world_add(&world, path, is_directory, sddl));
}

static void descend(struct nt_file *directory, const struct nt_sid *sid)
{
	for (struct nt_file *file = directory->first_child; file; file = file->next_sibling) {
		CHECK(nt_descend(&directory->sd, file->is_directory, sid, &file->sd) >= 0);
		descend(file, sid);
	}
}

static void carry_out_plan(void)
{
	for (size_t i = 0; i < plan.n_operations; i++) {
		const struct nt_operation *operation = &plan.operations[i];
		struct nt_file *file = nt_world_at(&world, operation->path);

		CHECK(file);
		CHECK_INT(nt_operation_apply(operation, &file->sd), 1);
	}
	for (size_t i = 0; i < plan.n_operations; i++)
		descend(nt_world_at(&world, plan.operations[i].path), &plan.operations[i].sid);
}

static void build(void)
{
	add("C:\\u", true, OWNED);
	add("C:\\u\\home.txt", false, NULL);
	add("C:\\u\\p", true, NULL);
	add("C:\\u\\p\\a.txt", false, NULL);
	add("C:\\u\\p\\sub", true, NULL);
	add("C:\\u\\p\\sub\\b.txt", false, NULL);
	add("C:\\u\\p\\.git", true, NULL);
	add("C:\\u\\p\\.git\\config", false, NULL);
	add("C:\\u\\p\\.git\\hooks", true, NULL);
	add("C:\\u\\p\\.codex", true, NULL);
	add("C:\\u\\p\\.codex\\policy.json", false, NULL);
	add("C:\\u\\extra", true, NULL);
	add("C:\\u\\state", true, NULL);
	add("C:\\u\\state\\cap_sid", false, NULL);
	add("C:\\public", true, PUBLIC);
	add("C:\\public\\x.txt", false, NULL);
	add("C:\\Windows", true, "O:SYD:(A;OICI;FA;;;SY)(A;OICI;0x1200a9;;;BU)");
	add("C:\\Windows\\system.ini", false, NULL);
	nt_world_at(&world, "C:\\u\\p\\.git")->short_name = strdup("GIT~1");
	add("C:\\u\\p\\out", true, NULL);
	nt_world_at(&world, "C:\\u\\p\\out")->link = strdup("C:\\u");
	add("C:\\u\\p\\win", true, NULL);
	nt_world_at(&world, "C:\\u\\p\\win")->link = strdup("C:\\Windows");
	add("C:\\u\\p\\sub\\deep", true, NULL);
	nt_world_at(&world, "C:\\u\\p\\sub\\deep")->link = strdup("C:\\public");
}

static void begin(size_t n_roots, uint32_t covers)
{
	static const struct nt_root roots[] = {
		{"C:\\u\\p", {5, 5, {21, 1, 1, 1, 2147483649}}},
		{"C:\\u\\extra", {5, 5, {21, 2, 2, 2, 2147483650}}},
	};
	static const struct nt_protected protected[] = {{"C:\\u\\p\\.git", true},
							{"C:\\u\\p\\.codex", true}};
	const struct nt_contract contract = {.roots = roots,
					     .n_roots = n_roots,
					     .protected = protected,
					     .n_protected = n_roots ? 2 : 0,
					     .user = user,
					     .logon = logon};
	struct atoll_error err;

	nt_world_done(&world);
	CHECK_INT(nt_world_init(&world, "O:SYD:(A;OICI;FA;;;SY)(A;;0x1200a9;;;BU)(A;;LC;;;AU)"), 0);
	build();
	CHECK_INT(nt_plan_make(&contract, &plan, &err), 0);
	carry_out_plan();
	child = nt_token_model(&plan.token, groups, ARRAY_SIZE(groups), covers);
}

#define BOTH_READINGS(covers)                                                                      \
	for (uint32_t covers = NT_COVERS_WRITE, again = 0; again < 2;                              \
	     again++, covers = NT_COVERS_CHANGES)

static int attempt(enum nt_attempt what, const char *path)
{
	return nt_world_try(&world, &child, what, path);
}

/* Every attempt on an existing file and in its directory is refused, and nothing has changed. */
static void check_refused(const char *file, const char *fresh)
{
	cleanup_free char *before = nt_world_text(&world), *after = NULL;

	for (unsigned i = 0; i < NT_ATTEMPTS; i++) {
		bool makes = i == NT_TRY_CREATE || i == NT_TRY_MKDIR;
		int r = attempt(i, makes ? fresh : file);

		if (r != -EACCES)
			test_fail(__FILE__, __LINE__, "%s %s: %d", nt_attempt_name(i),
				  makes ? fresh : file, r);
	}
	after = nt_world_text(&world);
	CHECK_STR(after, before);
}

TEST(without_roots_nothing_can_be_written_anywhere)
{
	BOTH_READINGS(covers)
	{
		begin(0, covers);
		check_refused("C:\\u\\p\\a.txt", "C:\\u\\p\\new");
		check_refused("C:\\u\\home.txt", "C:\\u\\extra\\new");
		check_refused("C:\\public\\x.txt", "C:\\public\\new");
		check_refused("C:\\Windows\\system.ini", "C:\\Windows\\new");
	}
}

TEST(inside_a_root_files_are_made_changed_moved_and_deleted)
{
	BOTH_READINGS(covers)
	{
		begin(2, covers);
		CHECK_INT(attempt(NT_TRY_CREATE, "C:\\u\\p\\new.txt"), 0);
		CHECK_INT(attempt(NT_TRY_OVERWRITE, "C:\\u\\p\\new.txt"), 0);
		CHECK_INT(attempt(NT_TRY_OVERWRITE, "C:\\u\\p\\a.txt"), 0);
		CHECK_INT(attempt(NT_TRY_APPEND, "C:\\u\\p\\sub\\b.txt"), 0);
		CHECK_INT(attempt(NT_TRY_MKDIR, "C:\\u\\p\\d1"), 0);
		CHECK_INT(attempt(NT_TRY_MKDIR, "C:\\u\\p\\d1\\d2"), 0);
		CHECK_INT(attempt(NT_TRY_CREATE, "C:\\u\\p\\d1\\d2\\deep.txt"), 0);
		CHECK_INT(attempt(NT_TRY_RENAME, "C:\\u\\p\\d1\\d2\\deep.txt"), 0);
		CHECK_INT(attempt(NT_TRY_DELETE, "C:\\u\\p\\a.txt"), 0);
		CHECK_INT(attempt(NT_TRY_ATTRIBUTES, "C:\\u\\p\\new.txt"), 0);
		CHECK_INT(attempt(NT_TRY_STREAM, "C:\\u\\p\\new.txt"), 0);
		CHECK_INT(attempt(NT_TRY_CREATE, "C:\\u\\extra\\x"), 0);
		CHECK_INT(nt_world_move(&world, &child, "C:\\u\\p\\new.txt", "C:\\u\\extra\\new"),
			  0);
	}
}

TEST(outside_nothing_can_be_written_under_any_spelling)
{
	static const char *const spellings[][2] = {
		{"C:\\u\\home.txt", "C:\\u\\new"},
		{"\\\\?\\C:\\u\\home.txt", "\\\\?\\C:\\u\\new"},
		{"c:/U/HOME.TXT", "c:/U/New"},
		{"C:\\u\\p\\..\\home.txt", "C:\\u\\p\\..\\new"},
		{"C:\\u\\home.txt. .", "C:\\u\\new..."},
		{"C:\\u\\p\\out\\home.txt", "C:\\u\\p\\out\\new"},
		{"C:\\u\\p\\win\\system.ini", "C:\\u\\p\\win\\new"},
		{"C:\\u\\p\\sub\\deep\\x.txt", "C:\\u\\p\\sub\\deep\\new"},
		{"C:\\u\\state\\cap_sid", "C:\\u\\state\\new"},
		{"C:\\public\\x.txt", "C:\\public\\new"},
	};

	BOTH_READINGS(covers)
	{
		begin(2, covers);
		for (size_t i = 0; i < ARRAY_SIZE(spellings); i++)
			check_refused(spellings[i][0], spellings[i][1]);
		CHECK_INT(attempt(NT_TRY_CREATE, "C:\\u\\home.txt:stream"), -EACCES);
	}
}

TEST(devices_and_shares_are_not_answered_by_the_model)
{
	begin(2, NT_COVERS_CHANGES);
	CHECK_INT(attempt(NT_TRY_OVERWRITE, "\\\\.\\PhysicalDrive0"), -ENXIO);
	CHECK_INT(attempt(NT_TRY_CREATE, "\\\\localhost\\C$\\u\\new"), -ENXIO);
	CHECK_INT(attempt(NT_TRY_CREATE, "D:\\new"), -ENXIO);
}

TEST(protected_paths_stay_under_any_spelling)
{
	static const char *const spellings[][2] = {
		{"C:\\u\\p\\.git\\config", "C:\\u\\p\\.git\\new"},
		{"C:\\u\\p\\.GiT\\config", "C:\\u\\p\\.GiT\\hooks\\pre-commit"},
		{"C:\\u\\p\\.git.\\config", "C:\\u\\p\\.git \\new"},
		{"C:\\u\\p\\GIT~1\\config", "C:\\u\\p\\git~1\\new"},
		{"\\\\?\\C:\\u\\p\\.git\\config", "\\\\?\\C:\\u\\p\\.git\\new"},
		{"C:\\u\\p\\out\\p\\.git\\config", "C:\\u\\p\\out\\p\\.git\\new"},
		{"C:\\u\\p\\.codex\\policy.json", "C:\\u\\p\\.codex\\new"},
	};

	begin(2, NT_COVERS_CHANGES);
	for (size_t i = 0; i < ARRAY_SIZE(spellings); i++)
		check_refused(spellings[i][0], spellings[i][1]);
	CHECK_INT(attempt(NT_TRY_DELETE, "C:\\u\\p\\.git"), -EACCES);
	CHECK_INT(attempt(NT_TRY_RENAME, "C:\\u\\p\\.git"), -EACCES);
	CHECK_INT(nt_world_move(&world, &child, "C:\\u\\p\\.git", "C:\\u\\extra\\g"), -EACCES);
	CHECK_INT(nt_world_move(&world, &child, "C:\\u\\p", "C:\\u\\extra\\p"), -EACCES);
	CHECK_INT(attempt(NT_TRY_STREAM, "C:\\u\\p\\.git\\config"), -EACCES);
}

/* Under the weaker reading a list inside can be changed, and with it the directory that holds
 * .git. The canary for this attempt refuses a run with protected paths:
 * nt_plan.needs_strong_writes.
 */
TEST(the_weaker_reading_is_seen_by_changing_a_list_inside)
{
	begin(2, NT_COVERS_CHANGES);
	CHECK(plan.needs_strong_writes);
	CHECK_INT(attempt(NT_TRY_DACL, "C:\\u\\p\\a.txt"), -EACCES);
	CHECK_INT(attempt(NT_TRY_OWNER, "C:\\u\\p\\a.txt"), -EACCES);
	begin(2, NT_COVERS_WRITE);
	CHECK_INT(attempt(NT_TRY_DACL, "C:\\u\\p\\a.txt"), 0);
	begin(0, NT_COVERS_WRITE);
	CHECK(!plan.needs_strong_writes);
}

TEST(hard_links_and_moves_bring_nothing_in_from_outside)
{
	BOTH_READINGS(covers)
	{
		begin(2, covers);
		CHECK_INT(nt_world_link(&world, &child, "C:\\u\\home.txt", "C:\\u\\p\\l"), -EACCES);
		CHECK_INT(nt_world_move(&world, &child, "C:\\u\\home.txt", "C:\\u\\p\\l"), -EACCES);
		CHECK_INT(nt_world_move(&world, &child, "C:\\u\\p\\a.txt", "C:\\u\\a"), -EACCES);
		CHECK_INT(nt_world_link(&world, &child, "C:\\u\\p\\.git\\config", "C:\\u\\p\\l"),
			  -EACCES);
		CHECK_INT(nt_world_link(&world, &child, "C:\\u\\p\\a.txt", "C:\\u\\p\\l"), 0);
	}
}

/* A .git that does not exist can be made: the planner refuses to promise otherwise. */
TEST(an_absent_protected_name_can_be_made)
{
	begin(2, NT_COVERS_CHANGES);
	CHECK_INT(attempt(NT_TRY_MKDIR, "C:\\u\\extra\\.git"), 0);
}

TEST(the_entries_of_another_run_grant_nothing)
{
	begin(2, NT_COVERS_CHANGES);
	nt_token_specify(&user, &logon, &cap2, 1, &plan.token);
	check_refused("C:\\u\\p\\a.txt", "C:\\u\\p\\new");
	CHECK_INT(attempt(NT_TRY_CREATE, "C:\\u\\extra\\x"), 0);
}

/* Without the integrity level, Everyone as a restricting SID opens what everybody may write. */
TEST(the_level_closes_what_everybody_may_write)
{
	begin(2, NT_COVERS_CHANGES);
	child.integrity = 0;
	CHECK_INT(attempt(NT_TRY_CREATE, "C:\\public\\new"), 0);
	child.integrity = NT_LEVEL_LOW;
	CHECK_INT(attempt(NT_TRY_CREATE, "C:\\public\\new2"), -EACCES);
}

static void revoke_all(struct nt_file *file, const struct nt_sid *sid)
{
	nt_revoke(sid, &file->sd);
	for (struct nt_file *beneath = file->first_child; beneath; beneath = beneath->next_sibling)
		revoke_all(beneath, sid);
}

TEST(what_is_taken_back_leaves_the_world_as_it_was)
{
	cleanup_free char *before = NULL, *after = NULL;

	begin(0, NT_COVERS_CHANGES);
	before = nt_world_text(&world);
	begin(2, NT_COVERS_CHANGES);
	revoke_all(world.root, &cap);
	revoke_all(world.root, &cap2);
	after = nt_world_text(&world);
	CHECK_STR(after, before);
	nt_world_done(&world);
}
