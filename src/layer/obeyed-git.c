/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/obeyed-git.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"
#include "layer/finder.h"
#include "spec/git-config-read.h"
#include "spec/names.h"
#include "spec/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/*
 * Which files of writable roots the host's git obeys because its settings say so
 *
 * Every config that git would read is read, with whatever it includes; conditions of `includeIf`
 * count as fulfilled. A value may be a directory of hooks, another config, or a command: of a
 * command each word with a slash in it, or that names a file at the top, counts as a path. Text
 * that the reader does not understand is skipped line by line, because git understands more than
 * git_config_read() does.
 *
 * A relative path counts from the top of the work tree, and a repository may have several: those
 * that `worktrees` lists, and in a root that is written directly those that a run makes.
 */

#define CONFIG_MAX	 (1 << 20)
#define CONFIGS_MAX	 64   /* files, with those that they include */
#define DEPTH_MAX	 10   /* of includes, as git has it */
#define ABOVE_MAX	 64   /* directories above a writable root */
#define PAIRS_MAX	 4096 /* of GIT_CONFIG_COUNT */
#define MODULES_MAX	 1024
#define MODULE_DIRS_MAX	 65536 /* with directories that are a part of a name, or empty */
#define MODULE_DEPTH_MAX 16    /* of submodules in submodules, and of slashes in their names */

/* Keys whose value is a command, or a file that names one; the last component of a key. */
static bool is_command(const struct git_config_entry *entry)
{
	static const char *const keys[] = {
		"fsmonitor",
		"sshcommand",
		"pager",
		"editor",
		"askpass",
		"gitproxy",
		"attributesfile",
		"excludesfile",
		"templatedir",
		"external",
		"textconv",
		"command",
		"clean",
		"smudge",
		"process",
		"driver",
		"helper",
		"program",
		"difffilter",
		"cmd",
		"path",
		"packobjectshook",
		"vcs",
		"uploadpack",
		"receivepack",
		"defaultkeycommand",
		"hook",
		"alternaterefscommand",
		"recentobjectshook",
		"tunnel",
		"tocmd",
		"cccmd",
		"headercmd",
		"sendmailcmd",
		"smtpserver",
		"authorsprog",
		"httpd",
		"allowedsignersfile",
		"sslcainfo",
		"sslcapath",
	};

	/* "!command": of an alias, and how a submodule is updated. A submodule's path is a work
	 * tree. */
	if (streq(entry->section, "submodule"))
		return streq(entry->key, "update") && entry->value[0] == '!';
	if (streq(entry->section, "alias"))
		return entry->value[0] == '!' || streq(entry->key, "command");
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (streq(entry->key, keys[i]))
			return true;
	return streq(entry->section, "pager") || streq(entry->section, "hook");
}

/* "sh tools/x" and "python3 x.py": a word with a slash, or one that is a file at the top; or would
 * be one, by its dot, unless it is the program, which is looked for in PATH. */
static bool is_path(const char *word, const char *top, bool is_first)
{
	char path[PATH_MAX];
	struct stat st;

	if (strchr(word, '/'))
		return true;
	if (word[0] == '-' || snprintf(path, sizeof path, "%s/%s", top, word) >= PATH_MAX)
		return false;
	return lstat(path, &st) == 0 ? !S_ISDIR(st.st_mode) : !is_first && strchr(word, '.');
}

/* "$HOME/x" and "$(git rev-parse --show-toplevel)/x": what stands before the first slash is the
 * shell's to compute. Protect what is there in the home or at the top. */
static int protect_computed(struct finder *finder, const char *word, const char *top)
{
	const char *places[] = {top, finder->spec->home}, *slash = strchr(word, '/');
	int r = 0;

	for (size_t i = 0; slash && slash[1] && i < ARRAY_SIZE(places) && r == 0; i++) {
		char path[PATH_MAX];
		struct stat st;

		if (finder_path(finder, slash + 1, places[i], path) && lstat(path, &st) == 0 &&
		    !S_ISDIR(st.st_mode))
			r = finder_protect(finder, path);
	}
	return r;
}

/* Is a relative path trusted by its name, wherever it is? */
static bool is_trusted_name(const char *text)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof path, "/%s", text) < PATH_MAX &&
	       names_refuse("/", path, NAMES_WRITE);
}

/* A relative path counts from the top of each work tree: in the settings of the system or of the
 * user of all, in those of a repository of its own, also of one that a run makes or that lies
 * deeper. What begins with `.git` is guarded as such; what leads up, and a URL, are no file of the
 * tree. */
