/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/str.h"
#include "spec/git-config-rules.h"
#include "spec/git.h"

#include <stdio.h>

/*
 * Is a new git config harmless, compared with the one that it replaces?
 *
 * Harmless entries (git-config-rules.c) may come, change and go. Every other entry of the old text
 * must stand in the new one, in the same order, and no other may be added. So a run can neither
 * plant a program or a remote, nor take away a `pushurl` or a `protocol` line that keeps the host's
 * git from talking. Three kinds of entry are excepted, because daily work needs them:
 *   branch.NAME.remote, .merge   of a branch that had none: the remote that git takes by itself
 *   submodule.NAME.url           of a submodule that had none: `.gitmodules` names it as well
 *   everything that talks        in a repository that the run itself has made (git_vet.is_new)
 */

static struct git_config_reader read_from(const char *text, size_t size)
{
	return (struct git_config_reader){.at = text, .end = text + size, .line = 1};
}

static struct git_config_reader read_old(const struct git_vet *how)
{
	return read_from(how->old ? how->old : "", how->old ? how->old_size : 0);
}

static bool is_entry(const struct git_config_entry *entry, const char *section, const char *key)
{
	return streq(entry->section, section) && streq(entry->key, key);
}

static bool is_same_key(const struct git_config_entry *a, const struct git_config_entry *b)
{
	return is_entry(a, b->section, b->key) && a->has_subsection == b->has_subsection &&
	       streq(a->subsection, b->subsection);
}

static bool is_equal(const struct git_config_entry *a, const struct git_config_entry *b)
{
	return is_same_key(a, b) && a->has_value == b->has_value && streq(a->value, b->value);
}

static bool is_in_old(const struct git_config_entry *entry, const struct git_vet *how,
		      bool (*is_alike)(const struct git_config_entry *,
				       const struct git_config_entry *))
{
	struct git_config_reader reader = read_old(how);
	struct git_config_entry before;

	while (git_config_read(&reader, &before) > 0)
		if (is_alike(entry, &before))
			return true;
	return false;
}

/* The remote that git takes for a branch without one: the only one there is, or "origin". "." is
 * this repository. */
static bool is_default_remote(const char *value, const struct git_vet *how)
{
	struct git_config_reader reader = read_old(how);
	struct git_config_entry entry;
	bool is_there = false, is_only = true;

	if (streq(value, "."))
		return true;
	while (git_config_read(&reader, &entry) > 0) {
		if (!is_entry(&entry, "remote", "url"))
			continue;
		if (streq(entry.subsection, value))
			is_there = true;
		else
			is_only = false;
	}
	return is_there && (is_only || streq(value, "origin"));
}

static bool is_plain_name(const char *value)
{
	return *value && !strpbrk(value, ":/\\");
}

/* May this entry, which talks, be in a repository that the run has made? */
static bool may_be_new(const struct git_config_entry *entry, const struct git_vet *how)
{
	if (streq(entry->key, "url"))
		return git_may_talk(entry->value, how);
	if (is_entry(entry, "branch", "remote"))
		return streq(entry->value, ".") || is_plain_name(entry->value) ||
		       git_may_talk(entry->value, how);
	return true;
}

/* May this entry, which talks, be added to a repository of the host's? */
static bool may_be_added(const struct git_config_entry *entry, const struct git_vet *how)
{
	if (is_in_old(entry, how, is_same_key))
		return false;
	if (is_entry(entry, "branch", "remote"))
		return is_default_remote(entry->value, how);
	if (is_entry(entry, "branch", "merge"))
		return true;
	return is_entry(entry, "submodule", "url") && git_may_talk(entry->value, how);
}

/* May this entry of the old text be missing in the new one? */
static bool may_go(const struct git_config_entry *entry, const struct git_vet *how)
{
	if (how->is_new || git_config_classify(entry, how) == GIT_CONFIG_PLAIN)
		return true;
	if (is_entry(entry, "branch", "remote"))
		return is_default_remote(entry->value, how);
	return is_entry(entry, "branch", "merge") || is_entry(entry, "submodule", "url");
}

static const char *name_key(const struct git_config_entry *entry, char ret_key[128])
{
	snprintf(ret_key, 128, "%s.%s", entry->section, entry->key);
	return ret_key;
}

/* Go on in the old text to `entry`, or to the end for NULL. Returns the key of what was skipped and
 * may not be missing. Behind a line that is not understood there may be anything. */
static const char *skip_to(struct git_config_reader *old, struct git_config_entry *before,
			   const struct git_config_entry *entry, const struct git_vet *how,
			   char ret_key[128])
{
	int got;

	while ((got = git_config_read(old, before)) > 0) {
		if (entry && is_equal(entry, before))
			return NULL;
		if (!may_go(before, how))
			return name_key(before, ret_key);
	}
	if (got < 0 && !how->is_new) {
		snprintf(ret_key, 128, "line %u of the present config", old->started);
		return ret_key;
	}
	return entry ? name_key(entry, ret_key) : NULL;
}

/* In a repository that the run has made the format may change; the caller sees to it that there is
 * no index. */
static bool keeps_format(const char *text, size_t size, const struct git_vet *how)
{
	if (how->is_new)
		return git_config_hash_size(text, size) != 0;
	return git_config_keeps_format(text, size, how->old ? how->old : "", how->old_size);
}

const char *git_config_vet(const char *text, size_t size, const struct git_vet *how,
			   char ret_key[128])
{
	struct git_config_reader reader = read_from(text, size), old = read_old(how);
	struct git_config_entry entry, before;
	int got;

	if (size > GIT_CONFIG_MAX || (how->old && how->old_size > GIT_CONFIG_MAX)) {
		snprintf(ret_key, 128, "size of %zu bytes",
			 size > GIT_CONFIG_MAX ? size : how->old_size);
		return ret_key;
	}
	while ((got = git_config_read(&reader, &entry)) > 0) {
		enum git_config_class class = git_config_classify(&entry, how);

		if (class == GIT_CONFIG_PLAIN)
			continue;
		if (class == GIT_CONFIG_TALKS &&
		    (how->is_new ? may_be_new(&entry, how) : may_be_added(&entry, how)))
			continue;
		if (!is_in_old(&entry, how, is_equal))
			return name_key(&entry, ret_key);
		if (skip_to(&old, &before, &entry, how, ret_key))
			return ret_key;
	}
	if (got < 0) {
		snprintf(ret_key, 128, "line %u", reader.started);
		return ret_key;
	}
	if (!keeps_format(text, size, how)) {
		snprintf(ret_key, 128, "extensions.objectformat");
		return ret_key;
	}
	return skip_to(&old, &before, NULL, how, ret_key);
}

bool git_config_key_talks(const char *key)
{
	static const char *const starts[] = {
		"remote.",	 "branch.",	    "submodule.",
		"url.",		 "http.",	    "https.",
		"credential.",	 "protocol.",	    "extensions.partial",
		"core.gitproxy", "push.",	    "fetch.",
		"transfer.",	 "core.sshcommand",
	};

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (starts_with(key, starts[i]))
			return true;
	return false;
}
