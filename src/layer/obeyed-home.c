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
 *
 *   links      trusted names of the home that are links, or directories that hold links:
 *              ~/.bashrc -> dotfiles/bashrc, ~/.config -> dotfiles/config
 *   XDG_*      the directories that programs use instead of ~/.config, ~/.local/share and
 *              ~/.local/state: the trusted names of these lie there
 *   variables  directories of PATH, and files that shells and programs read or start because a
 *              variable names them: BASH_ENV, PYTHONSTARTUP, EDITOR
 *
 * Lines of the last two have the origin "default" and so are no part of the contract's digest: a
 * sandbox can be opened again from a shell with other variables.
 */

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

static bool is_bin_of(const char *variable, const char *dir)
{
	const char *value = getenv(variable);
	char bin[PATH_MAX];

	if (!value || value[0] != '/' || snprintf(bin, sizeof bin, "%s/bin", value) >= PATH_MAX)
		return false;
	path_normalize(bin);
	return streq(bin, dir);
}

/* Installations write these directories as a matter of course, and PATH has them in an activated
 * environment. A layer marks them; in a root that is written directly `pip install` and `npm
 * install` must work. Only names and variables count: a file such as pyvenv.cfg may be a run's. */
static bool is_environment(const char *dir)
{
	static const char *const ends[] = {"/.venv/bin", "/venv/bin", "/env/bin",
					   "/node_modules/.bin"};

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (ends_with(dir, ends[i]))
			return true;
	return is_bin_of("VIRTUAL_ENV", dir) || is_bin_of("CONDA_PREFIX", dir);
}

/* Every PATH has these: whoever grants /usr/local means its programs. */
static bool is_of_system(const char *dir)
{
	static const char *const dirs[] = {"/bin",	 "/sbin",	    "/usr/bin",
					   "/usr/sbin",	 "/usr/local/bin",  "/usr/local/sbin",
					   "/usr/games", "/usr/local/games"};

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (streq(dir, dirs[i]))
			return true;
	return false;
}

/* Use each part of a list, without the separators. */
static int for_each_part(struct finder *finder, const char *list, const char *separators,
			 int (*use)(struct finder *finder, const char *part))
{
	int r = 0;

	while (list && *list && r == 0) {
		size_t size = strcspn(list, separators);
		char part[PATH_MAX];

		if (size && size < sizeof part) {
			snprintf(part, sizeof part, "%.*s", (int)size, list);
			r = use(finder, part);
		}
		list += size;
		list += strspn(list, separators);
	}
	return r;
}

/* A relative part of PATH counts from the directory that somebody is in: the workspace, here. */
static int protect_programs(struct finder *finder, const char *dir)
{
	char path[PATH_MAX];

	if (!finder_path(finder, dir, finder->spec->workspace, path) || is_of_system(path) ||
	    (is_direct(finder->spec, path) && is_environment(path)))
		return 0;
	return finder_protect(finder, path);
}

/* A word of a command, or of options: a path begins with "/", "~/", "./" or "../". */
static int protect_word(struct finder *finder, const char *word)
{
	char path[PATH_MAX];

	if (starts_with(word, "HOME/")) /* of "$HOME/x" */
		return finder_path(finder, word + strlen("HOME/"), finder->spec->home, path)
			       ? finder_protect(finder, path)
			       : 0;
	if ((word[0] != '/' && word[0] != '~' && word[0] != '.') || !strchr(word, '/') ||
	    !finder_path(finder, word, finder->spec->workspace, path))
		return 0;
	return finder_protect(finder, path);
}

/* The value of a variable is a path as a whole, which may have blanks in it, or a command. */
static int protect_value(struct finder *finder, const char *value)
{
	int r = value[0] == '/' && strlen(value) < PATH_MAX ? protect_word(finder, value) : 0;

	return r < 0 ? r : for_each_part(finder, value, " \t\n;&|<>()'\"`${}!=:,", protect_word);
}

/* zsh reads these in ZDOTDIR. Their names are trusted wherever they are; links are followed here.
 */
static int find_zsh(struct finder *finder)
{
	static const char *const names[] = {".zshenv", ".zprofile", ".zshrc", ".zlogin",
					    ".zlogout"};
	const char *dir = getenv("ZDOTDIR");
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names) && dir && dir[0] == '/' && r == 0; i++) {
		char path[PATH_MAX];

		if (snprintf(path, sizeof path, "%s/%s", dir, names[i]) < PATH_MAX)
			r = finder_protect_link(finder, path);
	}
	return r;
}

static int find_variables(struct finder *finder)
{
	static const char *const variables[] = {
		/* files that are read at the start, and that hold commands or name programs */
		"BASH_ENV", "ENV", "INPUTRC", "PYTHONSTARTUP", "SCREENRC", "LESSKEY", "LESSKEYIN",
		"MYVIMRC", "STARSHIP_CONFIG", "RIPGREP_CONFIG_PATH", "HGRCPATH", "KUBECONFIG",
		"AWS_CONFIG_FILE", "PIP_CONFIG_FILE", "UV_CONFIG_FILE", "NPM_CONFIG_USERCONFIG",
		"NPM_CONFIG_GLOBALCONFIG", "npm_config_userconfig", "npm_config_globalconfig",
		/* directories of settings */
		"DOCKER_CONFIG", "GNUPGHOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GIT_TEMPLATE_DIR",
		"GIT_EXEC_PATH", "GCONV_PATH",
		/* options that name code to load */
		"LD_PRELOAD", "LD_AUDIT", "NODE_OPTIONS", "PERL5OPT", "JAVA_TOOL_OPTIONS",
		/* commands */
		"SHELL", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER", "LESSOPEN",
		"LESSCLOSE", "PROMPT_COMMAND", "VIMINIT", "EXINIT", "SSH_ASKPASS", "SUDO_ASKPASS",
		"GIT_ASKPASS", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER", "GIT_SSH",
		"GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND", "RSYNC_RSH", "CVS_RSH",
		"SVN_SSH", "FZF_DEFAULT_COMMAND", "RUSTC_WRAPPER"};
	int r = for_each_part(finder, getenv("PATH"), ":", protect_programs);

	for (size_t i = 0; i < ARRAY_SIZE(variables) && r == 0; i++) {
		const char *value = getenv(variables[i]);

		if (value)
			r = protect_value(finder, value);
	}
	return r < 0 ? r : find_zsh(finder);
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
