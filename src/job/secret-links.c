/* SPDX-License-Identifier: Apache-2.0 */
#include "job/secret-links.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "spec/spec.h"

#include <dirent.h>
#include <linux/openat2.h>
#include <stdlib.h>

/*
 * Secrets of the home that lie elsewhere
 *
 * The defaults hide ~/.ssh, ~/.aws, ~/.netrc and others by their names. Where such a name is a link
 * (~/.ssh -> dotfiles/ssh), or a directory above is one, the secret has another path, and a grant
 * of
 * ~/dotfiles or a workspace there would show it. job.c calls this when a contract is finished: the
 * real path is hidden as well, unless a line names that very path. The home is listed once, because
 * most of the fifty names do not exist.
 */

#define NAMES_MAX (4 << 20)

/* The names in a directory, each ended by a NUL. */
static int list_names(const char *path, struct buf *names)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		buf_add(names, entry->d_name, strlen(entry->d_name) + 1);
	closedir(dir);
	return buf_error(names);
}

/* Is the first component of `path` among the names? */
static bool has_first(const struct buf *names, const char *path)
{
	size_t length = strcspn(path, "/");

	for (size_t at = 0; at < names->used; at += strlen(names->data + at) + 1)
		if (strncmp(names->data + at, path, length) == 0 && !names->data[at + length])
			return true;
	return false;
}

/* One system call for each name. */
static bool has_link(const char *path)
{
	cleanup_fd int fd = fd_openat2(AT_FDCWD, path, O_PATH, 0, RESOLVE_NO_SYMLINKS);

	return fd == -ELOOP;
}

/* A line about this very place; or a place that contains the workspace or the home. */
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
	cleanup_buf struct buf names = BUF_INIT(NAMES_MAX);
	const size_t n_rules = spec->n_rules; /* the list grows */
	const size_t home = strlen(spec->home);
	/* A home behind a link, or one that cannot be listed: look at every name. */
	const bool looks_at_all = has_link(spec->home) || list_names(spec->home, &names) < 0;
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
		    !path_is_within(rule->path, spec->home) || strlen(rule->path) <= home ||
		    !(looks_at_all || has_first(&names, rule->path + home + 1)) ||
		    !has_link(rule->path) || !realpath(rule->path, real) || is_named(spec, real) ||
		    !is_shown(spec, real))
			continue;
		r = spec_append_rule(spec, &hide, err);
	}
	return r;
}
