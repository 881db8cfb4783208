/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/git-config-rules.h"

#include "base/scope.h"
#include "base/str.h"
#include "spec/git.h"

#include <strings.h>

/*
 * Which entries of a git config are harmless
 *
 * The value is NULL for a key without one. An entry is harmless if git, whatever a person does with
 * it, starts no program, reads no other config and contacts nobody because of it; and if it does
 * not hide files from `git status`. Entries that no line names are refused: git gets new keys with
 * every release. git-config.c calls git_config_classify() for each entry.
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

/* Whatever is not in the index shows up in `git status`. */
static bool is_shown(const char *value)
{
	static const char *const words[] = {"normal", "all", "true", "yes", "on", "1", NULL};

	return !value || is_one_of(value, words);
}

/* No branch but the current one is pushed, and under its own name. */
static bool is_narrow_push(const char *value)
{
	static const char *const words[] = {"nothing", "simple", "current", NULL};

	return is_one_of(value, words);
}

/* Every other name loads a module of iconv's, which have had holes (CVE-2024-2961). */
static bool is_utf8(const char *value)
{
	static const char *const words[] = {"utf-8", "utf8", NULL};

	return is_one_of(value, words);
}

static bool is_ref(const char *value)
{
	return is_text(value) && starts_with(value, "refs/");
}

enum subsection {
	SUB_NONE,
	SUB_NEEDED,
	SUB_ANY,
};

