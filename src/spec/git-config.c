/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/git.h"

#include "base/scope.h"
#include "base/str.h"
#include "spec/git-config-read.h"

#include <stdio.h>
#include <strings.h>

/*
 * Which entries are harmless
 *
 * The value is NULL for a key without one. Whatever starts a program, reads another config, or
 * makes git speak to someone by other means than the plain transports is missing from the list; so
 * is everything that nobody has thought about yet.
 */

static bool is_text(const char *value)
{
	return value && str_is_printable(value);
}

/* Something that git may hand on as an argument. */
static bool is_argument(const char *value)
{
	return is_text(value) && *value && *value != '-';
}

/* More than one line. */
static bool is_prose(const char *value)
{
	if (!value)
		return false;
	for (; *value; value++)
		if (((unsigned char)*value < 0x20 && *value != '\n') || *value == 0x7f)
			return false;
	return true;
}

/* A switch, a number, a date or a word out of a choice; whether it makes sense is git's problem. */
static bool is_setting(const char *value)
{
	static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					 "0123456789-_.,:+ ";

	return !value || (*value != '-' && value[strspn(value, characters)] == '\0');
}

static bool is_one_of(const char *value, const char *const *words)
{
	for (; value && *words; words++)
		if (strcasecmp(value, *words) == 0)
			return true;
	return false;
}

static bool is_true(const char *value)
{
	static const char *const words[] = {"true", "yes", "on", "1", NULL};

	return !value || is_one_of(value, words);
}

static bool is_false(const char *value)
{
	static const char *const words[] = {"false", "no", "off", "0", NULL};

	return is_one_of(value, words);
}

/* Only this one: before 2.36 git took every other word for the name of a program. */
static bool is_no_monitor(const char *value)
{
	return value && streq(value, "false");
}

static bool is_format_version(const char *value)
{
	return value && (streq(value, "0") || streq(value, "1"));
}

static bool is_object_format(const char *value)
{
	return value && (streq(value, "sha1") || streq(value, "sha256"));
}

static bool is_tag_option(const char *value)
{
	return value && (streq(value, "--tags") || streq(value, "--no-tags"));
}

/* Never "!command". */
static bool is_update(const char *value)
{
	static const char *const words[] = {"checkout", "rebase", "merge", "none", NULL};

	return is_one_of(value, words);
}

/* From a submodule's git directory to its work tree: "../../../lib/foo". Whatever git checks out is
 * written there, so it must not lead out of the root nor to a trusted name. */
static bool is_way_to_worktree(const char *value, unsigned up_max)
{
	unsigned up = 0;

	if (!is_text(value) || !starts_with(value, "../"))
		return false;
	for (; starts_with(value, "../"); value += 3)
		up++;
	if (up > up_max || names_refuse("/", value - 1, NAMES_WRITE) ||
	    names_git_inside("/", value - 1))
		return false;
	for (;;) {
		size_t size = strcspn(value, "/");

		if (size <= 2 && strncmp(value, "..", size) == 0)
			return false;
		value += size;
		if (!*value)
			return true;
		value++;
	}
}

/* "user@host:port", of which no part may look like an option. */
static bool is_authority(const char *text, size_t size, bool may_be_encoded)
{
	const char *at = memrchr(text, '@', size);
	const char *host = at ? at + 1 : text;

	if (host == text + size || *text == '-')
		return false;
	if (!may_be_encoded && memchr(text, '%', size))
		return false;
	if (*host == '[')
		host++;
	return *host != '-';
}

/* Encoded ends of a line or a string have split requests and credentials before. */
static bool has_encoded_control(const char *url)
{
	for (; (url = strchr(url, '%')); url++)
		if ((url[1] == '0' || url[1] == '1' || url[1] == '7') && url[2] &&
		    (url[1] != '7' || (url[2] | 0x20) == 'f'))
			return true;
	return false;
}

/* "scheme://...": every other scheme would be the name of a program, git-remote-SCHEME. */
static bool is_plain_scheme(const char *url, size_t scheme_size)
{
	static const struct {
		const char *name;
		bool may_be_encoded; /* git decodes the others' host before it uses it */
	} schemes[] = {{"https", true}, {"http", true}, {"ssh", false}, {"git", false}};
	const char *rest = url + scheme_size + strlen("://");

	if (scheme_size == 4 && starts_with(url, "file"))
		return *rest && *rest != '-';
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (strlen(schemes[i].name) == scheme_size && starts_with(url, schemes[i].name))
			return is_authority(rest, strcspn(rest, "/"), schemes[i].may_be_encoded);
	return false;
}

/* A URL with a plain scheme, "user@host:path", a path, or the name of a remote. */
static bool is_url(const char *value)
{
	size_t head;

	if (!is_argument(value) || has_encoded_control(value))
		return false;
	/* "helper::address" */
	if (memmem(value, strcspn(value, "/"), "::", 2))
		return false;
	head = strcspn(value, ":/");
	if (value[head] != ':')
		return true;
	if (starts_with(value + head, "://"))
		return is_plain_scheme(value, head);
	return *value != '[' && value[head + 1] != '-' && is_authority(value, head, false);
}

