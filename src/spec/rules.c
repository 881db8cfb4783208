/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules say about a path. */
#include "base/path.h"
#include "spec/names.h"
#include "spec/spec-inner.h"

const char *spec_access_word(enum spec_access access)
{
	static const char *const words[] = {
		[SPEC_READ] = "read",
		[SPEC_WRITE] = "write",
		[SPEC_HIDE] = "hide",
		[SPEC_PROTECT] = "protect",
	};

	return words[access];
}

/* How many components of `path` the rule speaks about, plus one; 0 if it is silent. The root's
 * own rule ("/") counts 1, so that it is not silence. */
static size_t specificity(const struct spec_rule *rule, const char *path)
{
	size_t depth;

	if (!rule->is_pattern)
		return path_is_within(path, rule->path) ? path_depth(rule->path) + 1 : 0;
	depth = place_match_depth(rule->path, path);
	return depth ? depth + 1 : 0;
}

/* At a tie: hide > read > write. */
static int tie_rank(enum spec_access access)
{
	switch (access) {
	case SPEC_HIDE:
		return 2;
	case SPEC_READ:
		return 1;
	default:
		return 0;
	}
}

const struct spec_rule *spec_rule_for(const struct spec *spec, const char *path)
{
	const struct spec_rule *best = NULL;
	size_t best_depth = 0;

	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];
		size_t depth;

		if (rule->access == SPEC_PROTECT)
			continue;
		depth = specificity(rule, path);
		if (depth == 0 || depth < best_depth)
			continue;
		if (depth == best_depth) {
			if (rule->is_pattern && !best->is_pattern)
				continue;
			if (rule->is_pattern == best->is_pattern &&
			    tie_rank(rule->access) <= tie_rank(best->access))
				continue;
		}
		best = rule;
		best_depth = depth;
	}
	return best;
}

const char *spec_is_protected(const struct spec *spec, const char *path)
{
	const struct spec_rule *root;

	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if (rule->access == SPEC_PROTECT && specificity(rule, path))
			return rule->reason;
	}
	/* Whoever names a trusted place as a writable root of its own means it: the names are
	 * looked for beneath the innermost root only. */
	root = spec_rule_for(spec, path);
	if (!root || root->access != SPEC_WRITE)
		return NULL;
	return names_refuse(root->path, path, NAMES_WRITE);
}
