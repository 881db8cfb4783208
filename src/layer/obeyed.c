/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/obeyed.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/state.h"
#include "base/str.h"
#include "layer/finder.h"
#include "layer/obeyed-git.h"
#include "layer/obeyed-home.h"
#include "layer/user-config.h"
#include "spec/names.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/*
 * What the host obeys by indirection
 *
 * The guard and the marks know trusted files by their names. A name that the host itself has made a
 * link, or a setting of the host that names a file of the workspace, leads to files of any other
 * name. Three sources are read:
 *
 *   obeyed-git.c  git's settings of the system, of the user (also XDG), of the repository at each
 *                 writable root with its commondir, worktrees and submodules, and of repositories
 * above: core.hooksPath, include and includeIf, filters and other programs, hooks that are links
 *   obeyed.c      trusted names at the top of a writable root that are links, or hold links;
 *                 directories of programs (.venv/bin, node_modules/.bin) that a trusted file there
 *                 names; the user's own names in ~/.config/atoll/trusted-names
 *
 *   obeyed-home.c trusted names of the caller's home that are links; places that the caller's
 *                 environment names: PATH, XDG_CONFIG_HOME, BASH_ENV and their like
 *
 * Each result becomes a `protect` line: refused in a root that is written directly, marked in a
 * layer. job.c calls this when a contract is finished, before anything runs. marks.c calls it again
 * when a layer or an imported archive is read, because the host may have changed its settings
 * since, an older build may have made the layer, and an archive becomes a workspace without a run.
 *
 * Trusted names that are links deeper in the tree are not searched: that would walk the whole
 * workspace at each start.
 */

#define NAMES_FILE "trusted-names"
#define TEXT_MAX   (64 * 1024) /* of a trusted file that may name a directory of programs */

/* Directories of programs that are built as a matter of course: only a file that the host trusts
 * makes the host run what is in there. */
static int protect_named(struct finder *finder, const char *path, const char *root)
{
	static const char *const places[] = {".venv/bin", "venv/bin", "env/bin",
					     "node_modules/.bin"};
	cleanup_buf struct buf text = BUF_INIT(TEXT_MAX);
	int r = 0;

	if (!finder_read(path, &text))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(places) && r == 0; i++) {
		char place[PATH_MAX];

		if (strstr(text.data, places[i]) &&
		    snprintf(place, sizeof place, "%s/%s", root, places[i]) < PATH_MAX)
			r = finder_protect(finder, place);
	}
	return r;
}

static int look_inside(struct finder *finder, const char *path, const struct stat *st, void *data)
{
	int r = finder_protect_if_link(finder, path, st, NULL);

	return r == 0 && st && S_ISREG(st->st_mode) ? protect_named(finder, path, data) : r;
}

/* By the name alone: a workspace may have a million files. Names of atoll's own, such as the stage
 * of an apply, are refused to runs, but no program of the host obeys what lies there. */
static bool is_candidate(const char *path, const void *data)
{
	if (starts_with(path_name(path), ".atoll-"))
		return false;
	return names_refuse(data, path, NAMES_WRITE) || names_is_container(path_name(path));
}

static int look_at(struct finder *finder, const char *path, const struct stat *st, void *data);

struct container {
	struct finder *finder;
	const char *path;
};

static int protect_in_container(const char *behind, void *data)
{
	const struct container *container = data;
	char place[PATH_MAX];

	if (snprintf(place, sizeof place, "%s/%s", container->path, behind) >= PATH_MAX)
		return 0;
	return finder_protect_link(container->finder, place);
}

/* The first half of trusted names "a/b". A link there, or in a part of it, makes all of these names
 * mean another place, also those that do not exist yet. */
static int look_in_container(struct finder *finder, const char *path, const struct stat *st,
			     void *data)
{
	struct container container = {finder, path};
	int r;

	if (!names_is_container(path_name(path)))
		return 0;
	r = names_for_each_in(path_name(path), protect_in_container, &container);
	return r == 0 && S_ISDIR(st->st_mode)
		       ? finder_for_each(finder, path, is_candidate, look_at, data)
		       : r;
}

/* An entry of a writable root, or of the first half of a trusted "a/b" there. */
static int look_at(struct finder *finder, const char *path, const struct stat *st, void *data)
{
	const char *root = data;

	if (!st)
		return 0;
	if (!names_refuse(root, path, NAMES_WRITE))
		return look_in_container(finder, path, st, data);
	if (S_ISDIR(st->st_mode))
		return finder_for_each(finder, path, NULL, look_inside, data);
	return look_inside(finder, path, st, data);
}