/* A reason for each line is in doc/threat-model.md, "Lists of harmless things". */
static const struct rule {
	const char *section;
	enum subsection subsection;
	const char *key; /* "*" for all */
	bool (*fits)(const char *value);
	enum git_config_class class;
} rules[] = {
	{"core", SUB_NONE, "repositoryformatversion", is_format_version, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "filemode", is_setting, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "bare", is_setting, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "logallrefupdates", is_setting, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "ignorecase", is_setting, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "symlinks", is_setting, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "precomposeunicode", is_setting, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "autocrlf", is_setting, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "safecrlf", is_setting, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "eol", is_setting, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "abbrev", is_setting, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "quotepath", is_true, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "sparsecheckout", is_setting, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "sparsecheckoutcone", is_setting, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "untrackedcache", is_setting, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "preloadindex", is_setting, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "compression", is_text, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "bigfilethreshold", is_setting, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "protecthfs", is_true, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "protectntfs", is_true, GIT_CONFIG_PLAIN},
	{"core", SUB_NONE, "fsmonitor", is_no_monitor, GIT_CONFIG_PLAIN},
	{"extensions", SUB_NONE, "objectformat", is_object_format, GIT_CONFIG_PLAIN},
	{"user", SUB_NONE, "name", is_text, GIT_CONFIG_PLAIN},
	{"user", SUB_NONE, "email", is_text, GIT_CONFIG_PLAIN},
	{"author", SUB_NONE, "name", is_text, GIT_CONFIG_PLAIN},
	{"author", SUB_NONE, "email", is_text, GIT_CONFIG_PLAIN},
	{"committer", SUB_NONE, "name", is_text, GIT_CONFIG_PLAIN},
	{"committer", SUB_NONE, "email", is_text, GIT_CONFIG_PLAIN},
	{"init", SUB_NONE, "defaultbranch", is_argument, GIT_CONFIG_PLAIN},
	{"branch", SUB_NEEDED, "remote", git_is_url, GIT_CONFIG_TALKS},
	{"branch", SUB_NEEDED, "merge", is_ref, GIT_CONFIG_TALKS},
	{"branch", SUB_NEEDED, "rebase", is_setting, GIT_CONFIG_PLAIN},
	{"branch", SUB_NEEDED, "description", is_prose, GIT_CONFIG_PLAIN},
	{"remote", SUB_NEEDED, "url", git_is_url, GIT_CONFIG_TALKS},
	{"remote", SUB_NEEDED, "fetch", is_argument, GIT_CONFIG_TALKS},
	{"remote", SUB_NEEDED, "tagopt", is_tag_option, GIT_CONFIG_TALKS},
	{"remote", SUB_NEEDED, "prune", is_setting, GIT_CONFIG_TALKS},
	{"remote", SUB_NEEDED, "mirror", is_setting, GIT_CONFIG_TALKS},
	{"remote", SUB_NEEDED, "skipdefaultupdate", is_setting, GIT_CONFIG_TALKS},
	{"submodule", SUB_NEEDED, "url", git_is_url, GIT_CONFIG_TALKS},
	{"submodule", SUB_NEEDED, "active", is_setting, GIT_CONFIG_PLAIN},
	{"submodule", SUB_NEEDED, "branch", is_argument, GIT_CONFIG_PLAIN},
	{"submodule", SUB_NEEDED, "path", is_argument, GIT_CONFIG_PLAIN},
	{"submodule", SUB_NEEDED, "update", is_update, GIT_CONFIG_PLAIN},
	{"submodule", SUB_NONE, "active", is_argument, GIT_CONFIG_PLAIN},
	{"pull", SUB_NONE, "rebase", is_setting, GIT_CONFIG_PLAIN},
	{"pull", SUB_NONE, "ff", is_setting, GIT_CONFIG_PLAIN},
	{"push", SUB_NONE, "default", is_narrow_push, GIT_CONFIG_PLAIN},
	{"push", SUB_NONE, "autosetupremote", is_setting, GIT_CONFIG_PLAIN},
	{"fetch", SUB_NONE, "prune", is_setting, GIT_CONFIG_PLAIN},
	{"fetch", SUB_NONE, "parallel", is_setting, GIT_CONFIG_PLAIN},
	{"merge", SUB_NONE, "ff", is_setting, GIT_CONFIG_PLAIN},
	{"merge", SUB_NONE, "conflictstyle", is_setting, GIT_CONFIG_PLAIN},
	{"merge", SUB_NONE, "renames", is_setting, GIT_CONFIG_PLAIN},
	{"rebase", SUB_NONE, "autostash", is_setting, GIT_CONFIG_PLAIN},
	{"rebase", SUB_NONE, "autosquash", is_setting, GIT_CONFIG_PLAIN},
	{"rerere", SUB_NONE, "enabled", is_setting, GIT_CONFIG_PLAIN},
	{"color", SUB_ANY, "*", is_text, GIT_CONFIG_PLAIN},
	{"column", SUB_NONE, "ui", is_setting, GIT_CONFIG_PLAIN},
	{"gc", SUB_NONE, "auto", is_setting, GIT_CONFIG_PLAIN},
	{"gc", SUB_NONE, "autodetach", is_setting, GIT_CONFIG_PLAIN},
	{"gc", SUB_NONE, "autopacklimit", is_setting, GIT_CONFIG_PLAIN},
	{"pack", SUB_NONE, "threads", is_setting, GIT_CONFIG_PLAIN},
	{"pack", SUB_NONE, "windowmemory", is_setting, GIT_CONFIG_PLAIN},
	{"pack", SUB_NONE, "window", is_setting, GIT_CONFIG_PLAIN},
	{"pack", SUB_NONE, "depth", is_setting, GIT_CONFIG_PLAIN},
	{"pack", SUB_NONE, "packsizelimit", is_setting, GIT_CONFIG_PLAIN},
	{"index", SUB_NONE, "version", is_setting, GIT_CONFIG_PLAIN},
	{"feature", SUB_NONE, "manyfiles", is_setting, GIT_CONFIG_PLAIN},
	{"status", SUB_NONE, "relativepaths", is_setting, GIT_CONFIG_PLAIN},
	{"status", SUB_NONE, "short", is_setting, GIT_CONFIG_PLAIN},
	{"status", SUB_NONE, "branch", is_setting, GIT_CONFIG_PLAIN},
	{"status", SUB_NONE, "aheadbehind", is_setting, GIT_CONFIG_PLAIN},
	{"status", SUB_NONE, "displaycommentprefix", is_setting, GIT_CONFIG_PLAIN},
	{"status", SUB_NONE, "renames", is_setting, GIT_CONFIG_PLAIN},
	{"status", SUB_NONE, "renamelimit", is_setting, GIT_CONFIG_PLAIN},
	{"status", SUB_NONE, "showstash", is_setting, GIT_CONFIG_PLAIN},
	{"status", SUB_NONE, "showuntrackedfiles", is_shown, GIT_CONFIG_PLAIN},
	{"tag", SUB_NONE, "sort", is_text, GIT_CONFIG_PLAIN},
	{"advice", SUB_NONE, "*", is_setting, GIT_CONFIG_PLAIN},
	{"diff", SUB_NONE, "renames", is_setting, GIT_CONFIG_PLAIN},
	{"diff", SUB_NONE, "algorithm", is_setting, GIT_CONFIG_PLAIN},
	{"diff", SUB_NONE, "mnemonicprefix", is_setting, GIT_CONFIG_PLAIN},
	{"diff", SUB_NONE, "noprefix", is_setting, GIT_CONFIG_PLAIN},
	{"diff", SUB_NONE, "colormoved", is_setting, GIT_CONFIG_PLAIN},
	{"log", SUB_NONE, "date", is_text, GIT_CONFIG_PLAIN},
	{"log", SUB_NONE, "decorate", is_setting, GIT_CONFIG_PLAIN},
	{"i18n", SUB_NONE, "commitencoding", is_utf8, GIT_CONFIG_PLAIN},
	{"i18n", SUB_NONE, "logoutputencoding", is_utf8, GIT_CONFIG_PLAIN},
	{"lfs", SUB_NONE, "repositoryformatversion", is_setting, GIT_CONFIG_PLAIN},
	{"http", SUB_NONE, "postbuffer", is_setting, GIT_CONFIG_PLAIN},
};

/* A subsection is a name of a branch, a remote or a submodule: git makes arguments of them (`git
 * fetch --all`) and paths. */
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

enum git_config_class git_config_classify(const struct git_config_entry *entry,
					  const struct git_vet *how)
{
	const char *value = entry->has_value ? entry->value : NULL;

	if (entry->has_subsection && !is_harmless_subsection(entry->subsection))
		return GIT_CONFIG_OTHER;
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		const struct rule *rule = &rules[i];

		if (!streq(rule->section, entry->section) ||
		    !(streq(rule->key, entry->key) || streq(rule->key, "*")))
			continue;
		if (rule->subsection != SUB_ANY &&
		    (rule->subsection == SUB_NEEDED) != entry->has_subsection)
			continue;
		return rule->fits(value) ? rule->class : GIT_CONFIG_OTHER;
	}
	return streq(entry->section, "core") && !entry->has_subsection &&
			       streq(entry->key, "worktree") && value && how->dir &&
			       git_is_way_to_worktree(value, how->dir, how->root)
		       ? GIT_CONFIG_PLAIN
		       : GIT_CONFIG_OTHER;
}
