/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "layer/layer.h"
#include "layer/test-layers.h"

#include <stdio.h>

static const char *mark_of(struct layers *l, const char *path)
{
	const struct atoll_changes *list = layers_read(l);

	for (size_t i = 0; i < list->n; i++)
		if (streq(list->items[i].path, path))
			return list->items[i].mark ? list->items[i].mark : "";
	return "no change";
}

static void make_repository(struct layers *l, const char *dir)
{
	static const char *const files[][2] = {
		{"HEAD", "ref: refs/heads/main\n"},
		{"config", "[core]\n\tbare = false\n"},
		{"objects/ab/0123456789012345678901234567890123456789", "x"},
		{"refs/heads/main", "0123456789012345678901234567890123456789\n"},
		{"hooks/pre-push", "#!/bin/sh\n"},
	};
	char path[256];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof path, "%s/%s", dir, files[i][0]);
		layers_file(l, BASE, path, files[i][1]);
	}
}

TEST(ordinary_work_is_not_marked_and_trusted_names_come_first) /* TH-17 */
{
	struct layers *l = layers_new(1);

	layers_file(l, 0, "a.c", "int a;\n");
	layers_file(l, 0, "zoo/.vscode/tasks.json", "{}\n");
	layers_link(l, 0, "link", "a.c");
	layers_link(l, 0, "zoo/up", "../a.c");
	layers_read(l);
	CHECK_STR(layers_words(l), "A zoo/.vscode (editor settings)\n"
				   "A zoo/.vscode/tasks.json (editor settings)\n"
				   "A a.c\nA link\nA zoo\nA zoo/up\n");
	CHECK_INT(layers_read(l)->n_marked, 2);
}

TEST(a_commit_is_not_marked_and_hooks_are) /* TH-01 */
{
	struct layers *l = layers_new(1);

	make_repository(l, ".git");
	layers_file(l, 0, ".git/objects/cd/0123456789012345678901234567890123456789", "y");
	layers_file(l, 0, ".git/refs/heads/main", "1123456789012345678901234567890123456789\n");
	layers_file(l, 0, ".git/logs/HEAD", "x\n");
	layers_file(l, 0, ".git/COMMIT_EDITMSG", "x\n");
	CHECK_INT(layers_read(l)->n_marked, 0);
	layers_file(l, 0, ".git/hooks/pre-commit", "#!/bin/sh\necho another text\n");
	layers_whiteout(l, 0, ".git/hooks/pre-push");
	layers_read(l);
	CHECK_STR(mark_of(l, ".git/hooks/pre-commit"), "git hooks");
	CHECK_STR(mark_of(l, ".git/hooks/pre-push"), "git hooks");
	CHECK_INT(layers_read(l)->n_marked, 2);
}

TEST(an_object_of_the_hosts_with_other_content_is_marked_and_a_new_one_is_not)
{
	static const char what[] = "git object of the host's with other content";
	static const char cache[] = "git cache that counts in the place of commits and packs";
	static const char *const changed[] = {
		".git/objects/ab/0123456789012345678901234567890123456789",
		".git/objects/pack/pack-0123.pack",
		".git/objects/pack/pack-0123.idx",
		".git/modules/lib/objects/ab/0123456789012345678901234567890123456789",
		".git/lfs/objects/ab/cd/abcd0123456789012345678901234567890123456789",
		"bare/objects/ab/0123456789012345678901234567890123456789",
	};
	static const char *const added[] = {
		".git/objects/cd/0123456789012345678901234567890123456789",
		".git/objects/pack/pack-4567.pack",
		".git/objects/pack/pack-4567.idx",
		".git/objects/info/packs",
		".git/modules/new/objects/info/commit-graph",
		"fresh/.git/objects/info/commit-graph",
	};
	struct layers *l = layers_new(1);

	layers_file(l, BASE, ".git/HEAD", "ref: refs/heads/main\n");
	layers_file(l, BASE, ".git/objects/info/packs", "P x\n");
	layers_file(l, BASE, "bare/HEAD", "ref: refs/heads/main\n");
	layers_dir(l, BASE, "bare/refs");
	for (size_t i = 0; i < ARRAY_SIZE(changed); i++) {
		layers_file(l, BASE, changed[i], "before");
		layers_file(l, 0, changed[i], "after!");
	}
	for (size_t i = 0; i < ARRAY_SIZE(added); i++)
		layers_file(l, 0, added[i], "x");
	layers_file(l, 0, ".git/objects/info/commit-graph", "x");
	layers_file(l, 0, ".git/objects/info/commit-graphs/graph-1.graph", "x");
	layers_file(l, 0, ".git/objects/pack/multi-pack-index", "x");
	for (size_t i = 0; i < ARRAY_SIZE(changed); i++)
		CHECK_STR(mark_of(l, changed[i]), what);
	for (size_t i = 0; i < ARRAY_SIZE(added); i++)
		CHECK_STR(mark_of(l, added[i]), "");
	CHECK_STR(mark_of(l, ".git/objects/info/commit-graph"), cache);
	CHECK_STR(mark_of(l, ".git/objects/info/commit-graphs/graph-1.graph"), cache);
	CHECK_STR(mark_of(l, ".git/objects/pack/multi-pack-index"), cache);
}

