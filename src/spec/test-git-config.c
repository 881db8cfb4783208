/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "spec/git.h"

#include <stdlib.h>

static char key[128];

/* From memory of just its size, so that a sanitizer sees a step too far. */
static const char *vet_sized(const char *text, size_t size, const char *old, unsigned up)
{
	char *copy = malloc(size ? size : 1);
	const char *verdict;

	if (!copy)
		test_fail(__FILE__, __LINE__, "out of memory");
	memcpy(copy, text, size);
	key[0] = '\0';
	verdict = git_config_vet(copy, size, old, old ? strlen(old) : 0, up, key);
	free(copy);
	return verdict;
}

static const char *vet(const char *text)
{
	return vet_sized(text, strlen(text), NULL, 0);
}

static const char *vet_submodule(const char *text)
{
	return vet_sized(text, strlen(text), NULL, 4);
}

static const char *vet_change(const char *text, const char *old)
{
	return vet_sized(text, strlen(text), old, 0);
}

/* The verdict on one entry. */
static const char *vet_entry(const char *section, const char *entry)
{
	char text[8192];

	snprintf(text, sizeof text, "[%s]\n\t%s\n", section, entry);
	return vet(text);
}

static bool is_url_fine(const char *url)
{
	char text[1024];

	snprintf(text, sizeof text, "url = \"%s\"", url);
	return !vet_entry("remote \"origin\"", text);
}

TEST(what_git_itself_writes_passes)
{
	CHECK(!vet(""));
	CHECK(!vet("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
		   "\tlogallrefupdates = true\n"
		   "[remote \"origin\"]\n\turl = https://example.org/a.git\n"
		   "\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
		   "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n"
		   "[submodule]\n\tactive = .\n"
		   "[submodule \"lib/sub\"]\n\tactive = true\n\turl = ../sub\n"
		   "[user]\n\tname = Jos\xc3\xa9 \"O\" X\n\temail = a@b.org\n"));
	CHECK(!vet("[remote \"mirror\"]\n\turl = /srv/a.git\n\tfetch = +refs/*:refs/*\n"
		   "\tmirror = true\n\ttagOpt = --no-tags\n"));
}