enum subsection {
	SUB_NONE,
	SUB_NEEDED,
	SUB_ANY,
};

static const struct rule {
	const char *section;
	enum subsection subsection;
	const char *key; /* "*" for all */
	bool (*fits)(const char *value);
} rules[] = {
	{"core", SUB_NONE, "repositoryformatversion", is_format_version},
	{"core", SUB_NONE, "filemode", is_setting},
	{"core", SUB_NONE, "bare", is_setting},
	{"core", SUB_NONE, "logallrefupdates", is_setting},
	{"core", SUB_NONE, "ignorecase", is_setting},
	{"core", SUB_NONE, "symlinks", is_setting},
	{"core", SUB_NONE, "precomposeunicode", is_setting},
	{"core", SUB_NONE, "autocrlf", is_setting},
	{"core", SUB_NONE, "safecrlf", is_setting},
	{"core", SUB_NONE, "eol", is_setting},
	{"core", SUB_NONE, "abbrev", is_setting},
	{"core", SUB_NONE, "quotepath", is_setting},
	{"core", SUB_NONE, "sparsecheckout", is_setting},
	{"core", SUB_NONE, "sparsecheckoutcone", is_setting},
	{"core", SUB_NONE, "untrackedcache", is_setting},
	{"core", SUB_NONE, "preloadindex", is_setting},
	{"core", SUB_NONE, "compression", is_text},
	{"core", SUB_NONE, "bigfilethreshold", is_setting},
	{"core", SUB_NONE, "protecthfs", is_true},
	{"core", SUB_NONE, "protectntfs", is_true},
	{"core", SUB_NONE, "fsmonitor", is_no_monitor},
	{"extensions", SUB_NONE, "objectformat", is_object_format},
	{"extensions", SUB_NONE, "worktreeconfig", is_false},
	{"extensions", SUB_NONE, "partialclone", is_argument},
	{"user", SUB_NONE, "name", is_text},
	{"user", SUB_NONE, "email", is_text},
	{"author", SUB_NONE, "name", is_text},
	{"author", SUB_NONE, "email", is_text},
	{"committer", SUB_NONE, "name", is_text},
	{"committer", SUB_NONE, "email", is_text},
	{"init", SUB_NONE, "defaultbranch", is_argument},
	/* branch.NAME.remote may be a URL as well */
	{"branch", SUB_NEEDED, "remote", is_url},
	{"branch", SUB_NEEDED, "pushremote", is_url},
	{"branch", SUB_NEEDED, "merge", is_argument},
	{"branch", SUB_NEEDED, "rebase", is_setting},
	{"branch", SUB_NEEDED, "description", is_prose},
	{"remote", SUB_NEEDED, "url", is_url},
	{"remote", SUB_NEEDED, "pushurl", is_url},
	{"remote", SUB_NEEDED, "fetch", is_argument},
	{"remote", SUB_NEEDED, "push", is_argument},
	{"remote", SUB_NEEDED, "tagopt", is_tag_option},
	{"remote", SUB_NEEDED, "prune", is_setting},
	{"remote", SUB_NEEDED, "mirror", is_setting},
	{"remote", SUB_NEEDED, "promisor", is_setting},
	{"remote", SUB_NEEDED, "partialclonefilter", is_argument},
	{"remote", SUB_NEEDED, "skipdefaultupdate", is_setting},
	{"submodule", SUB_NEEDED, "url", is_url},
	{"submodule", SUB_NEEDED, "active", is_setting},
	{"submodule", SUB_NEEDED, "branch", is_argument},
	{"submodule", SUB_NEEDED, "path", is_argument},
	{"submodule", SUB_NEEDED, "fetchrecursesubmodules", is_setting},
	{"submodule", SUB_NEEDED, "ignore", is_setting},
	{"submodule", SUB_NEEDED, "update", is_update},
	{"submodule", SUB_NONE, "active", is_argument},
	{"pull", SUB_NONE, "rebase", is_setting},
	{"pull", SUB_NONE, "ff", is_setting},
	{"push", SUB_NONE, "default", is_setting},
	{"push", SUB_NONE, "autosetupremote", is_setting},
	{"push", SUB_NONE, "followtags", is_setting},
	{"fetch", SUB_NONE, "prune", is_setting},
	{"fetch", SUB_NONE, "parallel", is_setting},
	{"merge", SUB_NONE, "ff", is_setting},
	{"merge", SUB_NONE, "conflictstyle", is_setting},
	{"merge", SUB_NONE, "renames", is_setting},
	{"rebase", SUB_NONE, "autostash", is_setting},
	{"rebase", SUB_NONE, "autosquash", is_setting},
	{"rerere", SUB_NONE, "enabled", is_setting},
	{"color", SUB_ANY, "*", is_text},
	{"column", SUB_NONE, "ui", is_setting},
	{"gc", SUB_NONE, "auto", is_setting},
	{"gc", SUB_NONE, "autodetach", is_setting},
	{"gc", SUB_NONE, "autopacklimit", is_setting},
	{"gc", SUB_NONE, "pruneexpire", is_setting},
	{"gc", SUB_NONE, "worktreepruneexpire", is_setting},
	{"gc", SUB_NONE, "reflogexpire", is_setting},
	{"gc", SUB_NONE, "reflogexpireunreachable", is_setting},
	{"pack", SUB_NONE, "threads", is_setting},
	{"pack", SUB_NONE, "windowmemory", is_setting},
	{"pack", SUB_NONE, "window", is_setting},
	{"pack", SUB_NONE, "depth", is_setting},
	{"pack", SUB_NONE, "packsizelimit", is_setting},
	{"index", SUB_NONE, "version", is_setting},
	{"feature", SUB_NONE, "manyfiles", is_setting},
	{"status", SUB_NONE, "*", is_setting},
	{"tag", SUB_NONE, "sort", is_text},
	{"tag", SUB_NONE, "gpgsign", is_false},
	{"commit", SUB_NONE, "gpgsign", is_false},
	{"advice", SUB_NONE, "*", is_setting},
	{"diff", SUB_NONE, "renames", is_setting},
	{"diff", SUB_NONE, "algorithm", is_setting},
	{"diff", SUB_NONE, "mnemonicprefix", is_setting},
	{"diff", SUB_NONE, "noprefix", is_setting},
	{"diff", SUB_NONE, "colormoved", is_setting},
	{"log", SUB_NONE, "date", is_text},
	{"log", SUB_NONE, "decorate", is_setting},
	{"i18n", SUB_NONE, "*", is_setting},
	{"lfs", SUB_NONE, "repositoryformatversion", is_setting},
	{"http", SUB_NONE, "postbuffer", is_setting},
};

