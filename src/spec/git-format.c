/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "spec/git-config-read.h"
#include "spec/git.h"

#include <string.h>

/*
 * The format of a repository, as its config states it
 *
 * The length of hashes decides which paths an index has, so it must be the one that git takes:
 *   - without core.repositoryFormatVersion git ignores every extension, objectFormat included, and
 *     reads SHA-1
 *   - with version 0 and an objectFormat git refuses to work
 *   - with version 1 objectFormat counts
 * A config about which git's releases could disagree has no length, and is refused.
 */

enum {
	VERSION_NONE = -1,
	VERSION_UNCLEAR = -2, /* two different ones, or neither 0 nor 1 */
};

struct format {
	int version;
	unsigned hash_size; /* of extensions.objectFormat; 0: there is none */
	bool is_unclear;    /* two different ones, or an unknown one */
	bool has_extensions;
};

static void note_version(struct format *format, const struct git_config_entry *entry)
{
	int version = streq(entry->value, "0") ? 0 : streq(entry->value, "1") ? 1 : VERSION_UNCLEAR;

	if (format->version != VERSION_NONE && format->version != version)
		version = VERSION_UNCLEAR;
	format->version = version;
}

static void note_hash(struct format *format, const struct git_config_entry *entry)
{
	unsigned size = streq(entry->value, "sha256") ? 32 : 20;

	if ((size == 20 && !streq(entry->value, "sha1")) ||
	    (format->hash_size && format->hash_size != size))
		format->is_unclear = true;
	format->hash_size = size;
}

/* False if a line was not understood. */
static bool read_format(const char *text, size_t size, struct format *ret)
{
	static struct git_config_entry entry;
	struct git_config_reader reader = {.at = text, .end = text + size, .line = 1};
	int got;

	*ret = (struct format){.version = VERSION_NONE};
	memset(&entry, 0, sizeof entry);
	while ((got = git_config_read(&reader, &entry)) > 0) {
		bool is_extension = streq(entry.section, "extensions");

		reader.entries = 0; /* the bound is for whoever looks for each entry elsewhere */
		ret->has_extensions |= is_extension;
		if (entry.has_subsection)
			continue;
		if (streq(entry.section, "core") && streq(entry.key, "repositoryformatversion"))
			note_version(ret, &entry);
		else if (is_extension && streq(entry.key, "objectformat"))
			note_hash(ret, &entry);
	}
	return got == 0;
}

unsigned git_config_hash_size(const char *text, size_t size)
{
	struct format format;

	if (!read_format(text, size, &format) && memmem(text, size, "256", 3))
		return 0;
	if (format.is_unclear || (format.hash_size == 32 && format.version != 1))
		return 0;
	return format.hash_size ? format.hash_size : 20;
}

bool git_config_keeps_format(const char *text, size_t size, const char *old, size_t old_size)
{
	unsigned now = git_config_hash_size(text, size);
	struct format before, after;

	if (!now || now != git_config_hash_size(old, old_size))
		return false;
	read_format(old, old_size, &before);
	read_format(text, size, &after);
	return !before.has_extensions || before.version == after.version;
}