static int protect_in_all(struct finder *finder, const char *text)
{
	const bool is_everywhere = finder->is_everywhere;

	while (starts_with(text, "./"))
		text += 2;
	if ((!is_everywhere && !finder->worktree_root) || text[0] == '/' || text[0] == '~' ||
	    text[0] == '%' || !text[0] || strstr(text, "..") || strstr(text, "//") ||
	    path_is_pattern(text) || starts_with(text, ".git/") || is_trusted_name(text))
		return 0;
	return finder_protect_anywhere(finder, is_everywhere ? NULL : finder->worktree_root, text,
				       SPEC_ORIGIN_HOST,
				       "what git's settings name by a relative path");
}

/* `python3 -m a.b` runs a/b.py, or a/b/__main__.py. */
static int protect_module(struct finder *finder, const char *name, const char *top)
{
	static const char *const ends[] = {".py", "/__main__.py"};
	char text[PATH_MAX], path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(ends) && r == 0; i++) {
		if (snprintf(text, sizeof text, "%s%s", name, ends[i]) >= PATH_MAX)
			continue;
		for (char *dot = text; (dot = strchr(dot, '.')) && dot < text + strlen(name);)
			*dot = '/';
		if (finder_path(finder, text, top, path))
			r = finder_protect(finder, path);
	}
	return r;
}

/* One word of a command. `top` is the directory that the command is in by then. */
static int protect_word(struct finder *finder, const char *word, const char *before,
			const char *top)
{
	/* "-Ftools/config": the path may stand right behind an option's letter. */
	const char *text = word[0] == '-' && word[1] && strchr(word, '/') ? word + 2 : word;
	char path[PATH_MAX];
	int r = 0;

	if (streq(before, "-m"))
		return protect_module(finder, word, top);
	if (is_path(text, top, !before[0]) && finder_path(finder, text, top, path))
		r = finder_protect(finder, path);
	if (r == 0 && strchr(text, '/'))
		r = protect_in_all(finder, text);
	return r < 0 ? r : protect_computed(finder, text, top);
}

/* Each word of a command that looks like a path. Quotes end a word, too. */
static int protect_words(struct finder *finder, const char *value, const char *work_tree)
{
	static const char ends[] = " \t\n;&|<>()'\"`$!=";
	char before[PATH_MAX] = "", word[PATH_MAX], top[PATH_MAX], path[PATH_MAX];
	int r = 0;

	snprintf(top, sizeof top, "%s", work_tree);
	while (*value && r == 0) {
		size_t size = strcspn(value, ends);

		if (size && size < sizeof word) {
			memcpy(word, value, size);
			word[size] = '\0';
			r = protect_word(finder, word, before, top);
			if (streq(before, "cd") && finder_path(finder, word, top, path))
				strcpy(top, path);
			strcpy(before, word);
		}
		value += size;
		value += strspn(value, ends);
	}
	return r;
}

static int read_config(struct finder *finder, const char *file, const char *top, unsigned depth);

static int use_include(struct finder *finder, const char *value, const char *file, const char *top,
		       unsigned depth)
{
	char dir[PATH_MAX], path[PATH_MAX];
	int r;

	snprintf(dir, sizeof dir, "%.*s", (int)(path_name(file) - file), file);
	if (!finder_path(finder, value, dir, path))
		return 0;
	r = finder_protect(finder, path);
	return r < 0 || depth == DEPTH_MAX ? r : read_config(finder, path, top, depth + 1);
}

static int use_entry(struct finder *finder, const struct git_config_entry *entry, const char *file,
		     const char *top, unsigned depth)
{
	char path[PATH_MAX];
	int r;

	if (!entry->has_value)
		return 0;
	if (streq(entry->key, "path") &&
	    (streq(entry->section, "include") || streq(entry->section, "includeif")))
		return use_include(finder, entry->value, file, top, depth);
	if (streq(entry->section, "core") && streq(entry->key, "hookspath")) {
		if (!finder_path(finder, entry->value, top, path))
			return 0;
		r = finder_protect(finder, path);
		if (r == 0)
			r = protect_in_all(finder, entry->value);
		return r < 0 ? r : finder_protect_links_in(finder, path);
	}
	return is_command(entry) ? protect_words(finder, entry->value, top) : 0;
}

/* Behind the line that was not understood. */
static void skip_line(struct git_config_reader *reader)
{
	const char *end;

	if (reader->at == reader->end)
		return;
	end = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
	reader->at = end ? end + 1 : reader->end;
}

