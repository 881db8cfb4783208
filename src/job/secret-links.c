/* SPDX-License-Identifier: Apache-2.0 */
#include "job/secret-links.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "spec/spec.h"

#include <linux/openat2.h>
#include <stdlib.h>

/*
 * Secrets of the home that lie elsewhere
 *
 * The defaults hide ~/.ssh, ~/.aws, ~/.netrc and others by their names. Where such a name is a link
 * (~/.ssh -> dotfiles/ssh), or a directory above is one, the secret has another path, and a grant
 * of
 * ~/dotfiles or a workspace there would show it. So its real path is hidden as well, unless
 * somebody grants that very path.
 */

/* One system call for each name. */
static bool has_link(const char *path)
{
	cleanup_fd int fd = fd_openat2(AT_FDCWD, path, O_PATH, 0, RESOLVE_NO_SYMLINKS);

	return fd == -ELOOP;
}

/* A line about this place, whoever wrote it; or the place where somebody works. */
static bool is_named(const struct spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->n_rules; i++)
		if (spec->rules[i].access != SPEC_PROTECT && streq(spec->rules[i].path, path))
			return true;
	return path_is_within(spec->workspace, path) || path_is_within(spec->home, path);
}

static bool is_shown(const struct spec *spec, const char *path)
{
	const struct spec_rule *rule = spec_rule_for(spec, path);

	return rule && (rule->access == SPEC_READ || rule->access == SPEC_WRITE);
}

int secret_links_hide(struct spec *spec, struct atoll_error *err)
{
	const size_t n_rules = spec->n_rules; /* the list grows */
	int r = 0;

	for (size_t i = 0; i < n_rules && r == 0; i++) {
		const struct spec_rule *rule = &spec->rules[i];
		char real[PATH_MAX];
		struct spec_rule hide = {.access = SPEC_HIDE,
					 .is_optional = true,
					 .path = real,
					 .origin = (char *)SPEC_ORIGIN_DEFAULT};

		if (rule->access != SPEC_HIDE || rule->is_pattern ||
		    !streq(rule->origin, SPEC_ORIGIN_DEFAULT) ||
		    !path_is_within(rule->path, spec->home) || !has_link(rule->path) ||
		    !realpath(rule->path, real) || is_named(spec, real) || !is_shown(spec, real))
			continue;
		r = spec_append_rule(spec, &hide, err);
	}
	return r;
}
