/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/event-rules-shared.h"

bool rules_is_among(const char *word, const char *const *list)
{
	/* Most words differ in the first letter: skip the call of streq(). */
	for (; *list; list++)
		if (**list == *word && streq(word, *list))
			return true;
	return false;
}

/* FNV-1a. A collision makes one flag too many, which is harmless. */
uint64_t rules_hash(const char *text, size_t size)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
	return hash | 1;
}

const struct recent *rules_neighbour(const struct rules *rules, const struct line *line,
				     unsigned what)
{
	size_t n = rules->n_recents < 6 ? rules->n_recents : 6;

	for (size_t i = 1; i <= n; i++) {
		const struct recent *recent = &rules->recents[(rules->n_recents - i) % RECENT_MAX];

		if ((recent->what & what) && recent->pid != line->pid &&
		    recent->parent == line->parent && line->seq - recent->seq < 12)
			return recent;
	}
	return NULL;
}

bool rules_is_shell(const char *base)
{
	static const char *const shells[] = {"sh",  "bash", "dash", "zsh",  "ksh",
					     "ash", "mksh", "fish", "yash", NULL};

	return rules_is_among(base, shells);
}

bool rules_is_interpreter(const char *base)
{
	static const char *const others[] = {"perl", "ruby", "node", "nodejs", "php",
					     "deno", "bun",  "lua",  NULL};

	return rules_is_shell(base) || starts_with(base, "python") || rules_is_among(base, others);
}

bool rules_is_fetcher(const char *base)
{
	static const char *const names[] = {"curl",  "wget",	     "wget2", "aria2c",
					    "fetch", "http",	     "https", "xh",
					    "axel",  "lwp-download", NULL};

	return rules_is_among(base, names);
}
