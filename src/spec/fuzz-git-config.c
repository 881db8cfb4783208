/* SPDX-License-Identifier: Apache-2.0 */
/* A config is written by whom we do not trust: whatever the bytes, there is a verdict, a text
 * passes if it is its own old one and understood, and what passed has no key that runs a program.
 */
#include "base/path.h"
#include "base/str.h"
#include "spec/git-config-read.h"
#include "spec/git.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_entry(const struct git_config_entry *entry)
{
	static const char *const sections[] = {"include",    "includeif", "alias", "filter", "url",
					       "credential", "gpg",	  "",	   NULL};

	for (const char *const *section = sections; *section; section++)
		if (streq(entry->section, *section))
			abort();
	if (streq(entry->section, "core") && streq(entry->key, "fsmonitor") &&
	    !streq(entry->value, "false"))
		abort();
	if (streq(entry->key, "url") &&
	    (entry->value[0] == '-' || starts_with(entry->value, "ext:")))
		abort();
}

/* A pointer that passes leads to a plain place of the root. */
static void check_pointer(const char *text, size_t size)
{
	char path[PATH_MAX], plain[PATH_MAX];

	if (git_pointer_vet(text, size, "", "/w/a/b", "/w", path))
		return;
	strcpy(plain, path);
	path_normalize(plain);
	if (!streq(plain, path) || !path_is_within(path, "/w") || git_leads_to_store(path, NULL))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct git_config_reader reader = {.at = text, .end = text + size, .line = 1};
	struct git_config_entry entry;
	char key[128];
	const char *verdict;
	int got;

	check_pointer(text, size);
	verdict = git_config_vet(text, size,
				 &(struct git_vet){.dir = size % 3 ? "/w/.git/modules/x" : NULL,
						   .root = "/w",
						   .is_new = size % 2},
				 key);
	if (verdict && (verdict != key || !*key || !str_is_printable(key)))
		abort();
	while ((got = git_config_read(&reader, &entry)) > 0)
		if (!verdict)
			check_entry(&entry);
	if (!verdict && got < 0)
		abort();
	verdict = git_config_vet(text, size, &(struct git_vet){.old = text, .old_size = size}, key);
	if ((verdict == NULL) !=
	    (got == 0 && size <= GIT_CONFIG_MAX && git_config_hash_size(text, size)))
		abort();
	/* and with something else before it */
	git_config_vet(text + size / 2, size - size / 2,
		       &(struct git_vet){.old = text,
					 .old_size = size / 2,
					 .dir = "/w/.git/modules/x",
					 .root = "/w"},
		       key);
	return 0;
}
