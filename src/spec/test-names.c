/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "spec/names.h"

static const enum names_action all_actions[] = {
	NAMES_WRITE,	 NAMES_CREATE,	      NAMES_MKDIR,  NAMES_SYMLINK,
	NAMES_RENAME_TO, NAMES_RENAME_DIR_TO, NAMES_REMOVE, NAMES_CHMOD,
};

/* Refused for every action, beneath /w. */
static bool is_refused(const char *inside)
{
	char path[4200];

	snprintf(path, sizeof path, "/w/%s", inside);
	for (size_t i = 0; i < ARRAY_SIZE(all_actions); i++)
		if (!names_refuse("/w", path, all_actions[i]))
			return false;
	return true;
}

/* Allowed for every action. */
static bool is_free(const char *inside)
{
	char path[4200];

	snprintf(path, sizeof path, "/w/%s", inside);
	for (size_t i = 0; i < ARRAY_SIZE(all_actions); i++)
		if (names_refuse("/w", path, all_actions[i]))
			return false;
	return true;
}

static bool is_git(const char *component)
{
	return names_is_git(component, strlen(component));
}

TEST(every_name_of_the_table_is_refused_at_any_depth)
{
	for (size_t i = 0; i < names_group_count; i++) {
		for (const char *const *name = names_groups[i].names; *name; name++) {
			const char *plain = **name == '*' ? *name + 1 : *name;
			char path[256];
			const char *what;

			snprintf(path, sizeof path, "/w/%s%s", **name == '*' ? "x" : "", plain);
			what = names_mark("/w", path, NAMES_CREATE);
			if (!what || !streq(what, names_groups[i].what))
				test_fail(__FILE__, __LINE__, "%s is %s", path, what);
			snprintf(path, sizeof path, "a/b/c/%s%s/in/it", **name == '*' ? "x" : "",
				 plain);
			if (is_refused(path) == names_groups[i].is_mark)
				test_fail(__FILE__, __LINE__, "%s is %s", path,
					  names_groups[i].is_mark ? "refused" : "free");
		}
	}
}

TEST(the_table_is_folded_and_not_too_deep)
{
	for (size_t i = 0; i < names_group_count; i++) {
		for (const char *const *name = names_groups[i].names; *name; name++) {
			char folded[NAMES_FOLD_SIZE];
			unsigned slashes = 0;

			CHECK(names_fold(*name, strlen(*name), folded));
			CHECK_STR(folded, *name);
			for (const char *c = *name; *c; c++)
				slashes += *c == '/';
			CHECK(slashes <= 2 && strlen(*name) >= 2);
		}
	}
}

TEST(a_pointer_to_another_repository_is_refused)
{
	CHECK(names_refuse("/w", "/w/a/.jj/repo", NAMES_CREATE));
	CHECK(names_refuse("/w", "/w/a/.JJ/Repo", NAMES_RENAME_TO));
	CHECK(names_refuse("/w", "/w/.jj/repo", NAMES_WRITE));
	CHECK(names_refuse("/w", "/w/.jj/repo", NAMES_SYMLINK));
	CHECK(!names_refuse("/w", "/w/.jj/repo", NAMES_MKDIR));
	CHECK(!names_refuse("/w", "/w/.jj/repo", NAMES_REMOVE));
	CHECK(!names_refuse("/w", "/w/.jj/repo/store/type", NAMES_CREATE));
	CHECK(!names_refuse("/w", "/w/.jj", NAMES_CREATE));
	CHECK(names_refuse("/w", "/w/.hg/sharedpath", NAMES_CREATE));
	CHECK(!names_refuse("/w", "/w/.hg/requires", NAMES_CREATE));
}

