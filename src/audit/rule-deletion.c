/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/event-rules-shared.h"

#include <stdio.h>

/*
 * Many files are removed
 *
 * Two signs: the arguments of a program that removes a whole tree; and the "change" events at the
 * end of a step, if more than DELETED_MAX files were deleted and fewer were added or changed. Files
 * that can be generated again do not count. Files that the run itself created have no such event.
 */

#define DELETED_MAX 100

static const char *const regenerable[] = {
	"node_modules", "build",    "dist",	     "target",	      "__pycache__",
	".cache",	".venv",    "venv",	     ".tox",	      ".git",
	".next",	"coverage", ".pytest_cache", ".mypy_cache",   "bin",
	"obj",		"out",	    "_build",	     ".gradle",	      "vendor",
	".ruff_cache",	"tmp",	    ".turbo",	     ".parcel-cache", NULL};

static bool can_be_made_anew(const char *path)
{
	while (*path) {
		size_t size = strcspn(path, "/");
		char name[24];

		if (size > 0 && size < sizeof name) {
			memcpy(name, path, size);
			name[size] = '\0';
			if (rules_is_among(name, regenerable))
				return true;
		}
		path += size + (path[size] == '/');
	}
	return false;
}

static bool is_everything(const char *target)
{
	static const char *const whole[] = {
		"/",   "/*",	".",	  "./",	   "..",   "../",  "*",	   "./*",    "~", "~/",
		"~/*", "/home", "/home/", "/root", "/etc", "/usr", "/var", "/root/", NULL};
	size_t size = strlen(target);

	if (rules_is_among(target, whole))
		return true;
	/* /home/ada, but nothing beneath. */
	return starts_with(target, "/home/") && size > 6 && !strchr(target + 6, '/');
}

static bool removes_all(const struct line *line, const char *base)
{
	bool is_recursive = false, has_target = false, deletes = false;

	if (!streq(base, "rm") && !streq(base, "find"))
		return false;
	if (streq(base, "find"))
		for (size_t i = 1; i < line->argc; i++)
			deletes |= streq(line->argv[i], "-delete");
	for (size_t i = 1; i < line->argc; i++) {
		const char *arg = line->argv[i];

		if (arg[0] != '-')
			has_target |= is_everything(arg);
		else if (streq(arg, "--recursive") ||
			 (arg[1] != '-' && (strchr(arg, 'r') || strchr(arg, 'R'))))
			is_recursive = true;
		else if (streq(arg, "--no-preserve-root"))
			return streq(base, "rm");
	}
	if (streq(base, "rm"))
		return is_recursive && has_target;
	/* `find . -name '*.o' -delete` chooses; without a choice it is everything. */
	return streq(base, "find") && deletes && has_target && line->argc <= 5 &&
	       !strstr(line->argv[2], "name");
}

static bool count_deletion(struct rules *rules, uint64_t n, char *why, size_t size)
{
	if (rules->has_reported_deletion || n < DELETED_MAX)
		return false;
	rules->has_reported_deletion = true;
	snprintf(why, size, "%llu names that the run did not make were removed",
		 (unsigned long long)n);
	return true;
}

/* A change of branch deletes many files, and adds or changes many. */
static bool look_at_change(struct rules *rules, const struct line *line, char *why, size_t size)
{
	if (can_be_made_anew(line->path))
		return false;
	if (!streq(line->change, "deleted")) {
		rules->n_existing++;
		return false;
	}
	rules->n_deleted++;
	if (rules->n_deleted <= rules->n_existing)
		return false;
	return count_deletion(rules, rules->n_deleted, why, size);
}

static bool look(struct rules *rules, const struct line *line, char *why, size_t size)
{
	const char *base;

	if (line->kind == LINE_CHANGE)
		return look_at_change(rules, line, why, size);
	if (line->kind != LINE_EXEC || line->argc < 2)
		return false;
	base = line_base(line->path);
	if (streq(base, "shred") || starts_with(base, "mkfs") || streq(base, "wipefs")) {
		snprintf(why, size, "%s destroys what it is given", shown(base));
		return true;
	}
	if (!removes_all(line, base))
		return false;
	snprintf(why, size, "%s is told to remove everything (%s)", shown(base),
		 shown(line->argv[line->argc - 1]));
	return true;
}

const struct rule rule_deletion = {look};
