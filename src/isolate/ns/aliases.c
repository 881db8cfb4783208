/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/mounts.h"
#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"
#include "isolate/ns/cell.h"
#include "spec/spec.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/*
 * Other names that mounts give to what is hidden
 *
 * A line hides a path, and a bind mount on the host may show the same object at another path:
 * ~/.ssh at /opt/keys. /proc/self/mountinfo says for each mount which directory of which file
 * system it shows (its root), so every other name of a hidden object can be computed, and device
 * and inode tell whether it is the one. Such a name is hidden, too. A second hard link cannot be
 * found that way, nor what a pattern hides, which goes by name.
 *
 * prepare.c calls aliases_prepare() when all grants are in the list. A grant that names the other
 * name itself wins over a hidden place of the defaults, and the plan says so; where a person hides
 * the one and grants the other, the run is refused.
 */

#define BLOOM_BITS 1024

/* Could a mount show a part of another's file system? Mostly none does, and nothing is asked. */
static bool has_binds(const char *text)
{
	uint64_t seen[BLOOM_BITS / 64] = {0};
	struct mounts_line line;

	while (mounts_next(&text, &line)) {
		uint32_t hash = 2166136261u;

		for (const char *at = line.dev; *at; at++)
			hash = (hash ^ (unsigned char)*at) * 16777619u;
		hash = (hash ^ hash >> 12) % BLOOM_BITS;
		if (seen[hash / 64] & UINT64_C(1) << hash % 64)
			return true;
		seen[hash / 64] |= UINT64_C(1) << hash % 64;
	}
	return false;
}

/* All mounts, taken apart once: there may be thousands, and each hidden place is held against
 * them. */
struct table {
	struct shown {
		char *dev, *root, *point;
	} * mounts;
	size_t n;
};

static void table_done(struct table *table)
{
	for (size_t i = 0; i < table->n; i++) {
		free(table->mounts[i].dev);
		free(table->mounts[i].root);
		free(table->mounts[i].point);
	}
	free(table->mounts);
}

static int table_read(struct table *table, const char *text, struct atoll_error *err)
{
	struct mounts_line line;
	size_t room = 0;

	while (mounts_next(&text, &line)) {
		struct shown *mount;

		if (table->n == room) {
			room = room ? 2 * room : 64;
			mount = realloc(table->mounts, room * sizeof *mount);
			if (!mount)
				return error_oom(err);
			table->mounts = mount;
		}
		mount = &table->mounts[table->n++];
		*mount = (struct shown){strdup(line.dev), strdup(line.root), strdup(line.point)};
		if (!mount->dev || !mount->root || !mount->point)
			return error_oom(err);
	}
	return 0;
}

/* The mount that a path lies on: the deepest, and of several at one point the latest. */
static const struct shown *find_mount(const struct table *table, const char *path)
{
	const struct shown *found = NULL;

	for (size_t i = 0; i < table->n; i++) {
		const struct shown *mount = &table->mounts[i];

		if (path_is_within(path, mount->point) &&
		    (!found || strlen(mount->point) >= strlen(found->point)))
			found = mount;
	}
	return found;
}

/* `path` without `above`, with its slash; both may be "/". */
static const char *rest_of(const char *path, const char *above)
{
	return streq(above, "/") ? (path[1] ? path : "") : path + strlen(above);
}

static void join(char ret[PATH_MAX], const char *above, const char *rest)
{
	snprintf(ret, PATH_MAX, "%s%s", streq(above, "/") && rest[0] ? "" : above, rest);
}