/* `top` is the work tree that relative paths of hooks and commands count from. */
static int read_config(struct finder *finder, const char *file, const char *top, unsigned depth)
{
	cleanup_buf struct buf text = BUF_INIT(CONFIG_MAX);
	cleanup_free struct git_config_entry *entry = NULL;
	struct git_config_reader reader = {.line = 1};
	int got, r = 0;

	if (finder->n_configs++ >= CONFIGS_MAX)
		return error_set(finder->err, ATOLL_FAULT_POLICY, 0,
				 "git's settings on this host include more than %d files: '%s' was "
				 "not read, and may name hooks",
				 CONFIGS_MAX, file);
	if (!finder_read(file, &text))
		return 0;
	entry = calloc(1, sizeof *entry);
	if (!entry)
		return error_oom(finder->err);
	reader.at = text.data;
	reader.end = text.data + text.used;
	while (r == 0 && (got = git_config_read(&reader, entry)) != 0) {
		if (got > 0) {
			r = use_entry(finder, entry, file, top, depth);
		} else {
			skip_line(&reader);
			reader.entries = 0;
		}
	}
	return r;
}

/* A config in a directory, with a word about links on the way to it. */
static int read_config_in(struct finder *finder, const char *dir, const char *name, const char *top)
{
	char file[PATH_MAX];
	int r;

	if (snprintf(file, sizeof file, "%s/%s", dir, name) >= PATH_MAX)
		return 0;
	r = finder_protect_link(finder, file);
	return r < 0 ? r : read_config(finder, file, top, 0);
}

/* A file that holds one path, behind `key`: ".git" and commondir. */
static bool read_way(struct finder *finder, const char *file, const char *key, const char *base,
		     char ret[PATH_MAX])
{
	cleanup_buf struct buf text = BUF_INIT(2 * PATH_MAX);

	if (!finder_read(file, &text) || !starts_with(text.data, key))
		return false;
	text.data[strcspn(text.data, "\r\n")] = '\0';
	return finder_path(finder, text.data + strlen(key), base, ret);
}

/* The work tree of a submodule: `core.worktree` of its git directory, or else that directory. */
static void find_work_tree(struct finder *finder, const char *dir, char ret[PATH_MAX])
{
	cleanup_buf struct buf text = BUF_INIT(CONFIG_MAX);
	cleanup_free struct git_config_entry *entry = calloc(1, sizeof *entry);
	struct git_config_reader reader = {.line = 1};
	char file[PATH_MAX];
	int got;

	snprintf(ret, PATH_MAX, "%s", dir);
	if (!entry || snprintf(file, sizeof file, "%s/config", dir) >= PATH_MAX ||
	    !finder_read(file, &text))
		return;
	reader.at = text.data;
	reader.end = text.data + text.used;
	while ((got = git_config_read(&reader, entry)) > 0) {
		if (streq(entry->section, "core") && streq(entry->key, "worktree") &&
		    entry->has_value)
			finder_path(finder, entry->value, dir, ret);
	}
}

static int look_in_git_dir(struct finder *finder, const char *dir, const char *top);

/* An entry of `modules`: the git directory of a submodule, or a part of a name with slashes. */
static int look_at_module(struct finder *finder, const char *path, const struct stat *st,
			  void *data)
{
	char head[PATH_MAX], top[PATH_MAX];
	struct stat head_st;
	bool is_module;
	int r;

	if (!st || !S_ISDIR(st->st_mode) || finder->module_depth == MODULE_DEPTH_MAX ||
	    snprintf(head, sizeof head, "%s/HEAD", path) >= PATH_MAX)
		return 0;
	is_module = lstat(head, &head_st) == 0;
	if ((is_module && finder->n_modules++ == MODULES_MAX) ||
	    finder->n_module_dirs++ == MODULE_DIRS_MAX)
		return error_set(finder->err, ATOLL_FAULT_POLICY, 0,
				 "more than %d submodules: '%s' was not read, and its settings may "
				 "name hooks",
				 MODULES_MAX, path);
	finder->module_depth++;
	if (is_module) {
		find_work_tree(finder, path, top);
		finder->n_configs = 0;
		r = look_in_git_dir(finder, path, top);
	} else {
		r = finder_for_each(finder, path, NULL, look_at_module, data);
	}
	finder->module_depth--;
	return r;
}