/* A subsection is a name of a branch, a remote or a submodule: git makes arguments of them (`git
 * fetch
 * --all`) and paths. */
static bool is_harmless_subsection(const char *name)
{
	if (!is_argument(name))
		return false;
	for (;;) {
		size_t size = strcspn(name, "/\\");

		if (size == 2 && strncmp(name, "..", 2) == 0)
			return false;
		name += size;
		if (!*name)
			return true;
		name++;
	}
}

static bool is_on_list(const struct git_config_entry *entry, unsigned worktree_up)
{
	const char *value = entry->has_value ? entry->value : NULL;

	if (entry->has_subsection && !is_harmless_subsection(entry->subsection))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		const struct rule *rule = &rules[i];

		if (!streq(rule->section, entry->section) ||
		    !(streq(rule->key, entry->key) || streq(rule->key, "*")))
			continue;
		if (rule->subsection != SUB_ANY &&
		    (rule->subsection == SUB_NEEDED) != entry->has_subsection)
			continue;
		return rule->fits(value);
	}
	return streq(entry->section, "core") && !entry->has_subsection &&
	       streq(entry->key, "worktree") && is_way_to_worktree(value, worktree_up);
}

static bool is_equal(const struct git_config_entry *a, const struct git_config_entry *b)
{
	return streq(a->section, b->section) && a->has_subsection == b->has_subsection &&
	       streq(a->subsection, b->subsection) && streq(a->key, b->key) &&
	       a->has_value == b->has_value && streq(a->value, b->value);
}

/* Read anew for each entry that is not on the list, since there is nowhere to keep them. What
 * stands behind a line that is not understood counts as absent. */
static bool is_in_old(const struct git_config_entry *entry, const char *old, size_t size)
{
	struct git_config_reader reader = {.at = old, .end = old + size, .line = 1};
	struct git_config_entry before;

	while (git_config_read(&reader, &before) > 0)
		if (is_equal(entry, &before))
			return true;
	return false;
}

const char *git_config_vet(const char *text, size_t size, const char *old, size_t old_size,
			   unsigned worktree_up, char ret_key[128])
{
	struct git_config_reader reader = {.at = text, .end = text + size, .line = 1};
	struct git_config_entry entry;
	int got;

	if (size > GIT_CONFIG_MAX) {
		snprintf(ret_key, 128, "size of %zu bytes", size);
		return ret_key;
	}
	while ((got = git_config_read(&reader, &entry)) > 0) {
		if (is_on_list(&entry, worktree_up))
			continue;
		if (old && old_size <= GIT_CONFIG_MAX && is_in_old(&entry, old, old_size))
			continue;
		snprintf(ret_key, 128, "%s.%s", entry.section, entry.key);
		return ret_key;
	}
	if (got < 0) {
		snprintf(ret_key, 128, "line %u", reader.started);
		return ret_key;
	}
	return NULL;
}
