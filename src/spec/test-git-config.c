/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "spec/git.h"

#include <stdlib.h>

static char key[128];

/* From memory of just its size, so that a sanitizer sees a step too far. */
static const char *vet_how(const char *text, size_t size, const struct git_vet *how)
{
	char *copy = malloc(size ? size : 1);
	const char *verdict;

	if (!copy)
		test_fail(__FILE__, __LINE__, "out of memory");
	memcpy(copy, text, size);
	key[0] = '\0';
	verdict = git_config_vet(copy, size, how, key);
	free(copy);
	return verdict;
}

/* `dir` of a submodule's config, or NULL. */
static const char *vet_sized(const char *text, size_t size, const char *old, const char *dir)
{
	const struct git_vet how = {
		.old = old, .old_size = old ? strlen(old) : 0, .dir = dir, .root = "/w"};

	return vet_how(text, size, &how);
}

/* Only this one can be reached. */
static bool may_reach(const void *data, const char *host, size_t size, unsigned port)
{
	return size == strlen(data) && memcmp(host, data, size) == 0 && port == 443;
}

/* In a repository that the run has made. */
static const char *vet_new(const char *text)
{
	const struct git_vet how = {.is_new = true,
				    .may_reach = may_reach,
				    .data = "example.org",
				    .store = "/var/state/atoll"};

	return vet_how(text, strlen(text), &how);
}

static const char *vet(const char *text)
{
	return vet_sized(text, strlen(text), NULL, NULL);
}

static const char *vet_submodule(const char *text)
{
	return vet_sized(text, strlen(text), NULL, "/w/super/.git/modules/sub");
}

static const char *vet_change(const char *text, const char *old)
{
	return vet_sized(text, strlen(text), old, NULL);
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

	snprintf(text, sizeof text, "[remote \"o\"]\nurl = \"%s\"\n", url);
	CHECK_STR(vet(text), "remote.url"); /* never in a repository of the host's */
	/* git_is_url() gets the value after git has read the escapes. */
	return git_is_url(streq(url, "https://a/\\n") ? "https://a/\n" : url);
}

TEST(what_git_itself_writes_passes)
{
	CHECK(!vet(""));
	CHECK(!vet_new("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
		       "\tlogallrefupdates = true\n"
		       "[remote \"origin\"]\n\turl = https://example.org/a.git\n"
		       "\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
		       "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n"
		       "[submodule]\n\tactive = .\n"
		       "[submodule \"lib/sub\"]\n\tactive = true\n\turl = ../sub\n"
		       "[user]\n\tname = Jos\xc3\xa9 \"O\" X\n\temail = a@b.org\n"));
	CHECK(!vet_new("[remote \"mirror\"]\n\turl = /srv/a.git\n\tfetch = +refs/*:refs/*\n"
		       "\tmirror = true\n\ttagOpt = --no-tags\n"));
	CHECK(!vet("[core]\n\tbare = false\n[user]\n\tname = a\n"));
}