TEST(what_an_apply_stages_is_refused_in_every_spelling)
{
	CHECK(is_refused(".atoll-apply-abcdefgh"));
	CHECK(is_refused(".atoll-apply-abcdefgh/3.new"));
	CHECK(is_refused("deep/er/.atoll-apply-x/3.new"));
	CHECK(is_refused(".ATOLL-Apply-X"));
	CHECK(is_refused("atoll-~1/3.new"));
	CHECK(is_refused(".atoll-0123456789ab")); /* an import */
	CHECK(is_free(".atoll"));
	CHECK(is_free("atoll-apply-x"));
	CHECK(is_free("x.atoll-apply-x"));
}

TEST(editor_folders_are_refused_whether_they_exist_or_not) /* TH-17, FS-W28 */
{
	CHECK(is_refused(".vscode"));
	CHECK(is_refused(".vscode/tasks.json"));
	CHECK(is_refused("pkg/app/.vscode/settings.json"));
	CHECK(is_refused(".idea/workspace.xml"));
	CHECK(is_refused("my.code-workspace"));
	CHECK(is_refused(".code-workspace"));
	CHECK(is_refused("x.sublime-project"));
	CHECK(is_refused(".devcontainer/devcontainer.json"));
	CHECK(is_refused(".exrc"));
	CHECK(is_refused(".nvim.lua"));
	CHECK(is_refused(".dir-locals.el"));
	CHECK(is_refused(".zed/settings.json"));
	CHECK_STR(names_refuse("/w", "/w/.vscode/tasks.json", NAMES_CREATE), "editor settings");
}

TEST(agent_settings_are_refused)
{
	CHECK(is_refused(".claude/settings.json"));
	CHECK(is_refused(".codex/config.toml"));
	CHECK(is_refused(".mcp.json"));
	CHECK(is_refused(".github/copilot-instructions.md"));
	CHECK(is_free("CLAUDE.md"));
	CHECK(is_free("mcp.json"));
	CHECK(is_free("claude/settings.json"));
}

TEST(every_name_has_a_source)
{
	for (size_t i = 0; i < names_group_count; i++)
		for (size_t j = 0; names_groups[i].names[j]; j++)
			CHECK(names_groups[i].sources[j] && strlen(names_groups[i].sources[j]) > 3);
}

TEST(wanted_edits_are_marked_and_not_refused)
{
	static const char *const names[] = {
		"AGENTS.md",	"sub/CLAUDE.md",       "Gemini.md",
		".gitmodules",	"rust-toolchain.toml", ".mvn/jvm.config",
		".rubocop.yml", "tools/bazel",	       "x/.pnp.cjs"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[256];

		snprintf(path, sizeof path, "/w/%s", names[i]);
		CHECK(!names_refuse("/w", path, NAMES_WRITE));
		CHECK(names_mark("/w", path, NAMES_WRITE));
	}
	CHECK_STR(names_mark("/w", "/w/AGENTS.md", NAMES_WRITE),
		  "instructions: an agent will follow this");
	/* the first half of such a name is nothing by itself */
	CHECK(!names_mark("/w", "/w/tools", NAMES_SYMLINK));
	CHECK(!names_mark("/w", "/w/README.md", NAMES_WRITE));
	CHECK_STR(names_mark("/w", "/w/.vscode/x", NAMES_WRITE), "editor settings");
}

