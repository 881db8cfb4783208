/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "spec/spec.h"

#include <string.h>

/*
 * Could a name be hidden?
 *
 * Walking a tree for names that a pattern hides asks about each of them, and asking all lines about
 * a whole path takes microseconds. Whoever walks goes into no directory that is hidden; so a line
 * that hides a name in it ends with that name, or with a pattern for it. Names that no line ends
 * with are most, and are told by one look at a set of bits: which may say yes too often, never no.
 * The caller then asks spec_rule_for().
 *
 * Used by isolate/ns/hidden-keeper.c, after a clone, and layer.c: nothing is allocated.
 */

static unsigned name_bit(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return (hash ^ hash >> 12) % SPEC_HIDDEN_BITS;
}

void spec_hidden_prepare(const struct spec *spec, struct spec_hidden *ret)
{
	*ret = (struct spec_hidden){0};
	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];
		const char *slash = strrchr(rule->path, '/');
		const char *last = slash ? slash + 1 : rule->path;
		unsigned bit = name_bit(last);

		if (rule->access != SPEC_HIDE)
			continue;
		/* A pattern's last part may be a plain name, or a name with a star in it. */
		ret->bits[bit / 64] |= UINT64_C(1) << bit % 64;
		if (rule->is_pattern && strpbrk(last, "*?[\\")) {
			if (ret->n_globs == SPEC_HIDDEN_GLOBS || streq(last, "**"))
				ret->is_any = true;
			else
				ret->globs[ret->n_globs++] = last;
		}
	}
}

bool spec_hidden_may(const struct spec_hidden *hidden, const char *name)
{
	const unsigned bit = name_bit(name);

	if (hidden->is_any || hidden->bits[bit / 64] & UINT64_C(1) << bit % 64)
		return true;
	for (size_t i = 0; i < hidden->n_globs; i++) {
		if (str_glob(hidden->globs[i], name))
			return true;
	}
	return false;
}