TEST(a_repository_of_the_hosts_gets_no_new_way_to_talk)
{
	static const char *const keys[][2] = {
		{"remote \"o\"", "url = https://example.org/a"},
		{"remote \"o\"", "url = /srv/a"},
		{"remote \"o\"", "pushurl = https://example.org/a"},
		{"remote \"o\"", "fetch = +refs/heads/*:refs/remotes/o/*"},
		{"remote \"o\"", "push = refs/heads/*"},
		{"remote \"o\"", "mirror = true"},
		{"extensions", "partialClone = o"},
		{"branch \"b\"", "remote = https://example.org/a"},
		{"branch \"b\"", "remote = o"},
		{"branch \"b\"", "pushRemote = o"},
		{"submodule \"s\"", "url = https://example.org/a"},
		{"submodule \"s\"", "fetchRecurseSubmodules = true"},
		{"remote", "pushDefault = o"},
		{"push", "default = matching"},
		{"url \"https://evil/\"", "insteadOf = https://"},
		{"url \"https://evil/\"", "pushInsteadOf = https://"},
		{"http", "proxy = http://evil"},
		{"http \"https://x\"", "extraHeader = a"},
		{"credential", "helper = store"},
		{"protocol", "allow = always"},
		{"fetch", "bundleURI = https://evil"},
		{"transfer", "bundleURI = true"},
		{"remote \"o\"", "promisor = true"},
		{"remote \"o\"", "partialclonefilter = blob:none"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (!vet_entry(keys[i][0], keys[i][1]))
			test_fail(__FILE__, __LINE__, "[%s] %s passed", keys[i][0], keys[i][1]);
		CHECK(git_config_key_talks(key));
	}
	CHECK(!git_config_key_talks("core.pager"));
}

TEST(a_new_repository_talks_to_whom_the_run_may)
{
	CHECK(!vet_new("[remote \"o\"]\nurl = https://u@example.org/x\n"));
	CHECK(!vet_new("[remote \"o\"]\nurl = ../x\n"));
	CHECK(!vet_new("[remote \"o\"]\nurl = file:///srv/x\n"));
	CHECK(vet_new("[remote \"o\"]\nurl = https://evil.org/x\n"));
	CHECK(vet_new("[remote \"o\"]\nurl = https://example.org:444/x\n"));
	CHECK(vet_new("[remote \"o\"]\nurl = https://example.org@evil.org/x\n"));
	CHECK(vet_new("[remote \"o\"]\nurl = http://example.org/x\n"));
	CHECK(vet_new("[remote \"o\"]\nurl = git@example.org:x\n"));
	CHECK(vet_new("[branch \"b\"]\nremote = https://evil.org/x\n"));
	CHECK(vet_new("[remote \"o\"]\nurl = /var/state/atoll/records/x\n"));
	CHECK(vet_new("[remote \"o\"]\nurl = file:///home/a/.local/state/atoll/layers/x\n"));
	CHECK(vet_new("[remote \"o\"]\nurl = ../../atoll/./records/x\n"));
	CHECK(vet_new("[remote \"o\"]\npromisor = true\n"));
	CHECK(vet_new("[remote \"o\"]\npushurl = ../x\n"));
	CHECK(vet_new("[extensions]\npartialClone = o\n"));
	CHECK(!git_leads_to_store("/home/a/atoll/src/records", "/home/a/.local/state/atoll"));
}

TEST(a_new_branch_may_follow_the_remote_that_git_takes_anyway)
{
	static const char one[] = "[remote \"up\"]\nurl = https://x/y\n";
	static const char two[] = "[remote \"origin\"]\nurl = https://x/y\n"
				  "[remote \"pub\"]\nurl = https://x/z\n"
				  "[branch \"main\"]\nremote = pub\nmerge = refs/heads/main\n";
	char text[1024];

	snprintf(text, sizeof text, "%s[branch \"t\"]\nremote = up\nmerge = refs/heads/m\n", one);
	CHECK(!vet_change(text, one));
	snprintf(text, sizeof text, "%s[branch \"t\"]\nremote = origin\n", two);
	CHECK(!vet_change(text, two));
	snprintf(text, sizeof text, "%s[branch \"t\"]\nremote = .\nmerge = refs/heads/m\n", two);
	CHECK(!vet_change(text, two));
	snprintf(text, sizeof text, "%s[branch \"t\"]\nremote = pub\n", two);
	CHECK_STR(vet_change(text, two), "branch.remote");
	snprintf(text, sizeof text, "%s[branch \"main\"]\nremote = origin\n", two);
	CHECK_STR(vet_change(text, two), "branch.remote");
	/* and a branch may go, unless it was kept from its remote */
	CHECK(!vet_change("[remote \"up\"]\nurl = https://x/y\n",
			  "[remote \"up\"]\nurl = https://x/y\n[branch \"t\"]\nremote = up\n"));
	CHECK_STR(vet_change("[remote \"origin\"]\nurl = https://x/y\n"
			     "[remote \"pub\"]\nurl = https://x/z\n",
			     two),
		  "branch.remote");
}

TEST(what_keeps_git_from_talking_stays)
{
	static const char old[] = "[remote \"o\"]\nurl = https://x/y\npushurl = DISABLED\n"
				  "[protocol]\nallow = never\n[user]\nname = a\n";

	CHECK(!vet_change(old, old));
	CHECK_STR(vet_change("[remote \"o\"]\nurl = https://x/y\n[protocol]\nallow = never\n", old),
		  "remote.pushurl");
	CHECK_STR(vet_change("[remote \"o\"]\nurl = https://x/y\npushurl = DISABLED\n", old),
		  "protocol.allow");
	CHECK_STR(vet_change("[remote \"o\"]\nurl = https://x/y\npushurl = DISABLED\n"
			     "pushurl = https://x/y\n[protocol]\nallow = never\n",
			     old),
		  "remote.pushurl");
	CHECK(vet_change("[protocol]\nallow = never\n"
			 "[remote \"o\"]\nurl = https://x/y\npushurl = DISABLED\n",
			 old));
	CHECK_STR(vet_change("", old), "remote.url");
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
		{"extensions", "worktreeConfig = false", "extensions.worktreeconfig"},
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
		{"commit", "gpgSign = false", "commit.gpgsign"},
		{"status", "showUntrackedFiles = no", "status.showuntrackedfiles"},
		{"status", "someThingNew = x", "status.somethingnew"},
		{"submodule \"x\"", "ignore = all", "submodule.ignore"},
		{"i18n", "logOutputEncoding = ISO-2022-CN-EXT", "i18n.logoutputencoding"},
		{"gc", "pruneExpire = now", "gc.pruneexpire"},
		{"push", "default = matching", "push.default"},
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
		{"extensions", "objectFormat = sha1"},
		{"branch \"a/b.c\"", "rebase = merges"},
		{"branch \"x\"", "description = one\\ntwo\\n"},
		{"branch \"x\"", "remote = ."},
		{"submodule \"x\"", "update = rebase"},
		{"submodule \"x\"", "branch = ."},
		{"color", "ui = auto"},
		{"color \"diff\"", "meta = yellow bold"},
		{"diff", "renames = copies"},
		{"advice", "detachedHead = false"},
		{"pull", "ff = only"},
		{"i18n", "commitEncoding = UTF-8"},
		{"status", "showUntrackedFiles = all"},
		{"push", "default = simple"},
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
	CHECK(!vet_entry("submodule \"a/..b/c..\"", "url = ./a"));
}

TEST(a_submodule_may_have_its_work_tree_in_the_root)
{
	CHECK(!vet_submodule("[core]\n\tworktree = ../../../../lib/sub\n"));
	CHECK(!vet_submodule("[core]\n\tworktree = ../../../sub\n"));
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

TEST(a_submodules_work_tree_is_in_no_git_directory)
{
	static const char text[] = "[core]\n\tworktree = ../../../x\n";

	CHECK_STR(vet_submodule("[core]\n\tworktree = ../sub/hooks\n"), "core.worktree");
	CHECK_STR(vet_submodule("[core]\n\tworktree = ../../hooks\n"), "core.worktree");
	CHECK_STR(vet_submodule("[core]\n\tworktree = ../x\n"), "core.worktree");
	CHECK_STR(vet_submodule("[core]\n\tworktree = ../../../../other/.git/hooks\n"),
		  "core.worktree");
	/* its own git directory lies beneath a `.git`, where a checkout writes nothing */
	CHECK(!vet_sized(text, sizeof text - 1, NULL, "/w/.git/modules/x"));
	CHECK(vet_sized(text, sizeof text - 1, NULL, "/w/meta/modules/x"));
	CHECK(vet_sized(text, sizeof text - 1, NULL, "/w/.GIT/modules/x"));
	CHECK(vet_sized(text, sizeof text - 1, NULL, "/.git/w/modules/x"));
}

TEST(the_users_own_entries_stay)
{
	static const char old[] = "[core]\n\tbare = false\n[alias]\n\tst = \"!git status; echo\"\n"
				  "[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\trequired\n";
	static const char alias[] = "[alias]\n\tst = \"!git status; echo\"\n";
	char text[1024];

	CHECK(!vet_change(old, old));
	snprintf(text, sizeof text, "%s[user]\n\tname = x\n", old);
	CHECK(!vet_change(text, old));
	/* quotes, comments and harmless neighbours do not matter, but value and order do */
	snprintf(text, sizeof text,
		 "%s[FILTER \"lfs\"] Clean=\"git-lfs clean -- %%f\" ; x\nrequired\n", alias);
	CHECK(!vet_change(text, old));
	snprintf(text, sizeof text, "%s[filter \"lfs\"]\nclean = \"git-lfs clean -- %%f;x\"\n",
		 alias);
	CHECK_STR(vet_change(text, old), "filter.clean");
	snprintf(text, sizeof text, "%s[filter \"LFS\"]\nclean = git-lfs clean -- %%f\n", alias);
	CHECK_STR(vet_change(text, old), "filter.clean");
	snprintf(text, sizeof text, "%s[filter \"lfs\"]\nrequired\nclean = git-lfs clean -- %%f\n",
		 alias);
	CHECK(vet_change(text, old));
	CHECK_STR(vet_change(alias, old), "filter.clean");
	CHECK_STR(vet_change("[alias]\nst = !git status\n", old), "alias.st");
	/* what stands behind something not understood is not known */
	CHECK_STR(vet_change("[alias]\nx = y\n", "[a.b]\n[alias]\nx = y\n"), "alias.x");
	CHECK_STR(vet_change("[alias]\nx = y\n", "[alias]\nx = y\n[a.b]\n"),
		  "line 3 of the present config");
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
	CHECK_STR(vet_new("[remote \"x\"]\nurl = e\"xt::\"sh\n"), "remote.url");
	CHECK_STR(vet_new("[remote \"x\"]\nurl = ext:\\\n:sh\n"), "remote.url");
	CHECK_STR(vet_new("[remote \"x\"]\nurl = \"\" -x\n"), "remote.url");
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
	CHECK_STR(vet_sized("[core]\nbare\0x\n", 14, NULL, NULL), "line 2");
	CHECK_STR(vet_sized("# \0\n", 4, NULL, NULL), "line 1");
	CHECK_STR(vet("[core]\n\tbare\n\n[x"), "line 4");
}

TEST(limits_hold)
{
	static char text[GIT_CONFIG_MAX + 2];
	size_t used;

	memset(text, '\n', sizeof text);
	CHECK(!vet_sized(text, GIT_CONFIG_MAX, NULL, NULL));
	CHECK(vet_sized(text, GIT_CONFIG_MAX + 1, NULL, NULL));

	used = (size_t)sprintf(text, "[user]\nname = ");
	memset(text + used, 'a', 4095);
	text[used + 4095] = '\n';
	CHECK(!vet_sized(text, used + 4096, NULL, NULL));
	text[used + 4095] = 'a';
	CHECK(vet_sized(text, used + 4096, NULL, NULL));

	used = (size_t)sprintf(text, "[core]\n");
	for (unsigned i = 0; i < 1024; i++)
		used += (size_t)sprintf(text + used, "bare\n");
	CHECK(!vet_sized(text, used, NULL, NULL));
	used += (size_t)sprintf(text + used, "bare\n");
	CHECK(vet_sized(text, used, NULL, NULL));

	memset(text, 'a', 100);
	text[0] = '[';
	CHECK_STR(vet_sized(text, 100, NULL, NULL), "line 1");
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
		old_used += (size_t)sprintf(old + old_used, "a%u = %050u\n", i, i);
	}
	CHECK(!git_config_vet(text, used, &(struct git_vet){.old = old, .old_size = old_used},
			      key));
}

TEST(a_repository_keeps_its_length_of_hashes)
{
	static const char sha256[] = "[core]\nrepositoryFormatVersion = 1\n[extensions]\n"
				     "objectFormat = sha256\n";
	static const char without[] = "[extensions]\nobjectFormat = sha256\n";
	static const char both[] = "[extensions]\nobjectFormat = sha1\nobjectFormat = sha256\n";
	static const char none[] = "[core]\nbare = false\n";
	struct git_vet from_none = {.old = none, .old_size = sizeof none - 1};
	struct git_vet from_sha256 = {.old = sha256, .old_size = sizeof sha256 - 1};
	struct git_vet fresh = {.is_new = true};

	CHECK_STR(git_config_vet(sha256, sizeof sha256 - 1, &from_none, key),
		  "extensions.objectformat");
	CHECK_STR(git_config_vet(none, sizeof none - 1, &from_sha256, key),
		  "extensions.objectformat");
	CHECK_STR(git_config_vet(both, sizeof both - 1, &fresh, key), "extensions.objectformat");
	CHECK_STR(git_config_vet(without, sizeof without - 1, &fresh, key),
		  "extensions.objectformat");
	CHECK_STR(git_config_vet(without, sizeof without - 1, &from_sha256, key),
		  "extensions.objectformat");
	CHECK(!git_config_vet(sha256, sizeof sha256 - 1, &from_sha256, key));
	CHECK(!git_config_vet(sha256, sizeof sha256 - 1, &fresh, key));
}

TEST(extensions_of_the_host_go_on_to_count)
{
	static const char old[] = "[core]\nrepositoryFormatVersion = 0\n[extensions]\n"
				  "worktreeConfig = true\n";
	static const char without[] = "[extensions]\nworktreeConfig = true\n";
	static const char again[] = "[core]\nrepositoryFormatVersion = 0\n[extensions]\n"
				    "worktreeConfig = true\nworktreeConfig = false\n";
	static const char plain[] = "[core]\nrepositoryFormatVersion = 0\n";

	CHECK(!vet_change(old, old));
	CHECK_STR(vet_change(without, old), "extensions.objectformat");
	CHECK_STR(vet_change(again, old), "extensions.worktreeconfig");
	CHECK(!vet_change("[core]\nrepositoryFormatVersion = 1\n", plain));
	CHECK(!vet_change("[core]\nbare = false\n", plain));
}

TEST(a_config_that_is_too_large_to_read_stays)
{
	static char old[GIT_CONFIG_MAX + 1];

	memset(old, '\n', sizeof old);
	CHECK(git_config_vet("", 0, &(struct git_vet){.old = old, .old_size = sizeof old}, key));
	CHECK(!git_config_vet("", 0, &(struct git_vet){.old = old, .old_size = sizeof old - 1},
			      key));
}
