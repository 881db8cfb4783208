/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "spec/git.h"

static const char *what;

static enum git_verdict ask(const char *inside, enum names_action action)
{
	what = NULL;
	return git_guard(inside, action, false, &what);
}

static enum git_verdict ask_own(const char *inside, enum names_action action)
{
	what = NULL;
	return git_guard(inside, action, true, &what);
}

/* A file that git makes under another name, renames, writes and removes. */
static bool is_file(const char *inside)
{
	return ask(inside, NAMES_CREATE) == GIT_ALLOW && ask(inside, NAMES_WRITE) == GIT_ALLOW &&
	       ask(inside, NAMES_RENAME_TO) == GIT_ALLOW &&
	       ask(inside, NAMES_REMOVE) == GIT_ALLOW && ask(inside, NAMES_CHMOD) == GIT_ALLOW &&
	       ask(inside, NAMES_SYMLINK) == GIT_REFUSE &&
	       ask(inside, NAMES_RENAME_DIR_TO) == GIT_REFUSE;
}

static bool is_directory(const char *inside)
{
	return ask(inside, NAMES_MKDIR) == GIT_ALLOW &&
	       ask(inside, NAMES_RENAME_DIR_TO) == GIT_REFUSE &&
	       ask(inside, NAMES_SYMLINK) == GIT_REFUSE;
}

static bool is_refused(const char *inside)
{
	for (enum names_action action = NAMES_WRITE; action <= NAMES_CHMOD; action++)
		if (ask(inside, action) != GIT_REFUSE || !what || !*what)
			return false;
	return true;
}

/* No content gets in, by whatever way. */
static bool is_sealed(const char *inside)
{
	return ask(inside, NAMES_CREATE) == GIT_REFUSE && ask(inside, NAMES_WRITE) == GIT_REFUSE &&
	       ask(inside, NAMES_RENAME_TO) == GIT_REFUSE &&
	       ask(inside, NAMES_RENAME_DIR_TO) == GIT_REFUSE &&
	       ask(inside, NAMES_SYMLINK) == GIT_REFUSE &&
	       ask_own(inside, NAMES_CREATE) == GIT_REFUSE &&
	       ask_own(inside, NAMES_WRITE) == GIT_REFUSE &&
	       ask_own(inside, NAMES_RENAME_TO) == GIT_REFUSE;
}

TEST(the_git_directory_may_be_made_and_only_the_own_one_removed) /* TH-14, FS-W11 */
{
	CHECK_INT(ask("", NAMES_MKDIR), GIT_ALLOW);
	CHECK_INT(ask("", NAMES_REMOVE), GIT_REFUSE);
	CHECK_STR(what, "git directory");
	CHECK_INT(ask_own("", NAMES_REMOVE), GIT_ALLOW);
	CHECK_INT(ask("", NAMES_RENAME_DIR_TO), GIT_REFUSE);
	CHECK_INT(ask_own("", NAMES_RENAME_DIR_TO), GIT_REFUSE);
	CHECK_INT(ask("", NAMES_SYMLINK), GIT_REFUSE);
	CHECK_INT(ask_own("", NAMES_SYMLINK), GIT_REFUSE);
	CHECK_INT(ask("", NAMES_CHMOD), GIT_REFUSE);
	CHECK_INT(ask_own("", NAMES_CHMOD), GIT_ALLOW);
}

TEST(a_pointer_file_may_be_made_but_not_changed) /* TH-08 */
{
	CHECK_INT(ask("", NAMES_CREATE), GIT_VET_POINTER);
	CHECK_INT(ask("", NAMES_WRITE), GIT_REFUSE);
	CHECK_INT(ask("", NAMES_RENAME_TO), GIT_REFUSE);
	/* git submodule add writes it twice */
	CHECK_INT(ask_own("", NAMES_WRITE), GIT_VET_POINTER);
	CHECK_INT(ask_own("", NAMES_RENAME_TO), GIT_REFUSE);
}