TEST(names_that_tools_obey_on_entering_are_refused)
{
	static const char *const names[] = {
		"mise.toml",
		"mise.local.toml",
		".config/mise/config.toml",
		"lefthook.toml",
		".lefthook.json",
		"lefthook-local.yml",
		"opencode.jsonc",
		".opencode.json",
		".hg/hgrc",
		".jj/repo/config.toml",
		".iex.exs",
		".ocamlinit",
		".Renviron",
		".erlang",
		".octaverc",
		".bazeliskrc",
		".yarn/releases/x",
		".yarn/plugins/x",
		".lazy.lua",
		".project",
		".settings/x",
		".lfsconfig",
		".gitpod.yml",
		".direnv/x",
		".github/hooks/x",
		".github/agents/x.md",
		".github/prompts/x",
		".github/instructions/x",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK(is_refused(names[i]));
}

TEST(shell_and_login_files_are_refused_in_a_writable_home) /* TH-19 */
{
	static const char *const files[] = {
		".bashrc",
		".bash_profile",
		".bash_login",
		".profile",
		".zshenv",
		".zshrc",
		".zprofile",
		".inputrc",
		".xprofile",
		".pam_environment",
		".config/fish/config.fish",
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		CHECK(is_refused(files[i]));
}

TEST(persistence_elsewhere_in_home_is_refused) /* TH-20 */
{
	static const char *const files[] = {
		".ssh/authorized_keys",
		".ssh/config",
		".ssh/rc",
		".config/systemd/user/x.service",
		".config/autostart/x.desktop",
		".local/bin/git",
		".local/share/applications/x.desktop",
		".gitconfig",
		".config/git/config",
		".npmrc",
		".config/pip/pip.conf",
		".cargo/config.toml",
		".config/atoll/policy.yaml",
		".local/state/atoll/x",
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		CHECK(is_refused(files[i]));
}

TEST(neighbours_of_trusted_names_are_free)
{
	static const char *const files[] = {
		"src/main.c",
		"vscode",
		".vscod",
		".vscodes",
		".vscode-test",
		".vimx",
		".editorconfig",
		".gitignore",
		".gitattributes",
		".gitmodules",
		".github/dependabot.yml",
		".github/ISSUE_TEMPLATE/bug.md",
		"github/workflows/x.yml",
		"workflows/x.yml",
		".config/other/x",
		".local/share/other",
		".local/libexec/x",
		".cargo/registry/x",
		".gradle/caches/x",
		".bundle/cache",
		".m2/repository/x",
		"Config",
		"config",
		"hooks/pre-commit",
		"bashrc",
		".bashrc.x",
		"code-workspace",
		"x.code-workspace.txt",
		"Jenkinsfile.groovy",
		"lefthook",
		"pip.config",
		"node_modules/.bin/x",
		".env",
		".tool-versions",
		"a~1",
		"vscode~",
		"~1",
		"~",
		"...",
		".",
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (!is_free(files[i]))
			test_fail(__FILE__, __LINE__, "%s is refused", files[i]);
	CHECK(is_refused("Jenkinsfile"));
	CHECK(is_refused("pip.conf"));
}

TEST(a_name_of_two_parts_needs_both_one_in_the_other)
{
	CHECK(is_refused(".github/workflows"));
	CHECK(is_refused("a/.github/workflows/ci.yml"));
	CHECK(is_free(".github/a/workflows/ci.yml"));
	CHECK(is_refused(".local/share/dbus-1/services/x"));
	CHECK(is_free(".local/dbus-1/x"));
	CHECK(is_refused(".local/.local/bin/x"));
	CHECK(is_refused(".config/.config/fish"));
}

TEST(what_may_hold_trusted_names_does_not_arrive_ready_made)
{
	CHECK(!names_refuse("/w", "/w/.github", NAMES_MKDIR));
	CHECK(!names_refuse("/w", "/w/.github", NAMES_REMOVE));
	CHECK(names_refuse("/w", "/w/.github", NAMES_RENAME_DIR_TO));
	CHECK(names_refuse("/w", "/w/a/.github", NAMES_SYMLINK));
	CHECK(names_refuse("/w", "/w/.GitHub", NAMES_RENAME_DIR_TO));
	CHECK(names_refuse("/w", "/w/.local/share", NAMES_RENAME_DIR_TO));
	CHECK(!names_refuse("/w", "/w/share", NAMES_RENAME_DIR_TO));
	CHECK(!names_refuse("/w", "/w/.github/x", NAMES_RENAME_DIR_TO));
	CHECK(!names_refuse("/w", "/w/.local/share/x", NAMES_SYMLINK));
	/* the kernel's build writes .config this way */
	CHECK(!names_refuse("/w", "/w/linux/.config", NAMES_RENAME_TO));
	CHECK(!names_refuse("/w", "/w/linux/.config", NAMES_CREATE));
	CHECK(!names_refuse("/w", "/w/linux/.config", NAMES_WRITE));
}

TEST(containers_are_the_first_halves)
{
	CHECK(names_is_container(".github"));
	CHECK(names_is_container(".config"));
	CHECK(names_is_container(".LOCAL"));
	CHECK(names_is_container(".cargo"));
	CHECK(!names_is_container(".vscode"));
	CHECK(!names_is_container("share"));
	CHECK(!names_is_container("github"));
	CHECK(!names_is_container(""));
}

TEST(the_grant_itself_is_harmless_and_its_inside_is_not)
{
	CHECK(!names_refuse("/w/.vscode", "/w/.vscode", NAMES_WRITE));
	CHECK(!names_refuse("/w/.vscode", "/w/.vscode/tasks.json", NAMES_CREATE));
	CHECK(names_refuse("/w/.vscode", "/w/.vscode/a/.idea", NAMES_MKDIR));
	CHECK(!names_refuse("/h/.config/fish", "/h/.config/fish/config.fish", NAMES_CREATE));
	/* who grants the first half does not grant the second */
	CHECK(names_refuse("/h/.config", "/h/.config/fish/config.fish", NAMES_CREATE));
	CHECK(names_refuse("/h/.local", "/h/.local/share/systemd/x", NAMES_CREATE));
	CHECK(names_refuse("/h/.local/share", "/h/.local/share/systemd/x", NAMES_CREATE));
	CHECK(!names_refuse("/h/.local/share/x", "/h/.local/share/x/systemd", NAMES_CREATE));
	CHECK(names_refuse("/h/.local", "/h/.local/share", NAMES_RENAME_DIR_TO));
	CHECK(names_refuse("/", "/.bashrc", NAMES_CREATE));
	CHECK(!names_refuse("/", "/", NAMES_CREATE));
	CHECK(!names_refuse("/w", "/w", NAMES_REMOVE));
}

TEST(inside_git_another_function_answers)
{
	CHECK(is_free(".git"));
	CHECK(is_free(".git/hooks/pre-commit"));
	CHECK(is_free(".git/refs/heads/.vscode"));
	CHECK(is_free("a/.GIT/.npmrc"));
	CHECK(is_refused(".vscode/.git/config"));
	/* above the root it does not count */
	CHECK(names_refuse("/w/.git/x", "/w/.git/x/.npmrc", NAMES_CREATE));
}

TEST(git_inside_is_what_follows_the_outermost_git)
{
	const char *path = "/w/a/.git/modules/x/.git/config";

	CHECK(names_git_inside("/w", path) == path + strlen("/w/a/.git/"));
	CHECK_STR(names_git_inside("/w", "/w/.git"), "");
	CHECK_STR(names_git_inside("/w", "/w/.Git/HOOKS/x"), "HOOKS/x");
	CHECK_STR(names_git_inside("/", "/.git/x"), "x");
	CHECK_STR(names_git_inside("/w/.git/modules", "/w/.git/modules/a/.git/b"), "b");
	CHECK(!names_git_inside("/w", "/w/git/config"));
	CHECK(!names_git_inside("/w/.git", "/w/.git/config"));
	CHECK(!names_git_inside("/w", "/w"));
}

TEST(git_is_recognised_as_the_most_forgiving_file_system_would) /* FS-W26 */
{
	CHECK(is_git(".git"));
	CHECK(is_git(".GIT"));
	CHECK(is_git(".Git"));
	CHECK(is_git(".git "));
	CHECK(is_git(".git."));
	CHECK(is_git(".git. . ."));
	CHECK(is_git(".g\xe2\x80\x8cit"));     /* U+200C */
	CHECK(is_git("\xef\xbb\xbf.git"));     /* U+FEFF */
	CHECK(is_git(".git\xe2\x81\xaf"));     /* U+206F */
	CHECK(is_git(".gi\xc2\xadt"));	       /* U+00AD, ext4 casefold */
	CHECK(is_git(".g\xc4\xb1t"));	       /* dotless i */
	CHECK(is_git(".git\xf3\xa0\x84\x80")); /* U+E0100 */
	CHECK(is_git("GIT~1"));
	CHECK(is_git("git~1"));
	CHECK(is_git("git~1 ."));
	CHECK(is_git(".git::$INDEX_ALLOCATION"));
	CHECK(!is_git("git"));
	CHECK(!is_git(".gitt"));
	CHECK(!is_git(".gi"));
	CHECK(!is_git("..git"));
	CHECK(!is_git(" .git"));
	CHECK(!is_git(".git~1"));
	CHECK(!is_git("git~"));
	CHECK(!is_git("git~1x"));
	CHECK(!is_git(".g\xe2\x80\x0cit"));
	CHECK(!is_git(".g\xc3\xa9it"));
	CHECK(!is_git(""));
}

TEST(trusted_names_are_folded_too)
{
	CHECK(is_refused(".VSCode/tasks.json"));
	CHECK(is_refused(".vscode./tasks.json"));
	CHECK(is_refused("VSCODE~1/tasks.json"));
	CHECK(is_refused("PRE-CO~1.YAM"));
	CHECK(is_refused("MCP~2.JSO"));
	CHECK(is_refused("JENKIN~1"));
	CHECK(is_refused(".hus\xe2\x84\xaay/x"));	 /* Kelvin sign */
	CHECK(is_refused(".ba\xc5\xbfhrc"));		 /* long s */
	CHECK(is_refused(".\xc3\x9fh/authorized_keys")); /* sharp s */
	CHECK(is_refused(".con\xef\xac\x81g/fish/x"));	 /* ligature fi */
	CHECK(is_refused(".pro\xef\xac\x81le"));
	CHECK(is_refused(".npmrc:stream"));
	CHECK(is_refused("x.CODE-WORKSPACE "));
	CHECK(is_refused("azure-pipelines.yml"));
	CHECK(is_refused("AZURE-~1.YML"));
	CHECK(is_free("VSCODE~0/x"));
	CHECK(is_free("VSCODE~1.TXT"));
	CHECK(is_free("VSCOD~1"));
	CHECK(is_free(".npmrc\xc3"));
}

TEST(a_long_name_with_invisible_padding_is_still_seen)
{
	char path[4200] = "";

	while (strlen(path) < 700)
		strcat(path, "\xe2\x80\x8b");
	strcat(path, ".npmrc");
	CHECK(is_refused(path));
}

TEST(special_files_get_no_name_that_the_host_reads)
{
	static const char *const refused[] = {
		"/w/.gitignore", "/w/a/b/.gitattributes", "/w/.GITIGNORE",  "/w/gitign~1",
		"/w/.mailmap",	 "/w/AGENTS.md",	  "/w/.gitmodules", "/w/.envrc"};
	static const char *const free_[] = {"/w/pipe", "/w/gitignore", "/w/.gitignore.d",
					    "/w/.gitignore/x", "/w/.pipe"};

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		if (!names_refuse_special("/w", refused[i]))
			test_fail(__FILE__, __LINE__, "%s is free", refused[i]);
	for (size_t i = 0; i < ARRAY_SIZE(free_); i++)
		if (names_refuse_special("/w", free_[i]))
			test_fail(__FILE__, __LINE__, "%s is refused", free_[i]);
	/* Regular files of these names stay free. */
	CHECK(!names_refuse("/w", "/w/.gitignore", NAMES_CREATE));
	CHECK(!names_mark("/w", "/w/.gitignore", NAMES_CREATE));
}

TEST(components_that_no_file_system_has_are_harmless)
{
	char path[4200];

	memset(path, 'a', 4000);
	strcpy(path + 4000, "/x");
	CHECK(is_free(path));
	strcpy(path + 4000, "/.npmrc");
	CHECK(is_refused(path));
}
