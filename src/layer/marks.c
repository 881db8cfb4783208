/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/marks.h"

#include "base/error.h"
#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"
#include "layer/layer-tree.h"
#include "layer/obeyed.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>

/*
 * What the host would execute or trust
 *
 * The same names and rules as those by which the guard refuses in mode `direct` (spec/names.h,
 * spec/git.h), asked about a change that is made as a whole instead of about a call. Then what only
 * counts when it is taken over: special files, set-id bits, links that lead out. And the lines of
 * the contract that say `protect` or `hide`.
 *
 * What is held back must not be lost with the directory that it lies in, nor be needed by what is
 * not held back: so a mark goes up to directories that are deleted or replaced, and down from what
 * replaces or makes one.
 */

static bool stat_in(int root_fd, const char *path, bool is_ours, struct stat *ret)
{
	const char *name;
	cleanup_fd int parent = tree_open_parent(root_fd, path, is_ours, &name);

	return parent >= 0 && tree_stat_at(parent, name, is_ours, ret) == 0;
}

bool mark_stat_before(const struct marker *marker, const char *path, struct stat *ret)
{
	int base_fd = marker->drafts->stack->base_fd;

	return base_fd >= 0 && stat_in(base_fd, path, false, ret);
}

bool mark_stat_after(const struct marker *marker, const char *path, struct stat *ret)
{
	size_t index;

	switch (layer_stack_look(marker->drafts->stack, path, &index, ret)) {
	case LAYER_PRESENT:
		return true;
	case LAYER_ABSENT:
		return mark_stat_before(marker, path, ret);
	default:
		return false;
	}
}

/* Does a line of the record's list `key` name this path? With `is_way`, also one beneath it: a link
 * in the place of a directory decides what is found there. */
static bool is_listed(const struct marker *marker, const char *key, const char *whole, bool is_way)
{
	const char *lines = layer_record_get(marker->drafts->record, key);
	cleanup_free char *copy = lines ? strdup(lines) : NULL, *folded = NULL;
	char *rest = copy, *line;

	if (!lines)
		return false;
	folded = strdup(whole);
	if (!copy || !folded)
		return true;
	layer_rule_fold(folded);
	whole = folded;
	while ((line = strsep(&rest, "\n")))
		if (*line &&
		    (path_is_pattern(line) ? path_glob(line, whole)
					   : path_is_within(whole, line) ||
						     (is_way && path_is_within(line, whole))))
			return true;
	return false;
}

/* The line about what the host obeys that names this path. `leads_there`: the changed name is a
 * link or directory, so a path beneath it counts as well. */
static const struct spec_rule *find_obeyed(const struct marker *marker, const char *whole,
					   bool leads_there)
{
	for (size_t i = 0; i < marker->obeyed->n_rules; i++) {
		const struct spec_rule *rule = &marker->obeyed->rules[i];

		if (rule->access == SPEC_PROTECT &&
		    (rule->is_pattern ? path_glob(rule->path, whole)
				      : path_is_within(whole, rule->path) ||
						(leads_there && path_is_within(rule->path, whole))))
			return rule;
	}
	return NULL;
}

static const char what_obeyed[] = "obeyed by the host: its own settings or links lead here",
		  what_environment[] = "run or read by the host: PATH or another variable of the "
				       "caller's environment names this place";

/* As the host is now. The record has what the host obeyed when the run began. Of these lines only
 * those of the caller's environment are no setting of the host's (finder.h). */
static const char *mark_obeyed(const struct marker *marker, const char *whole, bool leads_there)
{
	const struct spec_rule *rule = find_obeyed(marker, whole, leads_there);

	if (!rule)
		return NULL;
	return streq(rule->origin, SPEC_ORIGIN_DEFAULT) ? what_environment : what_obeyed;
}

bool mark_is_near_protected(const struct marker *marker, const char *whole)
{
	return is_listed(marker, "obeyed", whole, true) ||
	       is_listed(marker, "protect", whole, true) || find_obeyed(marker, whole, true);
}

/* By all that goes by the name. */
static const char *mark_name(struct marker *marker, const char *whole, enum names_action action,
			     bool has_content)
{
	const char *path = whole + strlen(marker->root) + (marker->root[1] ? 1 : 0);
	const char *what = names_mark(marker->root, whole, action);

	if (!what)
		what = mark_git(marker, whole, path, action, has_content);
	if (!what && is_listed(marker, "hide", whole, false))
		what = "hidden by the contract";
	if (!what && is_listed(marker, "obeyed", whole, action == NAMES_SYMLINK))
		what = what_obeyed;
	if (!what)
		what = mark_obeyed(marker, whole, action == NAMES_SYMLINK);
	if (!what && is_listed(marker, "protect", whole, action == NAMES_SYMLINK))
		what = "protected by the contract";
	return what;
}

/* By what it is, once it is there. */
static const char *mark_object(struct marker *marker, const struct atoll_change *change)
{
	mode_t mode = change->after.st_mode;

	if (S_ISREG(mode))
		return mode & (S_ISUID | S_ISGID) ? "set-id file" : NULL;
	if (S_ISLNK(mode))
		return mark_link(marker, change->path);
	return mode == 0 || S_ISDIR(mode) ? NULL : "special file";
}

static enum names_action arrival(mode_t mode)
{
	if (S_ISDIR(mode))
		return NAMES_MKDIR;
	return S_ISLNK(mode) ? NAMES_SYMLINK : NAMES_RENAME_TO;
}