TEST(hooks_are_refused_and_samples_are_not) /* TH-01 */
{
	CHECK_INT(ask("hooks", NAMES_MKDIR), GIT_ALLOW);
	CHECK_INT(ask("hooks/pre-commit.sample", NAMES_CREATE), GIT_ALLOW);
	CHECK_INT(ask("hooks/pre-commit", NAMES_CREATE), GIT_REFUSE);
	CHECK_STR(what, "git hooks");
	CHECK(is_refused("hooks/pre-commit"));
	CHECK(is_refused("hooks/post-checkout"));
	CHECK(is_refused("hooks/reference-transaction"));
	CHECK(is_refused("hooks/fsmonitor-watchman"));
	CHECK(is_refused("HOOKS/pre-commit"));
	CHECK(is_refused("Hooks./pre-commit"));
	CHECK(is_refused("hoo\xe2\x84\xaas/pre-commit"));
	CHECK(is_refused("hooks/a/b.sample"));
	CHECK(is_refused("hooks/pre-commit:x.sample"));
	CHECK_INT(ask("hooks/pre-commit.sample", NAMES_RENAME_TO), GIT_REFUSE);
	CHECK_INT(ask("hooks/pre-commit.sample", NAMES_WRITE), GIT_REFUSE);
	CHECK_INT(ask("hooks/pre-commit.sample", NAMES_CHMOD), GIT_REFUSE);
	CHECK_INT(ask("hooks", NAMES_RENAME_DIR_TO), GIT_REFUSE);
	CHECK_INT(ask("hooks", NAMES_SYMLINK), GIT_REFUSE);
	CHECK_INT(ask("hooks", NAMES_REMOVE), GIT_REFUSE);
	CHECK_INT(ask("hooks/pre-commit.sample", NAMES_REMOVE), GIT_REFUSE);
	CHECK_INT(ask_own("hooks/pre-commit.sample", NAMES_REMOVE), GIT_ALLOW);
	CHECK_INT(ask_own("hooks", NAMES_REMOVE), GIT_ALLOW);
	CHECK(is_sealed("hooks/pre-commit"));
	/* without the suffix's dot it is no sample */
	CHECK(is_refused("hooks/sample"));
}

TEST(config_comes_in_by_rename_and_is_vetted) /* TH-02 */
{
	CHECK_INT(ask("config", NAMES_RENAME_TO), GIT_VET_CONFIG);
	CHECK_INT(ask_own("config", NAMES_RENAME_TO), GIT_VET_CONFIG);
	CHECK_INT(ask("CONFIG", NAMES_RENAME_TO), GIT_VET_CONFIG);
	CHECK_INT(ask("config", NAMES_CREATE), GIT_REFUSE);
	CHECK_STR(what, "git config");
	CHECK_INT(ask("config", NAMES_WRITE), GIT_REFUSE);
	CHECK_INT(ask("CONFIG", NAMES_WRITE), GIT_REFUSE);
	CHECK_INT(ask("con\xef\xac\x81g", NAMES_WRITE), GIT_REFUSE);
	CHECK_INT(ask("config", NAMES_MKDIR), GIT_REFUSE);
	CHECK_INT(ask("config", NAMES_SYMLINK), GIT_REFUSE);
	CHECK_INT(ask("config", NAMES_REMOVE), GIT_REFUSE);
	CHECK_INT(ask_own("config", NAMES_REMOVE), GIT_ALLOW);
	CHECK(is_refused("config/x"));
	CHECK(is_file("config.lock"));
}

TEST(git_init_can_try_out_modes_and_links)
{
	/* else it notes core.filemode=false and core.symlinks=false */
	CHECK_INT(ask("config", NAMES_CHMOD), GIT_ALLOW);
	CHECK_INT(ask("tEUfcds", NAMES_CREATE), GIT_ALLOW);
	CHECK_INT(ask("tEUfcds", NAMES_REMOVE), GIT_ALLOW);
	CHECK_INT(ask("tEUfcds", NAMES_SYMLINK), GIT_VET_LINK);
	CHECK_INT(ask("tEUfcds", NAMES_RENAME_TO), GIT_REFUSE);
	CHECK_INT(ask("modules/lib/sub/tZcUsCX", NAMES_SYMLINK), GIT_VET_LINK);
	CHECK_INT(ask("modules/lib/sub/tZcUsCX", NAMES_CREATE), GIT_ALLOW);
	CHECK_INT(ask("worktrees/w/modules/s/tZcUsCX", NAMES_SYMLINK), GIT_VET_LINK);
	CHECK_INT(ask("tEUfcd", NAMES_SYMLINK), GIT_REFUSE);
	CHECK_INT(ask("t-Ufcds", NAMES_SYMLINK), GIT_REFUSE);
	CHECK_INT(ask("tEUfcds/x", NAMES_CREATE), GIT_REFUSE);
	CHECK_INT(ask("refs/tEUfcds", NAMES_SYMLINK), GIT_REFUSE);
	CHECK_INT(ask("modules/x/hooks/tEUfcds", NAMES_SYMLINK), GIT_REFUSE);
}