static int look_in_modules(struct finder *finder, const char *dir)
{
	char modules[PATH_MAX];

	if (snprintf(modules, sizeof modules, "%s/modules", dir) >= PATH_MAX)
		return 0;
	return finder_for_each(finder, modules, NULL, look_at_module, NULL);
}

/* An entry of `worktrees`: for this work tree, too, the settings of the repository hold, and it may
 * have settings and submodules of its own. `data` is the git directory of the repository. */
static int look_at_worktree(struct finder *finder, const char *path, const struct stat *st,
			    void *data)
{
	const struct spec_rule *rule;
	char file[PATH_MAX], top[PATH_MAX];
	int r;

	if (!st || !S_ISDIR(st->st_mode) ||
	    snprintf(file, sizeof file, "%s/gitdir", path) >= PATH_MAX ||
	    !read_way(finder, file, "", path, top) || !ends_with(top, "/.git"))
		return 0;
	top[strlen(top) - strlen("/.git")] = '\0';
	rule = spec_rule_for(finder->spec, top);
	if (!rule || rule->access != SPEC_WRITE)
		return 0;
	finder->n_configs = 0;
	r = read_config_in(finder, data, "config", top);
	if (r == 0)
		r = read_config_in(finder, path, "config.worktree", top);
	return r < 0 ? r : look_in_modules(finder, path);
}

static int look_in_worktrees(struct finder *finder, const char *dir)
{
	char worktrees[PATH_MAX];

	if (snprintf(worktrees, sizeof worktrees, "%s/worktrees", dir) >= PATH_MAX)
		return 0;
	return finder_for_each(finder, worktrees, NULL, look_at_worktree, (void *)dir);
}

/* In which writable root can a run make another work tree of this repository? A pointer to it must
 * lie in the same root (git_pointer_vet()), and is marked in a layer. */
static const char *find_worktree_root(const struct finder *finder, const char *dir)
{
	const struct spec *spec = finder->spec;
	const struct spec_rule *rule = spec_rule_for(spec, dir);

	if (!rule || rule->access != SPEC_WRITE || rule->is_pattern ||
	    (spec->workspace_mode == SPEC_WORKSPACE_LAYER && streq(rule->path, spec->workspace)))
		return NULL;
	return rule->path;
}

static int look_in_git_dir(struct finder *finder, const char *dir, const char *top)
{
	const char *above = finder->worktree_root;
	char hooks[PATH_MAX];
	int r;

	if (snprintf(hooks, sizeof hooks, "%s/hooks", dir) >= PATH_MAX)
		return 0;
	finder->worktree_root = find_worktree_root(finder, dir);
	r = finder_protect_link(finder, hooks);
	if (r == 0)
		r = finder_protect_links_in(finder, hooks);
	if (r == 0)
		r = read_config_in(finder, dir, "config", top);
	if (r == 0)
		r = read_config_in(finder, dir, "config.worktree", top);
	if (r == 0)
		r = look_in_worktrees(finder, dir);
	if (r == 0)
		r = look_in_modules(finder, dir);
	finder->worktree_root = above;
	return r;
}

/* The repository whose work tree `top` is, if there is one. */
static int look_in_repository(struct finder *finder, const char *top)
{
	char pointer[PATH_MAX], dir[PATH_MAX], common[PATH_MAX], file[PATH_MAX];
	struct stat st;
	int r;

	if (snprintf(pointer, sizeof pointer, "%s/.git", top[1] ? top : "") >= PATH_MAX ||
	    stat(pointer, &st) < 0)
		return 0;
	snprintf(dir, sizeof dir, "%s", pointer);
	if (S_ISREG(st.st_mode) && !read_way(finder, pointer, "gitdir: ", top, dir))
		return 0;
	r = look_in_git_dir(finder, dir, top);
	if (r < 0 || snprintf(file, sizeof file, "%s/commondir", dir) >= PATH_MAX ||
	    !read_way(finder, file, "", dir, common))
		return r;
	return look_in_git_dir(finder, common, top);
}

/* git uses the first repository at or above a directory. A person who stands higher up uses the
 * next one, which has the files of the root as its own. */
static int look_above(struct finder *finder, const char *root)
{
	char top[PATH_MAX];
	int r = 0;

	finder->n_configs = 0;
	snprintf(top, sizeof top, "%s", root);
	for (unsigned i = 0; r == 0 && i < ABOVE_MAX; i++) {
		char *slash;

		r = look_in_repository(finder, top);
		slash = strrchr(top, '/');
		if (!slash || slash == top)
			break;
		*slash = '\0';
	}
	return r;
}

