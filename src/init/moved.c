/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uapi.h"
#include "init/guard.h"
#include "spec/git-config-read.h"
#include "spec/spec.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/*
 * What lies in a directory that moves
 *
 * Some things in it mean another place afterwards, or are judged in another way:
 *   relative links                  begin elsewhere (links.c)
 *   pointer files, core.worktree    git counts them from their own place
 *   patterns of the contract        go by the path: a protected file must not be written while its
 *                                   directory is elsewhere, nor come to where nobody may write it
 * Called by call-names.c: guard_permit_tree() before the rename, guard_confirm_tree() after it,
 * because another run in the same directory has a guard of its own.
 */

#define ENTRIES_MAX 65536
#define DEPTH_MAX   32

static const char what_git[] = "git pointer out of the root";

struct moved {
	const struct call *call;
	const struct init_zone *zone;
	bool comes_from_elsewhere; /* from another zone, whose links were not looked at for this */
	bool stays_in_directory;   /* only its name changes: what is in it leads to where it led */
	bool looks_at_patterns;	   /* of the contract: has_pattern() */
	const char *rule;	   /* the words for -EPERM */
	unsigned n_left;
	const char *from;    /* the directory, as it was */
	size_t to_length;    /* of `path`, for the directory itself */
	char path[PATH_MAX]; /* as it will be */
};

/*
 * Patterns of the contract (`protect: *\/x`, and without mounts `hide`) go by the path. What lies
 * in a directory that moves must be under the same patterns afterwards: otherwise a protected file
 * is written while it is elsewhere, or one comes to where nobody could have written it.
 */
static bool counts(const struct call *call, const struct spec_rule *rule)
{
	if (!rule->is_pattern)
		return false;
	return rule->access == SPEC_PROTECT ||
	       (rule->access == SPEC_HIDE && call->guard->config->is_bare);
}

/* The names of lines are the host's. */
static const char *name_on_host(const struct call *call, const char *path, char *ret, size_t size)
{
	return spec_host_path(call->guard->config->spec, path, ret, size) ? ret : path;
}

/* A name at any depth beneath a base: wherever something is there, its last name alone decides. */
static bool is_same_everywhere(const struct spec_rule *rule, const char *from, const char *to)
{
	size_t length = path_literal_length(rule->path);
	const char *rest = rule->path + length;
	char base[PATH_MAX];

	if (!starts_with(rest, "/**/") || strchr(rest + 4, '/') || length >= sizeof base)
		return false;
	memcpy(base, rule->path, length);
	base[length] = '\0';
	return path_is_within(from, base) && path_is_within(to, base);
}

/* Is there a pattern that may match something in the directory before, and not afterwards, or the
 * other way round? */
static bool has_pattern(const struct call *call, const char *from, const char *to)
{
	static char before[3 * PATH_MAX], after[3 * PATH_MAX];
	const struct spec *spec = call->guard->config->spec;

	from = name_on_host(call, from, before, sizeof before);
	to = name_on_host(call, to, after, sizeof after);
	for (size_t i = 0; i < spec->n_rules; i++) {
		if (counts(call, &spec->rules[i]) && !is_same_everywhere(&spec->rules[i], from, to))
			return true;
	}
	return false;
}

static int check_patterns(struct moved *moved)
{
	static char old[2 * PATH_MAX], before[3 * PATH_MAX], after[3 * PATH_MAX];
	const struct spec *spec = moved->call->guard->config->spec;
	const char *from, *to = name_on_host(moved->call, moved->path, after, sizeof after);

	snprintf(old, sizeof old, "%s%s", moved->from, moved->path + moved->to_length);
	from = name_on_host(moved->call, old, before, sizeof before);
	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if (!counts(moved->call, rule) ||
		    path_glob(rule->path, from) == path_glob(rule->path, to))
			continue;
		moved->rule = spec_access_word(rule->access);
		return -EPERM;
	}
	return 0;
}

/* How many levels a relative text leads up before its first name. Absolute ones: none, because they
 * lead where they led. */
static unsigned count_up(const char *text)
{
	unsigned n = 0;

	for (;;) {
		const size_t length = strcspn(text, "/");

		if (length == 2 && memcmp(text, "..", 2) == 0)
			n++;
		else if (length != 1 || text[0] != '.')
			return n;
		text += length;
		text += strspn(text, "/");
	}
}

/* `depth`: how deep in the moved directory the link lies, from which it may climb out. */
static int check_link(struct moved *moved, int fd, const char *name, unsigned depth)
{
	char text[PATH_MAX];
	ssize_t got = readlinkat(fd, name, text, sizeof text - 1);

	if (got < 0)
		return errno == EINVAL || errno == ENOENT ? 0 : -errno;
	text[got] = '\0';
	if (!moved->comes_from_elsewhere && count_up(text) <= depth)
		return 0;
	moved->rule = guard_judge_link(moved->call, moved->zone, moved->path, text);
	return moved->rule ? -EPERM : 0;
}

/* Does a relative path that git counts from the directory of moved->path stay in the root? */
static bool stays_in_root(const struct moved *moved, const char *text)
{
	return count_up(text) + 1 + path_depth(moved->zone->path) <= path_depth(moved->path);
}

/* Does it, seen from there, lead into a git directory? */
static bool leads_into_git(const struct moved *moved, const char *text)
{
	char place[2 * PATH_MAX];

	snprintf(place, sizeof place, "%.*s/%s", (int)(path_name(moved->path) - moved->path),
		 moved->path, text);
	path_normalize(place);
	return guard_is_in_git_dir(moved->zone, place);
}