TEST(worktree_config_is_refused) /* TH-05 */
{
	CHECK(is_refused("config.worktree"));
	CHECK(is_refused("config.worktree.lock"));
	CHECK(is_refused("Config.Worktree"));
	CHECK(is_sealed("worktrees/w/config.worktree"));
	CHECK(is_sealed("modules/s/config.worktree"));
	CHECK_INT(ask("config.worktree", NAMES_WRITE), GIT_REFUSE);
	CHECK_STR(what, "git worktree config");
}

TEST(commondir_is_refused_but_for_worktrees_where_we_write_it) /* TH-04 */
{
	CHECK(is_refused("commondir"));
	CHECK_INT(ask("commondir", NAMES_CREATE), GIT_REFUSE);
	CHECK_STR(what, "git commondir");
	CHECK(is_refused("COMMONDIR"));
	CHECK(is_refused("COMMON~1"));
	CHECK_INT(ask("worktrees/w/commondir", NAMES_CREATE), GIT_COMMONDIR);
	CHECK_INT(ask("worktrees/w/commondir", NAMES_WRITE), GIT_REFUSE);
	CHECK_INT(ask("worktrees/w/commondir", NAMES_RENAME_TO), GIT_REFUSE);
	CHECK_INT(ask("worktrees/w/commondir", NAMES_SYMLINK), GIT_REFUSE);
	CHECK_INT(ask("worktrees/w/commondir", NAMES_REMOVE), GIT_REFUSE);
	CHECK_INT(ask_own("worktrees/w/commondir", NAMES_REMOVE), GIT_ALLOW);
	CHECK_INT(ask("worktrees/w/x/commondir", NAMES_CREATE), GIT_REFUSE);
	CHECK_INT(ask("worktrees/commondir", NAMES_CREATE), GIT_REFUSE);
	CHECK(is_sealed("modules/s/commondir"));
	CHECK(is_sealed("modules/a/b/commondir"));
	CHECK(is_sealed("modules/s/worktrees/w/commondir"));
}

TEST(objects_may_be_written_and_alternates_may_not) /* TH-16 */
{
	CHECK(is_directory("objects"));
	CHECK(is_directory("objects/4b"));
	CHECK(is_directory("objects/info"));
	CHECK(is_directory("objects/pack"));
	CHECK(is_file("objects/4b/825dc642cb6eb9a060e54bf8d69288fbee4904"));
	CHECK(is_file("objects/4b/tmp_obj_X1y2Z3"));
	CHECK(is_file("objects/pack/pack-825dc642cb6eb9a060e54bf8d69288fbee4904aa.idx"));
	CHECK(is_file("objects/pack/tmp_pack_abcdef"));
	CHECK(is_file("objects/pack/.tmp-12-pack-825dc642cb6eb9a060e54bf8d69288fbee4904aa.pack"));
	CHECK(is_file("objects/pack/multi-pack-index.lock"));
	CHECK(is_file("objects/info/packs"));
	CHECK(is_file("objects/info/packs_aBcDeF"));
	CHECK(is_file("objects/info/commit-graph.lock"));
	CHECK(is_file("objects/info/commit-graphs/commit-graph-chain.lock"));
	CHECK(is_file("objects/maintenance.lock"));
	CHECK(is_directory("objects/tmp_objdir-incoming-Swuq65"));
	CHECK(is_directory("objects/tmp_objdir-incoming-Swuq65/37"));
	CHECK(is_file("objects/tmp_objdir-incoming-Swuq65/37/tmp_obj_abcdef"));

	CHECK(is_refused("objects/info/alternates"));
	CHECK_STR((ask("objects/info/alternates", NAMES_CREATE), what), "git alternates");
	CHECK(is_refused("objects/info/http-alternates"));
	CHECK(is_refused("objects/info/Alternates"));
	CHECK(is_refused("objects/info/alternates.lock"));
	CHECK(is_refused("objects/info/ALTERN~1"));
	CHECK(is_refused("objects/tmp_objdir-incoming-x/info/alternates"));
	CHECK(is_sealed("modules/s/objects/info/alternates"));
	CHECK(is_refused("objects/HEAD"));
	CHECK(is_refused("objects/pack/config"));
	CHECK(is_refused("objects/4b/config"));
	CHECK(is_refused("objects/4b/HEAD"));
	CHECK_INT(ask("objects", NAMES_REMOVE), GIT_REFUSE);
	CHECK_INT(ask_own("objects", NAMES_REMOVE), GIT_ALLOW);
	CHECK_INT(ask("objects", NAMES_CREATE), GIT_REFUSE);
	CHECK_INT(ask("objects", NAMES_RENAME_TO), GIT_REFUSE);
}