TEST(a_git_config_is_read_and_compared_with_the_hosts) /* TH-02 */
{
	struct layers *l = layers_new(1);

	make_repository(l, ".git");
	layers_file(l, 0, ".git/config", "[core]\n\tbare = false\n[branch \"x\"]\n\tremote = .\n");
	CHECK_STR(mark_of(l, ".git/config"), "");
	layers_file(l, 0, ".git/config",
		    "[core]\n\tbare = false\n[remote \"x\"]\n\turl = https://x/y\n");
	CHECK_STR(mark_of(l, ".git/config"), "git remote: the host's git would talk to it");
	layers_file(l, 0, ".git/config", "[core]\n\tbare = false\n\tfsmonitor = touch x\n");
	CHECK_STR(mark_of(l, ".git/config"), "git config");
	/* A new repository may have a remote by path, not by URL. */
	layers_file(l, 0, "new/.git/config", "[remote \"origin\"]\n\turl = ../origin\n");
	CHECK_STR(mark_of(l, "new/.git/config"), "");
	layers_file(l, 0, "new/.git/config", "[remote \"origin\"]\n\turl = https://x/y\n");
	CHECK_STR(mark_of(l, "new/.git/config"), "git remote: the host's git would talk to it");
	/* The user's own stays. */
	layers_file(l, BASE, ".git/config", "[core]\n\tfsmonitor = touch x\n");
	CHECK_STR(mark_of(l, ".git/config"), "");
}

TEST(what_else_in_a_git_directory_leads_elsewhere_is_marked) /* TH-04, TH-05, TH-08, TH-16 */
{
	struct layers *l = layers_new(1);

	make_repository(l, ".git");
	layers_file(l, 0, ".git/commondir", "../evil\n");
	layers_file(l, 0, ".git/config.worktree", "[core]\n");
	layers_file(l, 0, ".git/objects/info/alternates", "/elsewhere\n");
	layers_file(l, 0, ".git/index", "no index");
	layers_file(l, 0, "sub/.git", "gitdir: ../evil\n");
	layers_file(l, 0, "two/.git", "gitdir: /home/a/.local/state/atoll/records/x/top/upper/y\n");
	layers_file(l, 0, ".git/rebase-merge/git-rebase-todo", "exec x\n");
	CHECK_STR(mark_of(l, ".git/rebase-merge/git-rebase-todo"),
		  "git rebase in progress: git would run its exec lines");
	layers_file(l, 0, ".git/sequencer/opts", "[options]\n\tstrategy = x/y\n");
	CHECK_STR(mark_of(l, ".git/sequencer/opts"),
		  "git sequencer options: a merge strategy is a program");
	layers_file(l, 0, ".git/info/exclude", "*\n");
	layers_file(l, 0, "new/.git/info/exclude", "*\n");
	CHECK_STR(mark_of(l, "two/.git"), "git pointer into atoll's own store");
	CHECK_STR(mark_of(l, ".git/info/exclude"), "git exclude list");
	CHECK_STR(mark_of(l, "new/.git/info/exclude"), "");
	CHECK_STR(mark_of(l, ".git/commondir"), "git commondir");
	CHECK_STR(mark_of(l, ".git/config.worktree"), "git worktree config");
	CHECK_STR(mark_of(l, ".git/objects/info/alternates"), "git alternates");
	CHECK_STR(mark_of(l, ".git/index"), "git index");
	CHECK_STR(mark_of(l, "sub/.git"), "git pointer file");
}

TEST(git_directories_of_other_names_are_seen) /* TH-10, TH-11 */
{
	struct layers *l = layers_new(1);

	make_repository(l, "known.git");
	layers_file(l, 0, "known.git/hooks/post-update", "#!/bin/sh\n");
	layers_file(l, 0, "x/config", "[core]\n");
	CHECK_STR(mark_of(l, "known.git/hooks/post-update"), "git hooks");
	CHECK_STR(mark_of(l, "x/config"), "");
	layers_dir(l, 0, "x/objects");
	layers_dir(l, 0, "x/refs");
	CHECK_STR(mark_of(l, "x/config"), "a new git directory");
	CHECK_STR(mark_of(l, "x/refs"), "a new git directory");
}