static bool is_same(const char *a, const char *b)
{
	struct stat x, y;

	return lstat(a, &x) == 0 && lstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* Where `other` shows the object at `inner` in their file system, which has the name `path`, or a
 * part of it; false: nowhere. */
static bool name_in(const struct shown *other, const char *inner, const char *path,
		    char ret[PATH_MAX])
{
	char part[PATH_MAX];

	if (path_is_within(inner, other->root)) {
		join(ret, other->point, rest_of(inner, other->root));
		return !streq(ret, path) && is_same(ret, path);
	}
	if (!path_is_within(other->root, inner))
		return false;
	join(ret, other->point, "");
	join(part, path, rest_of(other->root, inner));
	return !path_is_within(ret, path) && is_same(ret, part);
}

/* Does somebody's line grant this very place, or something in it? */
static const struct spec_rule *grant_of(const struct spec *spec, const char *name)
{
	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if ((rule->access == SPEC_READ || rule->access == SPEC_WRITE) &&
		    !streq(rule->origin, "default") && !rule->is_pattern &&
		    path_is_within(rule->path, name))
			return rule;
	}
	return NULL;
}

static int note(struct cell *cell, const char *name, const struct spec_rule *rule, bool is_shown,
		struct atoll_error *err)
{
	struct ns_alias *grown =
		realloc(cell->aliases, (cell->n_aliases + 1) * sizeof *cell->aliases);

	if (!grown)
		return error_oom(err);
	cell->aliases = grown;
	grown[cell->n_aliases] =
		(struct ns_alias){.path = strdup(name), .rule = rule, .is_shown = is_shown};
	return grown[cell->n_aliases++].path ? 0 : error_oom(err);
}

static int hide(struct cell *cell, const char *name, const struct spec_rule *rule,
		struct atoll_error *err)
{
	const struct spec_rule *grant = grant_of(cell->spec, name);
	int r;

	if (grant && streq(rule->origin, "default"))
		return note(cell, name, rule, true, err);
	if (grant)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "%s '%s' (%s): a mount makes it another name of '%s', which is "
				 "hidden (%s); leave one of the two lines out",
				 spec_access_word(grant->access), grant->path, grant->origin,
				 rule->path, rule->origin);
	r = ns_hide_name(cell, name, rule, err);
	return r <= 0 ? r : note(cell, name, rule, false, err);
}

static int hide_names(struct cell *cell, const struct table *table, const struct spec_rule *rule,
		      struct atoll_error *err)
{
	char path[PATH_MAX], inner[PATH_MAX], name[PATH_MAX];
	const struct shown *own = realpath(rule->path, path) ? find_mount(table, path) : NULL;
	int r = 0;

	if (!own)
		return 0;
	join(inner, own->root, rest_of(path, own->point));
	for (size_t i = 0; r == 0 && i < table->n; i++) {
		if (streq(table->mounts[i].dev, own->dev) &&
		    name_in(&table->mounts[i], inner, path, name))
			r = hide(cell, name, rule, err);
	}
	return r;
}

int aliases_prepare(struct cell *cell, struct atoll_error *err)
{
	cleanup_with(table_done) struct table table = {0};
	const char *text = ns_mounted();
	int r;

	if (!text)
		return error_set(
			err, ATOLL_FAULT_HOST, 0,
			"read '/proc/self/mountinfo', to hide other names of hidden files");
	if (!has_binds(text))
		return 0;
	r = table_read(&table, text, err);
	for (size_t i = 0; r == 0 && i < cell->spec->n_rules; i++) {
		const struct spec_rule *rule = &cell->spec->rules[i];

		if (rule->access == SPEC_HIDE && !rule->is_pattern)
			r = hide_names(cell, &table, rule, err);
	}
	return r;
}

const struct ns_alias *aliases_find(const struct cell *cell, const char *path)
{
	for (size_t i = 0; i < cell->n_aliases; i++) {
		if (streq(cell->aliases[i].path, path))
			return &cell->aliases[i];
	}
	return NULL;
}

void aliases_free(struct cell *cell)
{
	for (size_t i = 0; i < cell->n_aliases; i++)
		free(cell->aliases[i].path);
	free(cell->aliases);
	cell->aliases = NULL;
	cell->n_aliases = 0;
}