TEST(attributes_and_grafts_are_refused) /* TH-16 */
{
	CHECK(is_directory("info"));
	CHECK(is_refused("info/exclude"));
	CHECK_STR((ask("info/exclude", NAMES_WRITE), what), "git exclude list");
	CHECK(is_refused("info/EXCLUDE"));
	CHECK(is_refused("modules/s/info/exclude"));
	CHECK_INT(ask_own("info/exclude", NAMES_CREATE), GIT_ALLOW);
	CHECK_INT(ask_own("info/exclude", NAMES_WRITE), GIT_ALLOW);
	CHECK(is_file("info/refs_aBcDeF"));
	CHECK(is_file("info/sparse-checkout.lock"));
	CHECK(is_refused("info/attributes"));
	CHECK(is_refused("info/grafts"));
	CHECK(is_refused("INFO/GRAFTS"));
	CHECK(is_refused("info/other"));
	CHECK_INT(ask("info", NAMES_REMOVE), GIT_REFUSE);
}

TEST(everyday_files_may_be_written)
{
	static const char *const files[] = {
		"HEAD.lock",
		"index.lock",
		"index.stash.123",
		"index.stash.123.lock",
		"next-index-77.lock",
		"packed-refs.lock",
		"packed-refs.new",
		"shallow",
		"shallow.lock",
		"shallow_aBcDeF",
		"gc.pid.lock",
		"gc.log",
		"description",
		"rebased-patches",
		"ORIG_HEAD",
		"ORIG_HEAD.lock",
		"FETCH_HEAD",
		"MERGE_MSG",
		"COMMIT_EDITMSG",
		"BISECT_LOG",
		"AUTO_MERGE",
		"ADD_EDIT.patch",
		"refs/heads/main",
		"refs/heads/main.lock",
		"refs/heads/config",
		"refs/heads/hooks/x",
		"refs/remotes/origin/HEAD",
		"logs/HEAD",
		"logs/refs/heads/main",
		"logs/refs/.tmp-renamed-log",
		"rebase-merge/git-rebase-todo",
		"rebase-apply/0001",
		"sequencer/todo",
		"rr-cache/825dc642cb6eb9a060e54bf8d69288fbee4904aa/preimage",
		"NOTES_MERGE_WORKTREE/825dc642cb6eb9a060e54bf8d69288fbee4904aa",
		"lfs/objects/ab/cd/abcd",
		"lfs/cache/locks/refs/heads/main/verifiable",
		"lfs/tmp/x",
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (!is_file(files[i]))
			test_fail(__FILE__, __LINE__, "%s", files[i]);
	CHECK(is_directory("branches"));
	CHECK(is_directory("logs/refs/heads"));
	CHECK(is_directory("rebase-merge"));
	CHECK(is_directory("lfs"));
	CHECK_INT(ask("rebase-merge", NAMES_REMOVE), GIT_ALLOW);
}

TEST(head_may_be_replaced_and_not_removed) /* TH-11 */
{
	CHECK_INT(ask("HEAD", NAMES_RENAME_TO), GIT_ALLOW);
	CHECK_INT(ask("HEAD", NAMES_WRITE), GIT_ALLOW);
	CHECK_INT(ask("HEAD", NAMES_CREATE), GIT_ALLOW);
	CHECK_INT(ask("HEAD", NAMES_SYMLINK), GIT_REFUSE);
	CHECK_INT(ask("HEAD", NAMES_REMOVE), GIT_REFUSE);
	CHECK_INT(ask_own("HEAD", NAMES_REMOVE), GIT_ALLOW);
	CHECK_INT(ask("refs", NAMES_REMOVE), GIT_REFUSE);
	CHECK_INT(ask("refs/heads/x", NAMES_REMOVE), GIT_ALLOW);
}

TEST(what_nobody_knows_is_refused)
{
	CHECK(is_refused("evil"));
	CHECK_STR((ask("evil", NAMES_CREATE), what), "unknown file in the git directory");
	CHECK(is_refused("evil/x"));
	CHECK(is_refused("remotes/origin"));
	CHECK(is_refused("branches/origin"));
	CHECK(is_refused("index/x"));
	CHECK(is_refused("ORIG_HEAD/x"));
	CHECK(is_refused("orig_head"));
	CHECK(is_refused("Orig_Head"));
	CHECK(is_refused("_HEAD"));
	CHECK(is_refused("1HEAD"));
	CHECK(is_refused("X.lockx"));
	CHECK(is_refused("gitdir"));
	CHECK(is_refused("fsmonitor--daemon.ipc"));
	CHECK(is_refused(".vscode"));
	CHECK(is_refused("/"));
	CHECK(is_refused("//x"));
	CHECK(is_refused("refs//x"));
	CHECK(is_refused("..."));
}

TEST(no_second_git_directory_comes_to_be_in_a_tree)
{
	/* .git/refs/x with HEAD, objects and refs would be one; a pointer file could lead there */
	CHECK(is_refused("refs/x/objects"));
	CHECK(is_refused("refs/x/OBJECTS/y"));
	CHECK(is_refused("refs/objects"));
	CHECK(is_refused("refs/x/commondir"));
	CHECK(is_refused("refs/x/COMMON~1"));
	CHECK(is_refused("logs/objects"));
	CHECK(is_refused("rebase-merge/commondir"));
	CHECK(is_refused("sequencer/x/objects"));
	CHECK(is_refused("lfs/refs"));
	CHECK(is_refused("lfs/commondir"));
	CHECK(is_refused("lfs/objects/x/objects"));
	CHECK(is_refused("lfs/x/objects"));
	CHECK(is_refused("refs/.git/config"));
	CHECK(is_sealed("worktrees/w/objects"));
	CHECK_STR((ask("refs/x/objects", NAMES_MKDIR), what),
		  "git directory within a git directory");
}

TEST(worktrees_can_be_made_and_removed)
{
	CHECK(is_directory("worktrees"));
	CHECK(is_directory("worktrees/w"));
	CHECK(is_refused("worktrees/w/gitdir"));
	CHECK_INT(ask_own("worktrees/w/gitdir", NAMES_CREATE), GIT_VET_POINTER);
	CHECK_INT(ask_own("worktrees/w/gitdir", NAMES_WRITE), GIT_VET_POINTER);
	CHECK_INT(ask_own("worktrees/w/gitdir", NAMES_RENAME_TO), GIT_REFUSE);
	CHECK(is_file("worktrees/w/locked"));
	CHECK_INT(ask("worktrees/w/HEAD", NAMES_RENAME_TO), GIT_ALLOW);
	CHECK_INT(ask("worktrees/w/HEAD", NAMES_REMOVE), GIT_REFUSE);
	CHECK(is_file("worktrees/w/index.lock"));
	CHECK(is_file("worktrees/w/ORIG_HEAD"));
	CHECK(is_file("worktrees/w/logs/HEAD"));
	CHECK(is_file("worktrees/w/refs/bisect/bad"));
	CHECK(is_file("worktrees/w/rebase-merge/done"));
	CHECK_INT(ask("worktrees/w", NAMES_REMOVE), GIT_REFUSE);
	CHECK_INT(ask("worktrees", NAMES_REMOVE), GIT_REFUSE);
	CHECK_INT(ask_own("worktrees/w", NAMES_REMOVE), GIT_ALLOW);
	CHECK_INT(ask_own("worktrees", NAMES_REMOVE), GIT_ALLOW);
	CHECK(is_sealed("worktrees/HEAD"));
	CHECK(is_sealed("worktrees/w/config"));
	CHECK(is_sealed("worktrees/w/hooks/pre-commit"));
	CHECK(is_sealed("worktrees/w/hooks/x.sample"));
	CHECK(is_sealed("worktrees/w/worktrees/v/commondir"));
	CHECK(is_sealed("worktrees/w/evil"));
	CHECK(is_sealed("worktrees/w/info/attributes"));
	CHECK_INT(ask("worktrees/w", NAMES_CREATE), GIT_REFUSE);
	CHECK_INT(ask("worktrees/w", NAMES_RENAME_DIR_TO), GIT_REFUSE);
}

TEST(an_index_comes_by_rename_alone)
{
	CHECK_INT(ask("index", NAMES_RENAME_TO), GIT_VET_INDEX);
	CHECK_INT(ask("INDEX", NAMES_RENAME_TO), GIT_VET_INDEX);
	CHECK_INT(ask("worktrees/w/index", NAMES_RENAME_TO), GIT_VET_INDEX);
	CHECK_INT(ask("index", NAMES_CREATE), GIT_REFUSE);
	CHECK_INT(ask("index", NAMES_WRITE), GIT_REFUSE);
	CHECK_INT(ask("index", NAMES_SYMLINK), GIT_REFUSE);
	CHECK_INT(ask("index", NAMES_REMOVE), GIT_ALLOW);
	CHECK_INT(ask("sharedindex.825dc642cb6eb9a060e54bf8d69288fbee4904aa", NAMES_CREATE),
		  GIT_REFUSE);
}

TEST(submodules_are_git_directories_wherever_their_name_ends) /* TH-07 */
{
	static const char *const where[] = {"modules/s", "modules/lib/s", "modules/a/b/c",
					    "modules/s/modules/t", "worktrees/w/modules/lib/s"};

	CHECK(is_directory("modules"));
	for (size_t i = 0; i < ARRAY_SIZE(where); i++) {
		char path[256];

#define IN(name) (snprintf(path, sizeof path, "%s/%s", where[i], name), path)
		CHECK(is_directory(where[i]));
		CHECK(is_sealed(where[i]));
		CHECK_INT(ask(IN("config"), NAMES_RENAME_TO), GIT_VET_SUBMODULE_CONFIG);
		CHECK_INT(ask(IN("config"), NAMES_WRITE), GIT_REFUSE);
		CHECK_INT(ask(IN("config"), NAMES_CREATE), GIT_REFUSE);
		CHECK_INT(ask(IN("config"), NAMES_CHMOD), GIT_ALLOW);
		CHECK(is_file(IN("config.lock")));
		CHECK(is_sealed(IN("hooks/pre-commit")));
		CHECK_INT(ask(IN("hooks/pre-commit.sample"), NAMES_CREATE), GIT_ALLOW);
		CHECK(is_sealed(IN("commondir")));
		CHECK(is_sealed(IN("config.worktree")));
		CHECK(is_sealed(IN("objects/info/alternates")));
		CHECK(is_sealed(IN("evil")));
		CHECK(is_directory(IN("objects")));
		CHECK(is_directory(IN("refs/remotes/origin")));
		CHECK(is_file(IN("objects/4b/825dc642cb6eb9a060e54bf8d69288fbee4904")));
		CHECK(is_file(IN("refs/heads/main")));
		CHECK(is_file(
			IN("lfs/objects/ab/cd/"
			   "825dc642cb6eb9a060e54bf8d69288fbee4904825dc642cb6eb9a060e54bf8d6")));
		CHECK_INT(ask(IN("index"), NAMES_RENAME_TO), GIT_VET_INDEX);
		CHECK_INT(ask(IN("HEAD"), NAMES_RENAME_TO), GIT_ALLOW);
#undef IN
	}
	CHECK_INT(ask("modules/s", NAMES_REMOVE), GIT_REFUSE);
	CHECK_INT(ask_own("modules/s", NAMES_REMOVE), GIT_ALLOW);
	CHECK_INT(ask("modules/s", NAMES_RENAME_DIR_TO), GIT_REFUSE);
	CHECK_INT(ask("modules/s/HEAD", NAMES_REMOVE), GIT_REFUSE);
	CHECK(is_sealed("modules/HEAD"));
	CHECK(is_sealed("modules/config"));
	/* the name of a file may be part of a submodule's name */
	CHECK_INT(ask("modules/lib/tooling", NAMES_MKDIR), GIT_ALLOW);
	CHECK_INT(ask("modules/lib/tooling/index", NAMES_RENAME_TO), GIT_VET_INDEX);
	CHECK(is_directory("modules/lib/shallow"));
	CHECK(is_sealed("modules/lib/shallow/hooks/pre-commit"));
	/* a branch's name may be a config's if the submodule is called x/refs/heads */
	CHECK_INT(ask("modules/x/refs/heads/config", NAMES_RENAME_TO), GIT_VET_SUBMODULE_CONFIG);
}

TEST(links_and_moved_directories_stay_outside)
{
	CHECK_INT(ask("refs/heads", NAMES_SYMLINK), GIT_REFUSE);
	CHECK_STR(what, "symbolic link in the git directory");
	CHECK_INT(ask("objects", NAMES_SYMLINK), GIT_REFUSE);
	CHECK_INT(ask("refs/heads", NAMES_RENAME_DIR_TO), GIT_REFUSE);
	CHECK_INT(ask_own("refs/heads", NAMES_RENAME_DIR_TO), GIT_REFUSE);
	CHECK_INT(ask("hooks", NAMES_RENAME_DIR_TO), GIT_REFUSE);
}

TEST(deep_paths_end)
{
	char path[4096] = "modules";

	while (strlen(path) < 4000)
		strcat(path, "/refs/modules");
	strcat(path, "/config");
	CHECK_INT(ask(path, NAMES_CREATE), GIT_REFUSE);
	CHECK_INT(ask(path, NAMES_RENAME_TO), GIT_REFUSE);
}

TEST(markers_make_a_git_directory)
{
	static const char *const names[] = {
		"HEAD",	 "objects", "refs",	"commondir",   "config", "config.worktree",
		"hooks", "info",    "modules",	"worktrees",   "Hooks",	 "CONFIG~1.WOR",
		"index", "remotes", "branches", "rebase-merge"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK(git_is_marker(names[i]));
	CHECK(!git_is_marker("config.lock"));
	CHECK(!git_is_marker("heads"));
	CHECK(!git_is_marker(""));
}

TEST(markers_are_found_at_every_level) /* TH-10, TH-13 */
{
	const char *path = "/w/vendor/x/hooks/a/config";
	const char *first = git_next_marker("/w", path, NULL);

	CHECK_STR(first, "hooks/a/config");
	CHECK(first > path && first < path + strlen(path));
	CHECK_STR(git_next_marker("/w", path, first), "config");
	CHECK(!git_next_marker("/w", path, git_next_marker("/w", path, first)));
	CHECK_STR(git_next_marker("/w", "/w/config", NULL), "config");
	CHECK_STR(git_next_marker("/", "/config", NULL), "config");
	CHECK_STR(git_next_marker("/w/hooks", "/w/hooks/x/refs/y", NULL), "refs/y");
	CHECK(!git_next_marker("/w", "/w/src/main.c", NULL));
	CHECK(!git_next_marker("/w", "/w", NULL));
}

static const char *vet_pointer(const char *text, const char *from)
{
	static char path[PATH_MAX];
	const char *wrong = git_pointer_vet(text, strlen(text), "gitdir: ", from, "/w", path);

	return wrong ? wrong : path;
}

TEST(a_pointer_leads_to_a_place_of_the_same_root)
{
	CHECK_STR(vet_pointer("gitdir: ../.git/modules/s\n", "/w/sub"), "/w/.git/modules/s");
	CHECK_STR(vet_pointer("gitdir: /w/.git/worktrees/t", "/w/sub"), "/w/.git/worktrees/t");
	CHECK_STR(vet_pointer("gitdir: sub/.git\r\n", "/w"), "/w/sub/.git");
	CHECK_STR(vet_pointer("gitdir: ../../x", "/w/sub"), "git pointer out of the root");
	CHECK_STR(vet_pointer("gitdir: ../../../../x", "/w/sub"), "git pointer out of the root");
	CHECK_STR(vet_pointer("gitdir: /home/a/.ssh", "/w/sub"), "git pointer out of the root");
	CHECK_STR(vet_pointer("gitdir: /w2/x", "/w"), "git pointer out of the root");
	CHECK_STR(vet_pointer("gitdir: /home/a/.local/state/atoll/records/i/top/upper/e", "/w"),
		  "git pointer into atoll's own store");
	/* also if it means another place now: the directory may be moved later */
	CHECK_STR(vet_pointer("gitdir: ../../st/atoll/layers/e", "/w/a/b"),
		  "git pointer into atoll's own store");
	CHECK_STR(vet_pointer("gitdir: ../tmp/atoll-bare-00-00-abcdef/e", "/w/a"),
		  "git pointer into atoll's own store");
	CHECK_STR(vet_pointer("gitdir: a/../b", "/w"), "git pointer file");
	CHECK_STR(vet_pointer("gitdir: /w/../b", "/w"), "git pointer file");
	CHECK_STR(vet_pointer("gitdir: ./b", "/w"), "git pointer file");
	CHECK_STR(vet_pointer("gitdir: ", "/w"), "git pointer file");
	CHECK_STR(vet_pointer("gitdir:x", "/w"), "git pointer file");
	CHECK_STR(vet_pointer("gitdir: a\nb", "/w"), "git pointer file");
	CHECK_STR(vet_pointer("gitdir: .vscode/.git/modules/x", "/w"), "git pointer file");
	CHECK_STR(vet_pointer("", "/w"), "git pointer file");
}

/* Otherwise a checkout writes its hooks and its config: git keeps files from `.git` alone. */
TEST(a_pointer_leads_beneath_a_directory_called_git)
{
	static const char other[] = "git pointer to a directory that is not beneath a .git";
	char path[PATH_MAX];

	CHECK_STR(vet_pointer("gitdir: meta", "/w"), other);
	CHECK_STR(vet_pointer("gitdir: ../sep", "/w/sub"), other);
	CHECK_STR(vet_pointer("gitdir: ../.GIT/x", "/w/sub"), other);
	CHECK_STR(vet_pointer("gitdir: ../.git.x/y", "/w/sub"), other);
	/* where names are free, or nothing of git's belongs */
	CHECK_STR(vet_pointer("gitdir: ../.git/refs/heads/x", "/w/sub"), other);
	CHECK_STR(vet_pointer("gitdir: ../.git/modules/a/logs/x", "/w/sub"), other);
	CHECK_STR(vet_pointer("gitdir: ../.git/worktrees/w/x", "/w/sub"), other);
	CHECK_STR(vet_pointer("gitdir: ../.git/x", "/w/sub"), other);
	/* of a worktree, the directory that the file lies in */
	CHECK(!git_pointer_vet("/w/t/.git", 9, "", "/w/.git/worktrees/t", "/w", path));
	CHECK_STR(git_pointer_vet("/w/t/.git", 9, "", "/w/meta/worktrees/t", "/w", path), other);
	/* what is above the root does not count */
	CHECK_STR(git_pointer_vet("gitdir: meta", 12, "gitdir: ", "/a/.git/w", "/a/.git/w", path),
		  other);
}

TEST(one_object_in_the_place_of_another_is_refused)
{
	static const char id[] = "0123456789012345678901234567890123456789";
	static const char old[] = "0 refs/heads/a\n1 refs/replace/b\n";
	const char *words;

	CHECK(is_refused("refs/replace/x"));
	CHECK(is_refused("modules/sub/refs/replace/x"));
	CHECK_INT(ask("refs/Replace", NAMES_MKDIR), GIT_REFUSE);
	CHECK_INT(git_guard("refs/replace/x", NAMES_CREATE, true, &words), GIT_ALLOW);
	CHECK(is_file("refs/heads/replace"));
	CHECK_INT(ask("packed-refs", NAMES_RENAME_TO), GIT_VET_REFS);
	CHECK_INT(ask("packed-refs", NAMES_REMOVE), GIT_ALLOW);
	CHECK_INT(ask("packed-refs", NAMES_CREATE), GIT_REFUSE);
	CHECK_INT(ask("packed-refs", NAMES_WRITE), GIT_REFUSE);
	CHECK_INT(git_guard("packed-refs", NAMES_RENAME_TO, true, &words), GIT_ALLOW);
	CHECK(!git_refs_vet("0 refs/heads/a\n", 15, "", 0));
	CHECK(git_refs_vet("1 refs/replace/b\n", 17, "", 0));
	CHECK(git_refs_vet("0 refs/heads/a\n1 refs/replace/b", 31, "", 0));
	CHECK(!git_refs_vet(old, sizeof old - 1, old, sizeof old - 1));
	CHECK(!git_refs_vet("1 refs/replace/b\n2 refs/heads/c\n", 32, old, sizeof old - 1));
	CHECK(git_refs_vet("2 refs/replace/b\n", 17, old, sizeof old - 1));
	CHECK(!git_refs_vet("", 0, id, sizeof id - 1));
}