TEST(keys_that_run_programs_are_refused_by_name) /* TH-02 */
{
	static const struct {
		const char *section, *entry, *key;
	} bad[] = {
		{"core", "fsmonitor = touch /MARK", "core.fsmonitor"},
		{"core", "fsmonitor", "core.fsmonitor"},
		{"core", "fsmonitor = true", "core.fsmonitor"},
		{"core", "hooksPath = evil", "core.hookspath"},
		{"core", "sshCommand = x", "core.sshcommand"},
		{"core", "pager = x", "core.pager"},
		{"core", "editor = x", "core.editor"},
		{"core", "askPass = x", "core.askpass"},
		{"core", "gitProxy = x", "core.gitproxy"},
		{"core", "alternateRefsCommand = x", "core.alternaterefscommand"},
		{"core", "attributesFile = x", "core.attributesfile"},
		{"core", "worktree = ..", "core.worktree"},
		{"core", "protectNTFS = false", "core.protectntfs"},
		{"core", "repositoryformatversion = 2", "core.repositoryformatversion"},
		{"diff", "external = x", "diff.external"},
		{"diff \"x\"", "textconv = x", "diff.textconv"},
		{"diff \"x\"", "renames = true", "diff.renames"},
		{"merge \"x\"", "driver = x", "merge.driver"},
		{"merge", "tool = x", "merge.tool"},
		{"alias", "st = !x", "alias.st"},
		{"filter \"x\"", "clean = x", "filter.clean"},
		{"filter \"x\"", "smudge = x", "filter.smudge"},
		{"gpg", "program = x", "gpg.program"},
		{"credential", "helper = x", "credential.helper"},
		{"include", "path = x", "include.path"},
		{"includeIf \"gitdir:/\"", "path = x", "includeif.path"},
		{"url \"ext::x\"", "insteadOf = https://", "url.insteadof"},
		{"uploadpack", "packObjectsHook = x", "uploadpack.packobjectshook"},
		{"remote \"o\"", "uploadpack = x", "remote.uploadpack"},
		{"remote \"o\"", "receivepack = x", "remote.receivepack"},
		{"remote \"o\"", "vcs = x", "remote.vcs"},
		{"remote \"o\"", "proxy = x", "remote.proxy"},
		{"remote", "pushDefault = x", "remote.pushdefault"},
		{"log", "showSignature = true", "log.showsignature"},
		{"commit", "gpgSign = true", "commit.gpgsign"},
		{"commit", "gpgSign", "commit.gpgsign"},
		{"tag", "gpgSign = 1", "tag.gpgsign"},
		{"gc", "recentObjectsHook = x", "gc.recentobjectshook"},
		{"extensions", "worktreeConfig = true", "extensions.worktreeconfig"},
		{"extensions", "worktreeConfig", "extensions.worktreeconfig"},
		{"extensions", "refStorage = reftable", "extensions.refstorage"},
		{"submodule \"x\"", "update = !touch /MARK", "submodule.update"},
		{"submodule \"x\"", "update", "submodule.update"},
		{"protocol \"ext\"", "allow = always", "protocol.allow"},
		{"http", "proxy = x", "http.proxy"},
		{"trailer \"x\"", "command = x", "trailer.command"},
		{"interactive", "diffFilter = x", "interactive.difffilter"},
		{"sequence", "editor = x", "sequence.editor"},
		{"CORE", "FSMonitor = x", "core.fsmonitor"},
		{"branch", "autoSetupRebase = always", "branch.autosetuprebase"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		const char *got = vet_entry(bad[i].section, bad[i].entry);

		if (!got || !streq(got, bad[i].key))
			test_fail(__FILE__, __LINE__, "[%s] %s: %s", bad[i].section, bad[i].entry,
				  got ? got : "passed");
	}
}

TEST(harmless_neighbours_pass)
{
	static const struct {
		const char *section, *entry;
	} good[] = {
		{"core", "fsmonitor = false"},
		{"core", "autocrlf = input"},
		{"core", "protectNTFS = true"},
		{"core", "protectHFS"},
		{"core", "repositoryformatversion = 1"},
		{"core", "bare"},
		{"core", "bigFileThreshold = 512m"},
		{"Core", "FileMode = FALSE"},
		{"extensions", "objectFormat = sha256"},
		{"extensions", "worktreeConfig = false"},
		{"extensions", "partialClone = origin"},
		{"remote \"o\"", "promisor = true"},
		{"remote \"o\"", "partialclonefilter = blob:none"},
		{"branch \"a/b.c\"", "rebase = merges"},
		{"branch \"x\"", "description = one\\ntwo\\n"},
		{"branch \"x\"", "remote = ."},
		{"submodule \"x\"", "update = rebase"},
		{"submodule \"x\"", "branch = ."},
		{"commit", "gpgSign = false"},
		{"color", "ui = auto"},
		{"color \"diff\"", "meta = yellow bold"},
		{"diff", "renames = copies"},
		{"gc", "reflogExpire = 90 days"},
		{"advice", "detachedHead = false"},
		{"pull", "ff = only"},
		{"i18n", "commitEncoding = ISO-8859-1"},
		{"user", "name = "},
		{"author", "email = x@y"},
		{"lfs", "repositoryformatversion = 0"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		const char *got = vet_entry(good[i].section, good[i].entry);

		if (got)
			test_fail(__FILE__, __LINE__, "[%s] %s: %s", good[i].section, good[i].entry,
				  got);
	}
}

TEST(urls_are_plain)
{
	CHECK(is_url_fine("https://example.org/a.git"));
	CHECK(is_url_fine("https://user%40corp:pw@example.org:8443/a"));
	CHECK(is_url_fine("http://example.org"));
	CHECK(is_url_fine("ssh://git@example.org:22/a"));
	CHECK(is_url_fine("ssh://[::1]/a"));
	CHECK(is_url_fine("git://example.org/a"));
	CHECK(is_url_fine("file:///srv/a.git"));
	CHECK(is_url_fine("git@example.org:a/b.git"));
	CHECK(is_url_fine("host:a"));
	CHECK(is_url_fine("../a"));
	CHECK(is_url_fine("/srv/a::b"));
	CHECK(is_url_fine("./a:b"));

	CHECK(!is_url_fine(""));
	CHECK(!is_url_fine("ext::sh -c touch% /MARK"));
	CHECK(!is_url_fine("ext::"));
	CHECK(!is_url_fine("x::https://y"));
	CHECK(!is_url_fine("a:b::c"));
	CHECK(!is_url_fine("ext://x"));
	CHECK(!is_url_fine("HTTPS://example.org"));
	CHECK(!is_url_fine("ftp://example.org"));
	CHECK(!is_url_fine("-oProxyCommand=x"));
	CHECK(!is_url_fine("--upload-pack=x"));
	CHECK(!is_url_fine("ssh://-oProxyCommand=x/y"));
	CHECK(!is_url_fine("ssh://u@-oProxyCommand=x/y"));
	CHECK(!is_url_fine("ssh://[-oProxyCommand=x]/y"));
	CHECK(!is_url_fine("ssh://%2doProxyCommand=x/y"));
	CHECK(!is_url_fine("-x@host:a"));
	CHECK(!is_url_fine("u@-host:a"));
	CHECK(!is_url_fine("host:-a"));
	CHECK(!is_url_fine("[-x]:a"));
	CHECK(!is_url_fine("file://-x"));
	CHECK(!is_url_fine("https://"));
	CHECK(!is_url_fine("https://a/%0ahost=b"));
	CHECK(!is_url_fine("https://a/%0D"));
	CHECK(!is_url_fine("https://a/\\n"));
	CHECK(!is_url_fine("://x"));
	CHECK_STR(vet_entry("branch \"x\"", "remote = ext::sh"), "branch.remote");
	CHECK_STR(vet_entry("submodule \"x\"", "url = ext::sh"), "submodule.url");
	CHECK_STR(vet_entry("remote \"x\"", "pushurl = -x"), "remote.pushurl");
	CHECK_STR(vet_entry("remote \"x\"", "fetch = --exec=x"), "remote.fetch");
	CHECK_STR(vet_entry("remote \"x\"", "tagOpt = --upload-pack=x"), "remote.tagopt");
	CHECK_STR(vet_entry("remote \"x\"", "url"), "remote.url");
}

TEST(names_in_quotes_cannot_be_options_or_ways_up)
{
	/* git fetch --all makes an argument of it */
	CHECK_STR(vet_entry("remote \"--upload-pack=x\"", "url = a"), "remote.url");
	CHECK_STR(vet_entry("submodule \"../../x\"", "url = a"), "submodule.url");
	CHECK_STR(vet_entry("submodule \"a/../x\"", "url = a"), "submodule.url");
	CHECK_STR(vet_entry("submodule \"..\"", "url = a"), "submodule.url");
	CHECK(vet_entry("submodule \"a\\\\..\\\\x\"", "url = a"));
	CHECK(vet_entry("remote \"a\x01\"", "url = a"));
	CHECK(!vet_entry("submodule \"a/..b/c..\"", "url = a"));
}

TEST(a_submodule_may_have_its_work_tree_in_the_root)
{
	CHECK(!vet_submodule("[core]\n\tworktree = ../../../../lib/sub\n"));
	CHECK(!vet_submodule("[core]\n\tworktree = ../sub\n"));
	CHECK_STR(vet_submodule("[core]\n\tworktree = ../../../../../x\n"), "core.worktree");
	CHECK(vet_submodule("[core]\n\tworktree = /home\n"));
	CHECK(vet_submodule("[core]\n\tworktree = x\n"));
	CHECK(vet_submodule("[core]\n\tworktree = ../x/../../../../..\n"));
	CHECK(vet_submodule("[core]\n\tworktree = ../..\n"));
	CHECK(vet_submodule("[core]\n\tworktree = ../\n"));
	CHECK(vet_submodule("[core]\n\tworktree = ../x/./y\n"));
	CHECK(vet_submodule("[core]\n\tworktree = ../x//y\n"));
	CHECK(vet_submodule("[core]\n\tworktree = ../../../../.git/hooks\n"));
	CHECK(vet_submodule("[core]\n\tworktree = ../../../../.vscode\n"));
	CHECK(vet_submodule("[core]\n\tworktree\n"));
	CHECK(vet("[core]\n\tworktree = ../x\n"));
	CHECK(vet_submodule("[core \"x\"]\n\tworktree = ../x\n"));
}

TEST(the_users_own_entries_may_stay)
{
	static const char old[] = "[core]\n\tbare = false\n[alias]\n\tst = \"!git status; echo\"\n"
				  "\tlg = log --graph\t--all\n"
				  "[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\trequired\n";
	char text[1024];

	CHECK(!vet_change(old, old));
	snprintf(text, sizeof text, "%s[user]\n\tname = x\n", old);
	CHECK(!vet_change(text, old));
	/* quotes and place do not matter, but the value does */
	CHECK(!vet_change("[FILTER \"lfs\"] Clean=\"git-lfs clean -- %f\"", old));
	CHECK(!vet_change("[filter \"lfs\"]\nclean = git-lfs clean -- %f;x\n", old));
	CHECK_STR(vet_change("[filter \"lfs\"]\nclean = \"git-lfs clean -- %f;x\"\n", old),
		  "filter.clean");
	CHECK_STR(vet_change("[filter \"LFS\"]\nclean = git-lfs clean -- %f\n", old),
		  "filter.clean");
	CHECK_STR(vet_change("[filter]\nclean = git-lfs clean -- %f\n", old), "filter.clean");
	CHECK_STR(vet_change("[filter \"lfs\"]\nsmudge = git-lfs clean -- %f\n", old),
		  "filter.smudge");
	CHECK(!vet_change("[filter \"lfs\"]\nrequired\n", old));
	CHECK_STR(vet_change("[filter \"lfs\"]\nrequired = true\n", old), "filter.required");
	CHECK_STR(vet_change("[alias]\nst = !git status\n", old), "alias.st");
	/* what stands behind something not understood is not known */
	CHECK_STR(vet_change("[alias]\nx = y\n", "[a.b]\n[alias]\nx = y\n"), "alias.x");
	CHECK(!vet_change("[alias]\nx = y\n", "[alias]\nx = y\n[a.b]\n"));
}

TEST(syntax_is_read_as_git_reads_it)
{
	/* a continued line is one value, and what follows a comment is none */
	CHECK(!vet("[user]\n\tname = a\\\n[core] fsmonitor = x\n"));
	CHECK(!vet("[user]\n\tname = a # \\\n\temail = b\n"));
	CHECK_STR(vet("[user]\n\tname = a # \\\n\tfsmonitor = x\n"), "user.fsmonitor");
	CHECK_STR(vet("[user]\n\tname = a\\\n\n[core]\nfsmonitor = x\n"), "core.fsmonitor");
	CHECK_STR(vet("[user] name = a\n[core]fsmonitor=x"), "core.fsmonitor");
	CHECK_STR(vet("[core]bare\nfsmonitor=x"), "core.fsmonitor");
	CHECK_STR(vet("[core] ; c\n  fsmonitor = x"), "core.fsmonitor");
	CHECK_STR(vet("# \\\n[core]\nfsmonitor = x"), "core.fsmonitor");
	CHECK(!vet("# [core]\n; fsmonitor = x\n"));
	CHECK(!vet("[user]\r\n\tname = a\r\n"));
	CHECK(!vet("[user]\n\tname = \"a;b#c\" ; d\n"));
	CHECK(!vet("[user]\n\tname = a \"b  c\"\\\"d\n"));
	CHECK_STR(vet("[user]\n\tname = \"a\n[core]\n"), "line 2");
	CHECK(!vet("[user]\nname = \\\\\n"));
	/* quotes and escapes do not hide a value */
	CHECK_STR(vet("[remote \"x\"]\nurl = e\"xt::\"sh\n"), "remote.url");
	CHECK_STR(vet("[remote \"x\"]\nurl = ext:\\\n:sh\n"), "remote.url");
	CHECK_STR(vet("[remote \"x\"]\nurl = \"\" -x\n"), "remote.url");
	CHECK_STR(vet("[core]\nfsmonitor = false \\\n x\n"), "core.fsmonitor");
	CHECK(!vet("[core]\nfsmonitor = \"false\" ; x\n"));
}

TEST(what_is_not_understood_is_refused)
{
	static const char *const bad[] = {
		"\xef\xbb\xbf[core]\n",
		"bare = true\n",
		"[]\nbare\n",
		"[core\n",
		"[core\n]\nbare\n",
		"[core.x]\nbare\n",
		"[remote.origin]\nurl = a\n",
		"[remote \"x\" ]\nurl = a\n",
		"[remote \"x]\nurl = a\n",
		"[remote x]\nurl = a\n",
		"[ core]\nbare\n",
		"[co re]\nbare\n",
		"[remote \"a\nb\"]\n",
		"[core]\n1a = b\n",
		"[core]\n-a = b\n",
		"[core]\nbare : true\n",
		"[core]\nbare = \\x\n",
		"[core]\nbare = \\",
		"[core]\nbare = \"true",
		"[core]\nbare = true\rfalse\n",
		"[core]\rbare\n",
		"[core]\n= x\n",
		"[core]\nb_re = x\n",
		"[core]]\n",
		"]\n",
		"x",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		const char *got = vet(bad[i]);

		if (!got || !starts_with(got, "line "))
			test_fail(__FILE__, __LINE__, "'%s': %s", bad[i], got ? got : "passed");
	}
	CHECK_STR(vet_sized("[core]\nbare\0x\n", 14, NULL, 0), "line 2");
	CHECK_STR(vet_sized("# \0\n", 4, NULL, 0), "line 1");
	CHECK_STR(vet("[core]\n\tbare\n\n[x"), "line 4");
}

TEST(limits_hold)
{
	static char text[GIT_CONFIG_MAX + 2];
	size_t used;

	memset(text, '\n', sizeof text);
	CHECK(!vet_sized(text, GIT_CONFIG_MAX, NULL, 0));
	CHECK(vet_sized(text, GIT_CONFIG_MAX + 1, NULL, 0));

	used = (size_t)sprintf(text, "[user]\nname = ");
	memset(text + used, 'a', 4095);
	text[used + 4095] = '\n';
	CHECK(!vet_sized(text, used + 4096, NULL, 0));
	text[used + 4095] = 'a';
	CHECK(vet_sized(text, used + 4096, NULL, 0));

	used = (size_t)sprintf(text, "[core]\n");
	for (unsigned i = 0; i < 1024; i++)
		used += (size_t)sprintf(text + used, "bare\n");
	CHECK(!vet_sized(text, used, NULL, 0));
	used += (size_t)sprintf(text + used, "bare\n");
	CHECK(vet_sized(text, used, NULL, 0));

	memset(text, 'a', 100);
	text[0] = '[';
	CHECK_STR(vet_sized(text, 100, NULL, 0), "line 1");
	sprintf(text, "[core]\n%0200d = x\n", 0);
	memset(text + 7, 'a', 200);
	CHECK_STR(vet(text), "line 2");
	sprintf(text, "[remote \"%0300d\"]\nurl = x\n", 0);
	CHECK_STR(vet(text), "line 1");
}

TEST(many_entries_against_a_long_old_text_end_in_time)
{
	static char text[GIT_CONFIG_MAX], old[GIT_CONFIG_MAX];
	size_t used = (size_t)sprintf(text, "[alias]\n");
	size_t old_used = (size_t)sprintf(old, "[alias]\n");

	for (unsigned i = 0; i < 1000; i++) {
		used += (size_t)sprintf(text + used, "a%u = %050u\n", i, i);
		old_used += (size_t)sprintf(old + old_used, "a%u = %050u\n", 999 - i, 999 - i);
	}
	CHECK(!git_config_vet(text, used, old, old_used, 0, key));
}
