/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/obeyed-home.h"

#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"
#include "layer/finder.h"
#include "spec/names.h"
#include "spec/spec.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/*
 * What the host obeys in a writable root because of the caller's home and environment
 *
 * Called by obeyed.c. Three sources:
 *   links      trusted names of the home that are links, or hold links: ~/.bashrc ->
 * dotfiles/bashrc XDG_*      where trusted names of ~/.config, ~/.local/share and ~/.local/state
 * lie instead variables  directories of PATH, and files that shells and programs read or start
 *
 * Lines of the last two do not belong to the contract's digest: a sandbox must open again from a
 * shell with another environment.
 */

/* Installations write these as a matter of course, and PATH has them in an activated environment.
 * Refusing them would refuse every installation; a layer marks them. */
static bool is_environment(const char *dir)
{
	static const char *const ends[] = {"/.venv/bin", "/venv/bin", "/env/bin",
					   "/node_modules/.bin"};
	char config[PATH_MAX];
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (ends_with(dir, ends[i]))
			return true;
	return snprintf(config, sizeof config, "%s/../pyvenv.cfg", dir) < PATH_MAX &&
	       stat(config, &st) == 0;
}

/* ---- links of the home ---- */

struct place {
	struct finder *finder;
	const char *dir;
	const char *skip; /* what names of the table begin with, behind their first component */
};

/* Programs are the project's own where somebody has linked them to it. */
static bool is_of_programs(const char *path)
{
	return streq(path_name(path), "bin") || streq(path_name(path), "lib");
}

static int look_at_trusted(struct finder *finder, const char *path)
{
	int r = finder_protect_link(finder, path);

	return r < 0 || is_of_programs(path) ? r : finder_protect_links_in(finder, path);
}

static int look_in_container(const char *behind, void *data)
{
	const struct place *place = data;
	char path[PATH_MAX];

	if (snprintf(path, sizeof path, "%s/%s", place->dir, behind) >= PATH_MAX)
		return 0;
	return look_at_trusted(place->finder, path);
}

static bool is_candidate(const char *path, const void *home)
{
	/* No trusted name of a home is without its dot. */
	return path_name(path)[0] == '.' &&
	       (names_refuse(home, path, NAMES_WRITE) || names_is_container(path_name(path)));
}

static int look_at(struct finder *finder, const char *path, const struct stat *st, void *home)
{
	struct place place = {.finder = finder, .dir = path};

	if (!st || S_ISREG(st->st_mode))
		return 0;
	if (names_refuse(home, path, NAMES_WRITE))
		return look_at_trusted(finder, path);
	return names_for_each_in(path_name(path), look_in_container, &place);
}

static int find_links(struct finder *finder)
{
	char home[PATH_MAX], units[PATH_MAX];
	int r;

	if (snprintf(home, sizeof home, "%s", finder->spec->home) >= PATH_MAX || !home[1])
		return 0;
	r = finder_for_each(finder, home, is_candidate, look_at, home);
	/* One level deeper than the others. */
	if (r == 0 && snprintf(units, sizeof units, "%s/.config/systemd/user", home) < PATH_MAX)
		r = finder_protect_links_in(finder, units);
	return r;
}

/* ---- other places for trusted names ---- */

static int protect_moved(const char *behind, void *data)
{
	const struct place *place = data;
	char path[PATH_MAX];

	if (!starts_with(behind, place->skip) || snprintf(path, sizeof path, "%s/%s", place->dir,
							  behind + strlen(place->skip)) >= PATH_MAX)
		return 0;
	return finder_protect(place->finder, path);
}

static int find_moved(struct finder *finder)
{
	static const struct {
		const char *variable, *usual, *container, *skip;
	} places[] = {
		{"XDG_CONFIG_HOME", "/.config", ".config", ""},
		{"XDG_DATA_HOME", "/.local/share", ".local", "share/"},
		{"XDG_STATE_HOME", "/.local/state", ".local", "state/"},
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(places) && r == 0; i++) {
		struct place place = {.finder = finder,
				      .dir = getenv(places[i].variable),
				      .skip = places[i].skip};
		char usual[PATH_MAX];

		snprintf(usual, sizeof usual, "%s%s", finder->spec->home, places[i].usual);
		if (place.dir && place.dir[0] == '/' && !streq(place.dir, usual))
			r = names_for_each_in(places[i].container, protect_moved, &place);
	}
	return r;
}

/* ---- variables ---- */

/* Is a root written directly in which this path lies? */
static bool is_direct(const struct spec *spec, const char *path)
{
	const struct spec_rule *rule = spec_rule_for(spec, path);

	return rule && rule->access == SPEC_WRITE &&
	       (spec->workspace_mode != SPEC_WORKSPACE_LAYER ||
		!streq(rule->path, spec->workspace));
}

/* Each word between `ends` that is an absolute path. */
static int protect_words(struct finder *finder, const char *value, const char *ends, bool is_path)
{
	int r = 0;

	while (value && *value && r == 0) {
		size_t size = strcspn(value, ends);
		char path[PATH_MAX];

		if (size > 1 && size < sizeof path && value[0] == '/') {
			snprintf(path, sizeof path, "%.*s", (int)size, value);
			path_normalize(path);
			if (!is_path || !is_direct(finder->spec, path) || !is_environment(path))
				r = finder_protect(finder, path);
		}
		value += size;
		value += strspn(value, ends);
	}
	return r;
}

static int find_variables(struct finder *finder)
{
	static const char *const variables[] = {
		/* read at the start */
		"BASH_ENV", "ENV", "INPUTRC", "PYTHONSTARTUP", "LD_PRELOAD", "NODE_OPTIONS",
		/* commands */
		"EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER", "SHELL", "LESSOPEN",
		"LESSCLOSE", "PROMPT_COMMAND", "VIMINIT", "SSH_ASKPASS", "SUDO_ASKPASS",
		"GIT_ASKPASS", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER", "GIT_SSH",
		"GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND", "GIT_TEMPLATE_DIR",
		"GIT_EXEC_PATH"};
	int r = protect_words(finder, getenv("PATH"), ":", true);

	for (size_t i = 0; i < ARRAY_SIZE(variables) && r == 0; i++)
		r = protect_words(finder, getenv(variables[i]), " \t\n;&|<>()'\"`$!=:", false);
	return r;
}

int obeyed_find_home(struct finder *finder)
{
	int r = find_links(finder);

	finder->is_of_caller = true;
	if (r == 0)
		r = find_moved(finder);
	if (r == 0)
		r = find_variables(finder);
	finder->is_of_caller = false;
	return r;
}
