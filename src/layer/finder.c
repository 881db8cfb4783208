/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/finder.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "spec/names.h"
#include "spec/spec.h"

#include <dirent.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

bool finder_read(const char *path, struct buf *out)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fd_read_all(fd, out) == 0 &&
	       out->data;
}

/* The home directory that git means by "~" or "~name"; NULL if there is none. */
static const char *home_of(const struct finder *finder, const char *text, char memory[PATH_MAX])
{
	size_t size = strcspn(text + 1, "/");
	cleanup_free char *name = strndup(text + 1, size);
	struct passwd account, *found = NULL;

	if (size == 0)
		return finder->spec->home;
	if (!name || getpwnam_r(name, &account, memory, PATH_MAX, &found) != 0)
		return NULL;
	return found ? found->pw_dir : NULL;
}

bool finder_path(const struct finder *finder, const char *text, const char *base,
		 char ret[PATH_MAX])
{
	char memory[PATH_MAX];
	const char *home = text[0] == '~' ? home_of(finder, text, memory) : NULL;
	int length;

	if (text[0] == '/')
		length = snprintf(ret, PATH_MAX, "%s", text);
	else if (home)
		length = snprintf(ret, PATH_MAX, "%s%s", home, strchrnul(text, '/'));
	else if (text[0] == '~' || text[0] == '%' || text[0] == '\0')
		return false;
	else
		length = snprintf(ret, PATH_MAX, "%s/%s", base, text);
	if (length >= PATH_MAX)
		return false;
	path_normalize(ret);
	return true;
}

int finder_protect_text(struct finder *finder, const char *path)
{
	struct spec *spec = finder->spec;
	const struct spec_rule *rule = spec_rule_for(spec, path);

	/* A whole root cannot be meant: then nothing could be written. A trusted name needs no
	 * line.
	 */
	if (!rule || rule->access != SPEC_WRITE || streq(rule->path, path) ||
	    names_refuse(rule->path, path, NAMES_WRITE))
		return 0;
	for (size_t i = 0; i < spec->n_rules; i++)
		if (spec->rules[i].access == SPEC_PROTECT && streq(spec->rules[i].path, path))
			return 0;
	return spec_protect_late(spec, path, false,
				 finder->is_of_caller ? SPEC_ORIGIN_DEFAULT : SPEC_ORIGIN_HOST,
				 finder->err);
}

#define LINKS_MAX 40 /* as the kernel's MAXSYMLINKS */

/* A path whose names are looked up one by one. */
struct walk {
	char at[PATH_MAX];	  /* without links as far as it exists; "" is the root directory */
	char remaining[PATH_MAX]; /* names that are still to be looked up */
	unsigned n_links;
};

static void go_up(struct walk *walk)
{
	char *slash = strrchr(walk->at, '/');

	if (slash)
		*slash = '\0';
}

/* Look up the link's text first, then the remaining names. False if the kernel would not. */
static bool follow(struct walk *walk, const char *text)
{
	char remaining[2 * PATH_MAX];

	if (++walk->n_links > LINKS_MAX ||
	    snprintf(remaining, sizeof remaining, "%s/%s", text, walk->remaining) >= PATH_MAX)
		return false;
	strcpy(walk->remaining, remaining);
	if (text[0] == '/')
		walk->at[0] = '\0';
	else
		go_up(walk);
	return true;
}

/* Enter one name. The length of its text if it is a link, which need not lead anywhere; 0 if it is
 * none, or does not exist; -1 if the path is too long. */
static ssize_t enter(struct walk *walk, const char *name, char ret_text[PATH_MAX])
{
	size_t used = strlen(walk->at);
	ssize_t length;

	if (used + 1 + strlen(name) >= sizeof walk->at)
		return -1;
	snprintf(walk->at + used, sizeof walk->at - used, "/%s", name);
	length = readlink(walk->at, ret_text, PATH_MAX - 1);
	ret_text[length > 0 ? length : 0] = '\0';
	return length > 0 ? length : 0;
}