/* A change as questions: what goes away, what arrives, what is changed in its place. */
static const char *ask(struct marker *marker, const struct atoll_change *change, const char *whole,
		       const char *whole_from)
{
	bool replaces = change->parts & ATOLL_PART_TYPE;
	bool arrives = change->kind == ATOLL_ADDED || change->kind == ATOLL_RENAMED || replaces ||
		       change->parts & ATOLL_PART_CONTENT;
	const char *what = NULL;

	if (change->kind == ATOLL_DELETED || replaces)
		what = mark_name(marker, whole, NAMES_REMOVE, false);
	if (!what && whole_from)
		what = mark_name(marker, whole_from, NAMES_REMOVE, false);
	if (!what && change->kind == ATOLL_DELETED)
		return NULL;
	if (!what && arrives)
		what = mark_name(marker, whole, arrival(change->after.st_mode), true);
	else if (!what)
		what = mark_name(marker, whole, NAMES_CHMOD, false);
	return what ? what : mark_object(marker, change);
}

static int mark_one(struct marker *marker, struct draft *draft)
{
	struct atoll_change *change = &draft->change;
	cleanup_free char *whole = NULL, *whole_from = NULL;

	/* A time alone makes nobody trust anything. */
	if (change->kind == ATOLL_CHANGED && change->parts == ATOLL_PART_TIME)
		return 0;
	whole = path_join(marker->root, change->path);
	if (change->from)
		whole_from = path_join(marker->root, change->from);
	if (!whole || (change->from && !whole_from))
		return error_oom(marker->drafts->err);
	change->mark = ask(marker, change, whole, whole_from);
	return 0;
}

/* A path of a draft: where something is after, or where it was. */
struct entry {
	const char *path;
	struct draft *draft;
	bool goes; /* something is taken away from there */
};

/* What a draft hands on to those beneath it. */
struct above {
	const struct entry *entry;
	const char *mark; /* for all of them, or NULL */
};

/* A directory, then all that is in it, then its neighbours: a slash sorts before all else. */
static int compare_entries(const void *a, const void *b)
{
	const unsigned char *x = (const unsigned char *)((const struct entry *)a)->path;
	const unsigned char *y = (const unsigned char *)((const struct entry *)b)->path;

	while (*x && *x == *y)
		x++, y++;
	if (*x == *y || !*x || !*y)
		return *x - *y;
	if (*x == '/' || *y == '/')
		return *x == '/' ? -1 : 1;
	return *x - *y;
}

static bool is_beneath(const char *path, const char *above)
{
	size_t length = strlen(above);

	return strncmp(path, above, length) == 0 && path[length] == '/';
}

/* Was a directory, and is none any more. */
static bool takes_away(const struct atoll_change *change)
{
	return S_ISDIR(change->before.st_mode) && !S_ISDIR(change->after.st_mode);
}

/* A directory that was not there, or something else. */
static bool makes(const struct atoll_change *change)
{
	return S_ISDIR(change->after.st_mode) && !S_ISDIR(change->before.st_mode);
}

static size_t list_entries(struct drafts *drafts, struct entry *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < drafts->n; i++) {
		struct draft *draft = &drafts->items[i];
		struct atoll_change *change = &draft->change;

		ret[n++] = (struct entry){change->path, draft, change->kind == ATOLL_DELETED};
		if (change->from)
			ret[n++] = (struct entry){change->from, draft, true};
	}
	qsort(ret, n, sizeof *ret, compare_entries);
	return n;
}

static void spread_one(const struct entry *entry, struct above *above, size_t n_above)
{
	struct atoll_change *change = &entry->draft->change;
	bool is_here = entry->path == change->path;
	const char *inherited = n_above ? above[n_above - 1].mark : NULL;

	if (!change->mark && is_here && !entry->goes)
		change->mark = inherited;
	for (size_t i = n_above; change->mark && entry->goes && i-- > 0;) {
		struct atoll_change *dir = &above[i].entry->draft->change;

		if (above[i].entry->path == dir->path && takes_away(dir) && !dir->mark)
			dir->mark = change->mark;
	}
	above[n_above] = (struct above){entry, inherited};
	if (change->mark && is_here && makes(change))
		above[n_above].mark = change->mark;
}

static bool is_needed(const struct drafts *drafts)
{
	for (size_t i = 0; i < drafts->n; i++)
		if (drafts->items[i].change.mark)
			return true;
	return false;
}

static int spread(struct drafts *drafts)
{
	cleanup_free struct entry *entries = NULL;
	cleanup_free struct above *above = NULL;
	size_t n, n_above = 0;

	if (!is_needed(drafts))
		return 0;
	entries = calloc(2 * drafts->n, sizeof *entries);
	above = calloc(2 * drafts->n, sizeof *above);
	if (!entries || !above)
		return error_oom(drafts->err);
	n = list_entries(drafts, entries);
	for (size_t i = 0; i < n; i++) {
		while (n_above > 0 && !is_beneath(entries[i].path, above[n_above - 1].entry->path))
			n_above--;
		spread_one(&entries[i], above, n_above++);
	}
	return 0;
}

int drafts_mark(struct drafts *drafts)
{
	struct marker marker = {.drafts = drafts, .root = drafts->record->info.workspace};
	int r = drafts->n ? obeyed_find(marker.root, &marker.obeyed, drafts->err) : 0;

	for (size_t i = 0; i < drafts->n && r == 0; i++)
		r = mark_one(&marker, &drafts->items[i]);
	free(marker.git_dir);
	spec_free(marker.obeyed);
	return r < 0 ? r : spread(drafts);
}
