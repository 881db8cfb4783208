/* SPDX-License-Identifier: Apache-2.0 */
/* A config is written by whom we do not trust: whatever the bytes, there is a verdict, a text
 * passes if it is its own old one and understood, and what passed has no key that runs a program.
 */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct git_config_reader reader = {.at = text, .end = text + size, .line = 1};
	struct git_config_entry entry;
	char key[128];
	const char *verdict;
	int got;

	verdict = git_config_vet(text, size, NULL, 0, size % 5, key);
	if (verdict && (verdict != key || !*key || !str_is_printable(key)))
		abort();
	while ((got = git_config_read(&reader, &entry)) > 0)
		if (!verdict)
			check_entry(&entry);
	if (!verdict && got < 0)
		abort();
	verdict = git_config_vet(text, size, text, size, 0, key);
	if ((verdict == NULL) != (got == 0 && size <= GIT_CONFIG_MAX))
		abort();
	/* and with something else before it */
	git_config_vet(text + size / 2, size - size / 2, text, size / 2, 3, key);
	return 0;
}