/* Cut off the next of the remaining names; "" behind the last. */
static void next_name(struct walk *walk, char ret[NAME_MAX + 1])
{
	size_t skipped = strspn(walk->remaining, "/");
	size_t length = strcspn(walk->remaining + skipped, "/");

	snprintf(ret, NAME_MAX + 1, "%.*s", (int)length, walk->remaining + skipped);
	memmove(walk->remaining, walk->remaining + skipped + length,
		strlen(walk->remaining + skipped + length) + 1);
}

/* Every link that is read on the way decides where the path leads, so each is protected, and at
 * last the place where the path ends, also if nothing is there yet. */
static int protect_walk(struct finder *finder, const char *path, bool with_own_name)
{
	struct walk walk = {0};
	char name[NAME_MAX + 1], text[PATH_MAX];
	int r = 0;

	snprintf(walk.remaining, sizeof walk.remaining, "%s", path);
	for (next_name(&walk, name); name[0] && r == 0; next_name(&walk, name)) {
		ssize_t length = 0;

		if (streq(name, ".."))
			go_up(&walk);
		else if (!streq(name, "."))
			length = enter(&walk, name, text);
		if (length < 0)
			return 0;
		if (length == 0)
			continue;
		if (with_own_name || !streq(walk.at, path))
			r = finder_protect_text(finder, walk.at);
		if (r == 0 && !follow(&walk, text))
			return 0;
	}
	return r < 0 ? r : finder_protect_text(finder, walk.at);
}

int finder_protect_link(struct finder *finder, const char *path)
{
	return fd_path_has_no_links(path) ? 0 : protect_walk(finder, path, false);
}

int finder_protect_links(struct finder *finder, const char *path)
{
	return fd_path_has_no_links(path) ? 0 : protect_walk(finder, path, true);
}

int finder_protect(struct finder *finder, const char *path)
{
	int r = finder_protect_text(finder, path);

	return r < 0 ? r : finder_protect_link(finder, path);
}

int finder_protect_anywhere(struct finder *finder, const char *root, const char *path,
			    const char *origin, const char *who)
{
	struct spec *spec = finder->spec;
	size_t n_rules = spec->n_rules;
	int r = 0;

	for (size_t i = 0; i < n_rules && r == 0; i++) {
		cleanup_free char *pattern = NULL;
		const struct spec_rule *rule = &spec->rules[i];

		if (rule->access != SPEC_WRITE || rule->is_pattern ||
		    (root && !streq(rule->path, root)))
			continue;
		if (path_is_pattern(rule->path))
			return error_set(finder->err, ATOLL_FAULT_POLICY, 0,
					 "%s cannot be protected in '%s', whose own name has one "
					 "of *?[; rename it",
					 who, rule->path);
		if (asprintf(&pattern, "%s/**/%s", rule->path, path) < 0)
			return error_oom(finder->err);
		r = spec_protect_late(spec, pattern, true, origin, finder->err);
	}
	return r;
}

int finder_for_each(struct finder *finder, const char *dir, finder_filter *wants, finder_fn *use,
		    void *data)
{
	DIR *list = opendir(dir);
	struct dirent *entry;
	int r = 0;

	while (list && r == 0 && (entry = readdir(list))) {
		char path[PATH_MAX];
		struct stat st;

		if (streq(entry->d_name, ".") || streq(entry->d_name, ".."))
			continue;
		if (snprintf(path, sizeof path, "%s/%s", dir, entry->d_name) < PATH_MAX &&
		    (!wants || wants(path, data)))
			r = use(finder, path, lstat(path, &st) == 0 ? &st : NULL, data);
	}
	if (list)
		closedir(list);
	return r;
}

int finder_protect_if_link(struct finder *finder, const char *path, const struct stat *st,
			   void *data)
{
	(void)data;
	return st && S_ISLNK(st->st_mode) ? finder_protect_link(finder, path) : 0;
}

int finder_protect_links_in(struct finder *finder, const char *dir)
{
	return finder_for_each(finder, dir, NULL, finder_protect_if_link, NULL);
}