/* The repositories at and above the workspace and each other writable root. */
static int look_at_roots(struct finder *finder)
{
	const struct spec *spec = finder->spec;
	const size_t n_rules = spec->n_rules; /* finder_protect() adds to the list */
	int r = look_above(finder, spec->workspace);

	for (size_t i = 0; i < n_rules && r == 0; i++) {
		cleanup_free char *root = NULL;

		if (spec->rules[i].access != SPEC_WRITE || spec->rules[i].is_pattern ||
		    streq(spec->rules[i].path, spec->workspace))
			continue;
		root = strdup(spec->rules[i].path); /* the list may move in memory */
		if (!root)
			return error_oom(finder->err);
		r = look_above(finder, root);
	}
	return r;
}

/* A config at a place that the caller's environment names: no other rule knows it. */
static int read_named_config(struct finder *finder, const char *file, const char *top)
{
	int r;

	finder->is_of_caller = true;
	r = file[0] == '/' ? finder_protect(finder, file) : 0;
	finder->is_of_caller = false;
	return r < 0 ? r : read_config(finder, file, top, 0);
}

/* The settings of the system and of the user, by git's own rules. */
static int look_at_users(struct finder *finder)
{
	const char *top = finder->spec->workspace, *home = finder->spec->home;
	const char *global = getenv("GIT_CONFIG_GLOBAL"), *system = getenv("GIT_CONFIG_SYSTEM");
	const char *xdg = getenv("XDG_CONFIG_HOME");
	char path[PATH_MAX];
	int r = read_named_config(finder, system ? system : "/etc/gitconfig", top);

	if (r == 0 && global)
		return read_named_config(finder, global, top);
	if (r == 0 && xdg && xdg[0] == '/')
		r = snprintf(path, sizeof path, "%s/git/config", xdg) < PATH_MAX
			    ? read_named_config(finder, path, top)
			    : 0;
	if (r == 0 && snprintf(path, sizeof path, "%s/.config/git", home) < PATH_MAX)
		r = read_config_in(finder, path, "config", top);
	return r < 0 ? r : read_config_in(finder, home, ".gitconfig", top);
}

static void copy_lower(char *ret, size_t size, const char *text, size_t length)
{
	snprintf(ret, size, "%.*s", (int)length, text);
	for (; *ret; ret++)
		*ret = (char)(*ret >= 'A' && *ret <= 'Z' ? *ret - 'A' + 'a' : *ret);
}

/* GIT_CONFIG_KEY_n and GIT_CONFIG_VALUE_n. False if there is no such pair. */
static bool read_pair(unsigned long n, struct git_config_entry *ret)
{
	char name[64];
	const char *key, *value, *first, *last;

	snprintf(name, sizeof name, "GIT_CONFIG_KEY_%lu", n);
	key = getenv(name);
	snprintf(name, sizeof name, "GIT_CONFIG_VALUE_%lu", n);
	value = getenv(name);
	first = key ? strchr(key, '.') : NULL;
	last = key ? strrchr(key, '.') : NULL;
	if (!first || !value || strlen(value) >= sizeof ret->value)
		return false;
	copy_lower(ret->section, sizeof ret->section, key, (size_t)(first - key));
	copy_lower(ret->key, sizeof ret->key, last + 1, strlen(last + 1));
	snprintf(ret->value, sizeof ret->value, "%s", value);
	ret->has_subsection = last != first;
	ret->has_value = true;
	return true;
}

/* Settings that the caller's environment holds itself. Above the bound git's own start would take
 * seconds. */
static int use_pairs(struct finder *finder)
{
	const char *count = getenv("GIT_CONFIG_COUNT");
	unsigned long n = count ? strtoul(count, NULL, 10) : 0;
	cleanup_free struct git_config_entry *entry = n ? calloc(1, sizeof *entry) : NULL;
	int r = 0;

	if (n && !entry)
		return error_oom(finder->err);
	finder->is_of_caller = true;
	for (unsigned long i = 0; i < n && i < PAIRS_MAX && r == 0; i++)
		if (read_pair(i, entry))
			r = use_entry(finder, entry, "/", finder->spec->workspace, 0);
	finder->is_of_caller = false;
	return r;
}

int obeyed_find_git(struct finder *finder)
{
	int r;

	finder->is_everywhere = true;
	r = look_at_users(finder);
	if (r == 0)
		r = use_pairs(finder);
	finder->is_everywhere = false;
	return r < 0 ? r : look_at_roots(finder);
}