/* core.worktree of a submodule: git on the host writes there. Configs that a run has made were
 * understood (guard_install_config()); of others only the part that is. */
static int check_config(const struct moved *moved, const char *text, size_t size)
{
	static struct git_config_entry entry;
	struct git_config_reader reader = {.at = text, .end = text + size, .line = 1};

	memset(&entry, 0, sizeof entry);
	while (git_config_read(&reader, &entry) == 1) {
		if (streq(entry.section, "core") && !entry.has_subsection &&
		    streq(entry.key, "worktree") && entry.has_value &&
		    (!stays_in_root(moved, entry.value) || leads_into_git(moved, entry.value)))
			return -EPERM;
	}
	return 0;
}

/* Files of git's that name a place relative to their own: ".git", worktrees/NAME/gitdir, config. */
static int check_git_file(struct moved *moved, int fd, const char *name)
{
	static char text[GIT_CONFIG_MAX + 1];
	const bool is_pointer = names_is_git(name, strlen(name));
	char folded[NAMES_FOLD_SIZE];
	const char *way = text;
	struct stat st;
	ssize_t size;

	if (!is_pointer && (!names_fold(name, strlen(name), folded) ||
			    (!names_same(folded, "config") && !names_same(folded, "gitdir"))))
		return 0;
	size = guard_read_small(fd, name, text, sizeof text - 1, &st);
	/* Larger ones, and what is no file, are none of git's. */
	if (size < 0)
		return size == -EFBIG || size == -ENOENT || size == -ELOOP ? 0 : -EXDEV;
	text[size] = '\0';
	moved->rule = what_git;
	if (!is_pointer && names_same(folded, "config"))
		return check_config(moved, text, (size_t)size);
	if (is_pointer && starts_with(text, "gitdir: "))
		way += strlen("gitdir: ");
	return stays_in_root(moved, way) ? 0 : -EPERM;
}

static int check_tree(struct moved *moved, int parent_fd, const char *name, unsigned depth);

/* moved->path is the entry's. */
static int check_entry(struct moved *moved, int fd, const char *name, unsigned char type,
		       unsigned depth)
{
	int r = moved->looks_at_patterns ? check_patterns(moved) : 0;

	if (r == 0 && !moved->stays_in_directory && (type == DT_LNK || type == DT_UNKNOWN))
		r = check_link(moved, fd, name, depth);
	if (r == 0 && !moved->stays_in_directory && (type == DT_REG || type == DT_UNKNOWN))
		r = check_git_file(moved, fd, name);
	if (r == 0 && (type == DT_DIR || type == DT_UNKNOWN))
		r = check_tree(moved, fd, name, depth + 1);
	return r;
}

/* -EXDEV where there is too much to look at: programs then copy, and each link is looked at. */
static int check_tree(struct moved *moved, int parent_fd, const char *name, unsigned depth)
{
	cleanup_fd int fd = openat(parent_fd, name,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	const size_t length = strlen(moved->path);
	char entries[2048];
	ssize_t got;
	int r = 0;

	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return 0; /* of a file system that does not tell types */
	if (fd < 0 || depth == DEPTH_MAX)
		return -EXDEV;
	while (r == 0 && (got = getdents64(fd, (void *)entries, sizeof entries)) > 0) {
		for (ssize_t at = 0; r == 0 && at < got;) {
			const struct dirent64 *entry = (const void *)(entries + at);
			const size_t room = sizeof moved->path - length;

			at += entry->d_reclen;
			if (streq(entry->d_name, ".") || streq(entry->d_name, ".."))
				continue;
			if (moved->n_left-- == 0 || (size_t)snprintf(moved->path + length, room,
								     "/%s", entry->d_name) >= room)
				return -EXDEV;
			r = check_entry(moved, fd, entry->d_name, entry->d_type, depth);
			if (r == 0)
				moved->path[length] = '\0';
		}
	}
	return r < 0 || got == 0 ? r : -EXDEV;
}

static bool is_same_directory(const char *a, const char *b)
{
	size_t length = (size_t)(strrchr(a, '/') - a);

	return (size_t)(strrchr(b, '/') - b) == length && memcmp(a, b, length) == 0;
}

/* The directory as it is called in `now`, before or after it moves from `from` to `to`. */
static int check_moved(struct call *call, const struct target *from, const struct target *to,
		       const struct target *now)
{
	struct moved moved = {.call = call,
			      .zone = guard_guarded_zone(call, to),
			      .from = from->path,
			      .to_length = strlen(to->path),
			      .n_left = ENTRIES_MAX};
	int r;

	/* In the same directory every link begins as deep as before, and with the same names. */
	moved.stays_in_directory = is_same_directory(from->path, to->path);
	moved.looks_at_patterns = has_pattern(call, from->path, to->path);
	if (!moved.zone || (moved.stays_in_directory && !moved.looks_at_patterns))
		return 0;
	if (strlen(to->path) >= sizeof moved.path)
		return -ENAMETOOLONG;
	strcpy(moved.path, to->path);
	moved.comes_from_elsewhere = guard_guarded_zone(call, from) != moved.zone;
	r = check_tree(&moved, now->parent, now->name, 0);
	if (r != -EPERM)
		return r;
	memcpy(call->path, moved.path, strlen(moved.path) + 1);
	return guard_refuse(call, EPERM, moved.rule);
}

int guard_permit_tree(struct call *call, const struct target *from, const struct target *to)
{
	return check_moved(call, from, to, from);
}

int guard_confirm_tree(struct call *call, const struct target *from, const struct target *to)
{
	int r = guard_confirm_place(call, to);

	return r < 0 ? r : check_moved(call, from, to, to);
}