TEST(links_are_followed_to_where_they_lead) /* FS-W08, TH-26 */
{
	struct layers *l = layers_new(1);
	char inside[512];

	layers_link(l, BASE, "base-out", "/etc");
	layers_link(l, 0, "absolute", "/etc/passwd");
	layers_link(l, 0, "dangling", "../new");
	layers_link(l, 0, "through", "base-out/passwd");
	layers_link(l, 0, "dir/deep", "../dir/../../x");
	layers_link(l, 0, "hook", ".git/hooks/pre-commit");
	layers_link(l, 0, "loop", "loop");
	layers_link(l, 0, "python", "/usr/bin/python3");
	layers_link(l, 0, "dots", "/usr/../etc/passwd");
	layers_link(l, BASE, "base-usr", "/usr/lib");
	layers_link(l, 0, "in-usr", "base-usr/os-release");
	layers_link(l, 0, "near-usr", "/usrx/bin");
	layers_link(l, 0, "good", "dir/none");
	snprintf(inside, sizeof inside, "%s/dir/x", layers_record(l)->info.workspace);
	layers_link(l, 0, "good-absolute", inside);
	CHECK_STR(mark_of(l, "absolute"), "link out of the workspace");
	CHECK_STR(mark_of(l, "dangling"), "link out of the workspace");
	CHECK_STR(mark_of(l, "through"), "link out of the workspace");
	CHECK_STR(mark_of(l, "dir/deep"), "link out of the workspace");
	CHECK_STR(mark_of(l, "hook"), "link to a trusted file");
	CHECK_STR(mark_of(l, "loop"), "");
	CHECK_STR(mark_of(l, "python"), "");
	CHECK_STR(mark_of(l, "dots"), "link out of the workspace");
	CHECK_STR(mark_of(l, "in-usr"), "");
	CHECK_STR(mark_of(l, "near-usr"), "link out of the workspace");
	CHECK_STR(mark_of(l, "good"), "");
	CHECK_STR(mark_of(l, "good-absolute"), "");
}

TEST(a_link_with_dots_behind_a_name_is_marked_wherever_it_leads_now)
{
	static const char what[] = "link whose target depends on other names";
	struct layers *l = layers_new(1);

	layers_dir(l, 0, "a/b/d");
	layers_link(l, 0, "a/b/late", "d/../../x");
	layers_link(l, 0, "a/b/missing", "none/../x");
	layers_link(l, 0, "a/b/mixed", "../b/d/..");
	layers_link(l, 0, "a/b/leading", "./../../x");
	layers_link(l, 0, "a/b/plain", "d/..x/..");
	layers_link(l, 0, "a/b/dotted", "d/..x/x..");
	CHECK_STR(mark_of(l, "a/b/late"), what);
	CHECK_STR(mark_of(l, "a/b/missing"), what);
	CHECK_STR(mark_of(l, "a/b/mixed"), what);
	CHECK_STR(mark_of(l, "a/b/plain"), what);
	CHECK_STR(mark_of(l, "a/b/leading"), "");
	CHECK_STR(mark_of(l, "a/b/dotted"), "");
}

TEST(set_id_bits_and_special_files_are_marked) /* TH-25 */
{
	struct layers *l = layers_new(1);

	layers_file(l, 0, "tool", "x");
	layers_chmod(l, 0, "tool", 04755);
	layers_dir(l, 0, "shared");
	layers_chmod(l, 0, "shared", 02775);
	layers_fifo(l, 0, "README.md");
	CHECK_STR(mark_of(l, "tool"), "set-id file");
	CHECK_STR(mark_of(l, "shared"), "");
	CHECK_STR(mark_of(l, "README.md"), "special file");
}

TEST(what_holds_a_marked_thing_is_not_deleted_or_replaced_without_it)
{
	struct layers *l = layers_new(1);

	layers_file(l, BASE, "a/.vscode/tasks.json", "{}\n");
	layers_file(l, BASE, "a/plain", "x");
	layers_file(l, BASE, "b/.vscode/x", "{}\n");
	layers_whiteout(l, 0, "a");
	layers_file(l, 0, "b", "a file now\n");
	CHECK_STR(mark_of(l, "a"), "editor settings");
	CHECK_STR(mark_of(l, "a/plain"), "");
	CHECK_STR(mark_of(l, "b"), "editor settings");
}

TEST(lines_of_the_contract_are_marked)
{
	struct layers *l = layers_new(1);
	char lines[1024];

	snprintf(lines, sizeof lines, "%s/keep\n%s/**/*.pem", layers_record(l)->info.workspace,
		 layers_record(l)->info.workspace);
	CHECK_INT(layer_record_set(layers_record(l), "protect", lines, NULL), 0);
	layers_file(l, 0, "keep/x", "x");
	layers_file(l, 0, "keeper", "x");
	layers_file(l, 0, "sub/a.pem", "x");
	CHECK_STR(mark_of(l, "keep/x"), "protected by the contract");
	CHECK_STR(mark_of(l, "keeper"), "");
	CHECK_STR(mark_of(l, "sub/a.pem"), "protected by the contract");
}