static int find_names(struct finder *finder)
{
	const struct spec *spec = finder->spec;
	size_t n_rules = spec->n_rules;
	int r = 0;

	for (size_t i = 0; i < n_rules && r == 0; i++) {
		cleanup_free char *root = NULL;

		if (spec->rules[i].access != SPEC_WRITE || spec->rules[i].is_pattern)
			continue;
		root = strdup(spec->rules[i].path); /* the list grows meanwhile */
		if (!root)
			return error_oom(finder->err);
		r = finder_for_each(finder, root, is_candidate, look_at, root);
	}
	return r;
}

/* A name that somebody added: as in the table of names, but for case, and "*" anywhere. */
static int protect_name(struct finder *finder, const char *name)
{
	if (name[0] == '/' || strstr(name, "..") || strlen(name) > NAME_MAX)
		return error_set(finder->err, ATOLL_FAULT_REQUEST, 0,
				 "~/.config/atoll/" NAMES_FILE
				 ": '%s' is no name; write a name, or "
				 "'a/b' for b in a, one on each line",
				 name);
	return finder_protect_anywhere(finder, NULL, name, NAMES_FILE,
				       "names of ~/.config/atoll/" NAMES_FILE);
}

/* Each line has a name, then perhaps words about it; "#" begins a remark. */
static int find_users_names(struct finder *finder)
{
	cleanup_buf struct buf text = BUF_INIT(TEXT_MAX);
	const char *home = getenv("HOME"), *config = getenv("XDG_CONFIG_HOME");
	bool has_place = (home && home[0] == '/') || (config && config[0] == '/');
	cleanup_fd int fd = has_place ? user_config_open(NAMES_FILE, false, finder->err) : -ENOENT;
	char *rest, *line;
	int r = 0;

	/* A home that the caller cannot enter holds nothing of the caller's. */
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR || fd == -EACCES ? 0 : fd;
	r = fd_read_all(fd, &text);
	if (r < 0)
		return error_set(finder->err, ATOLL_FAULT_HOST, -r,
				 "read ~/.config/atoll/" NAMES_FILE);
	rest = text.data;
	while (r == 0 && rest && (line = strsep(&rest, "\n"))) {
		line += strspn(line, " \t\r");
		line[strcspn(line, " \t\r#")] = '\0';
		if (*line)
			r = protect_name(finder, line);
	}
	return r;
}

/* No store is no reason to fail here: whoever needs one says so. */
static int note_store(struct finder *finder)
{
	char path[PATH_MAX], real[PATH_MAX];
	int r;

	if (state_path(path, NULL) < 0)
		return 0;
	fd_real_path(path, real);
	r = spec_set_store(finder->spec, real, finder->err);
	return r < 0 ? r : finder_protect(finder, path);
}

int obeyed_protect(struct spec *spec, struct atoll_error *err)
{
	struct finder finder = {.spec = spec, .err = err};
	int r = note_store(&finder);

	if (r == 0 && spec->workspace_mode == SPEC_WORKSPACE_READ_ONLY)
		return 0;
	if (r == 0)
		r = obeyed_find_git(&finder);
	if (r == 0)
		r = find_names(&finder);
	if (r == 0)
		r = obeyed_find_home(&finder);
	return r < 0 ? r : find_users_names(&finder);
}

int obeyed_protect_links(struct spec *spec, const char *path, struct atoll_error *err)
{
	struct finder finder = {.spec = spec, .err = err};

	return finder_protect_links(&finder, path);
}

int obeyed_find(const char *workspace, struct spec **ret, struct atoll_error *err)
{
	const char *home = getenv("HOME");
	struct spec *spec = spec_new(home && home[0] == '/' ? home : "/", workspace, err);
	struct spec_rule root = {.access = SPEC_WRITE,
				 .path = (char *)workspace,
				 .origin = (char *)SPEC_ORIGIN_HOST};
	int r;

	if (!spec)
		return -EINVAL;
	spec->workspace = strdup(workspace);
	spec->workspace_mode = SPEC_WORKSPACE_LAYER;
	r = spec->workspace ? spec_append_rule(spec, &root, err) : error_oom(err);
	if (r == 0)
		r = obeyed_protect(spec, err);
	if (r < 0)
		spec_free(spec);
	else
		*ret = spec;
	return r;
}
