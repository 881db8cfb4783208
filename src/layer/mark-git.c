/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "layer/layer-tree.h"
#include "layer/marks.h"
#include "spec/git-config-read.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

static const char what_config[] = "git config";
static const char what_index[] = "git index";
static const char what_remote[] = "git remote: the host's git would talk to it";
static const char what_pointer[] = "git pointer file";
static const char what_store[] = "git pointer into atoll's own store";
static const char what_rebase[] = "git rebase in progress: git would run its exec lines";
static const char what_strategy[] = "git sequencer options: a merge strategy is a program";
static const char what_new[] = "a new git directory";
static const char what_object[] = "git object of the host's with other content";
static const char what_cache[] = "git cache that counts in the place of commits and packs";

/* A small file as it will be, or as the host has it. False if it is none, or not small. */
static bool read_small(int fd, struct buf *out)
{
	cleanup_fd int owned = fd;

	return owned >= 0 && tree_read_file(owned, out->limit, out) == 0;
}

typedef bool stat_fn(const struct marker *marker, const char *path, struct stat *ret);

static bool holds(const struct marker *marker, stat_fn *look, const char *dir, const char *name)
{
	cleanup_free char *path = NULL;
	struct stat st;

	if (asprintf(&path, "%s%s%s", dir, *dir ? "/" : "", name) < 0)
		return true;
	return look(marker, path, &st);
}

/* As git_next_marker() explains it. */
static bool is_git_dir(const struct marker *marker, stat_fn *look, const char *dir)
{
	return (holds(marker, look, dir, "objects") && holds(marker, look, dir, "refs")) ||
	       (holds(marker, look, dir, "HEAD") && holds(marker, look, dir, "commondir"));
}

bool mark_is_in_git_dir(const struct marker *marker, const char *path)
{
	cleanup_free char *whole = path_join(marker->root, path), *dir = strdup(path);
	const char *place = NULL, *inside;

	if (!whole || !dir || names_git_inside(marker->root, whole))
		return true;
	inside = whole + strlen(whole) - strlen(path);
	while ((place = git_next_marker(marker->root, whole, place))) {
		dir[place > inside ? place - inside - 1 : 0] = '\0';
		if (is_git_dir(marker, mark_stat_after, dir))
			return true;
		strcpy(dir, path);
	}
	return is_git_dir(marker, mark_stat_after, path);
}

/* Is a link on the way to a path of the workspace? */
static bool has_link(const struct marker *marker, const char *path)
{
	cleanup_free char *dir = strdup(path);

	for (char *end = dir; end;) {
		struct stat st;

		end = strchr(end, '/');
		if (end)
			*end = '\0';
		if (mark_stat_after(marker, dir, &st) && S_ISLNK(st.st_mode))
			return true;
		if (end)
			*end++ = '/';
	}
	return !dir;
}

/* The value of core.worktree; "" if there is none. False if there are two. */
static bool find_worktree(const struct buf *text, char ret[PATH_MAX])
{
	cleanup_free struct git_config_entry *entry = calloc(1, sizeof *entry);
	struct git_config_reader reader = {
		.at = text->data, .end = text->data + text->used, .line = 1};
	bool is_one = entry;

	ret[0] = '\0';
	while (entry && text->data && git_config_read(&reader, entry) > 0) {
		if (!streq(entry->section, "core") || entry->has_subsection ||
		    !streq(entry->key, "worktree"))
			continue;
		is_one = is_one && !ret[0] && entry->has_value &&
			 snprintf(ret, PATH_MAX, "%s", entry->value) < PATH_MAX;
	}
	return is_one;
}

/* git on the host writes to the work tree of a submodule. One that the host has stays; a new one is
 * reached through no link, is in no git directory, and holds nothing that the host obeys. `dir` is
 * absolute. */
static bool is_worktree_plain(const struct marker *marker, const char *dir, const struct buf *text,
			      const struct buf *old)
{
	char now[PATH_MAX], before[PATH_MAX], place[2 * PATH_MAX];
	const char *path;

	if (!find_worktree(text, now) || !find_worktree(old, before))
		return false;
	if (!now[0] || streq(now, before))
		return true;
	snprintf(place, sizeof place, "%s/%s", dir, now);
	path_normalize(place);
	if (before[0] || !path_is_within(place, marker->root) || streq(place, marker->root))
		return false;
	path = place + strlen(marker->root) + (marker->root[1] ? 1 : 0);
	return !has_link(marker, path) && !mark_is_in_git_dir(marker, path) &&
	       !mark_is_near_protected(marker, place);
}

/* A repository that the host did not have may have remotes by path, as in mode `direct`. Which
 * hosts the run could reach is not known here: URLs are marked. */
static const char *vet_config(const struct marker *marker, const char *path, bool is_submodule,
			      bool is_new)
{
	const struct layer_stack *stack = marker->drafts->stack;
	cleanup_buf struct buf text = BUF_INIT(GIT_CONFIG_MAX), old = BUF_INIT(GIT_CONFIG_MAX);
	cleanup_free char *dir = path_join(marker->root, path);
	bool has_old = read_small(layer_stack_open_before(stack, path), &old);
	struct git_vet how = {.old = has_old ? old.data ? old.data : "" : NULL,
			      .old_size = old.used,
			      .dir = is_submodule ? dir : NULL,
			      .root = marker->root,
			      .is_new = is_new};
	struct stat st;
	char key[128];

	if (!dir || (!has_old && mark_stat_before(marker, path, &st)) ||
	    !read_small(layer_stack_open_after(stack, path), &text))
		return what_config;
	*strrchr(dir, '/') = '\0';
	if (!git_config_vet(text.data ? text.data : "", text.used, &how, key))
		return !is_submodule || is_worktree_plain(marker, dir, &text, &old) ? NULL
										    : what_config;
	return git_config_key_talks(key) ? what_remote : what_config;
}

/* A name beside `path`, in fresh memory. */
static char *beside(const char *path, const char *name)
{
	char *whole = NULL;

	if (asprintf(&whole, "/%.*s%s", (int)(path_name(path) - path), path, name) < 0)
		return NULL;
	path_normalize(whole);
	memmove(whole, whole + 1, strlen(whole));
	return whole;
}

/* Of the git directory whose index this is (git_config_hash_size); that of a worktree, which has a
 * commondir, has its config two levels up. */
static unsigned hash_size_of(const struct marker *marker, const char *path)
{
	cleanup_free char *commondir = beside(path, "commondir"), *config = NULL;
	cleanup_buf struct buf text = BUF_INIT(GIT_FORMAT_MAX);
	struct stat st;

	if (!commondir)
		return 0;
	config = beside(path, mark_stat_after(marker, commondir, &st) ? "../../config" : "config");
	if (!config)
		return 0;
	if (!mark_stat_after(marker, config, &st))
		return 20;
	if (!read_small(layer_stack_open_after(marker->drafts->stack, config), &text))
		return 0;
	return git_config_hash_size(text.data ? text.data : "", text.used);
}

#define INDEX_MAX (512 << 20)

/* The record is read while nobody writes; should somebody, then a page of a file that was cut off
 * must not end us: it is read, not mapped. */
static const char *vet_index(const struct marker *marker, const char *path)
{
	cleanup_fd int fd = layer_stack_open_after(marker->drafts->stack, path);
	cleanup_buf struct buf data = BUF_INIT(INDEX_MAX);
	unsigned hash_size = hash_size_of(marker, path);

	if (!hash_size || fd < 0 || tree_read_file(fd, INDEX_MAX, &data) < 0 || data.used == 0)
		return what_index;
	return git_index_vet((const unsigned char *)data.data, data.used, hash_size) ? what_index
										     : NULL;
}

static const char *vet_refs(const struct marker *marker, const char *path)
{
	const struct layer_stack *stack = marker->drafts->stack;
	cleanup_buf struct buf text = BUF_INIT(INDEX_MAX), old = BUF_INIT(INDEX_MAX);

	if (!read_small(layer_stack_open_after(stack, path), &text))
		return "git packed references";
	read_small(layer_stack_open_before(stack, path), &old);
	return git_refs_vet(text.data ? text.data : "", text.used, old.data ? old.data : "",
			    old.used);
}

/* In mode `direct` the guard writes it itself. An index that the host has there already was read as
 * that of another repository. */
static const char *vet_commondir(const struct marker *marker, const char *path)
{
	cleanup_buf struct buf text = BUF_INIT(GIT_CONFIG_MAX);
	cleanup_free char *index = beside(path, "index");
	struct stat st;

	if (index && !mark_stat_before(marker, index, &st) &&
	    read_small(layer_stack_open_after(marker->drafts->stack, path), &text) && text.data &&
	    streq(text.data, "../..\n"))
		return NULL;
	return "git commondir";
}

/* A pointer file says where hooks and config are looked for: each is marked, and those into the
 * store, where nobody has vetted anything, have words of their own. */
static const char *vet_pointer(const struct marker *marker, const char *path)
{
	cleanup_buf struct buf text = BUF_INIT(GIT_CONFIG_MAX);

	if (read_small(layer_stack_open_after(marker->drafts->stack, path), &text) && text.data) {
		text.data[strcspn(text.data, "\n")] = '\0';
		if (git_leads_to_store(text.data, NULL))
			return what_store;
	}
	return what_pointer;
}

/* The path in a store of objects (git's or lfs's) that `inside` lies in, or NULL: the free-form
 * trees of a git directory refuse a component of this name. */
static const char *path_in_objects(const char *inside)
{
	char folded[NAMES_FOLD_SIZE];

	while (*inside) {
		size_t length = strcspn(inside, "/");
		bool is_store = names_fold(inside, length, folded) && streq(folded, "objects");

		inside += length + (inside[length] == '/');
		if (is_store)
			return *inside ? inside : NULL;
	}
	return NULL;
}

/*
 * git compares an object's content with its name in `git fsck` only, and lfs not at all: other
 * bytes under the name of an object that the host has are checked out as part of a commit that a
 * person has looked at. git itself never changes an object or a pack. Of caches it believes the
 * tree of a commit (commit-graph) and the place of an object (multi-pack-index); without them it
 * reads the objects. An added pack can hold such a name as well: doc/limits.md.
 */
static const char *vet_object(const struct marker *marker, const char *path, const char *in_objects)
{
	cleanup_free char *folded = strdup(in_objects);
	cleanup_free char *store = strndup(path, strlen(path) - strlen(in_objects) - 1);
	struct stat st;

	if (!folded || !store)
		return what_object;
	if (!mark_stat_before(marker, store, &st))
		return NULL; /* the host has had none of these objects */
	for (char *c = folded; *c; c++)
		*c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 32) : *c;
	if (starts_with(folded, "info/commit-graph") ||
	    starts_with(folded, "pack/multi-pack-index"))
		return what_cache;
	/* `packs`: a list for servers of plain files; the others are not final names. */
	if (starts_with(folded, "info/") || strstr(folded, "tmp_") || ends_with(folded, ".lock"))
		return NULL;
	return mark_stat_before(marker, path, &st) && S_ISREG(st.st_mode) ? what_object : NULL;
}

/* Files are made in two ways, and what one of them allows is all right: samples of hooks are made
 * in place, a config arrives by rename. */
static enum git_verdict judge(const char *inside, enum names_action action, bool is_new,
			      const char **ret_what)
{
	enum git_verdict verdict = git_guard(inside, action, is_new, ret_what);
	enum git_verdict other;
	const char *what;

	if (verdict != GIT_REFUSE || action != NAMES_RENAME_TO)
		return verdict;
	other = git_guard(inside, NAMES_CREATE, is_new, &what);
	return other == GIT_REFUSE ? verdict : other;
}

/* Did the host have the git directory before which `inside` begins? */
static bool is_new_dir(const struct marker *marker, const char *path, const char *inside)
{
	size_t length = strlen(path) - strlen(inside);
	cleanup_free char *dir = strndup(path, length);
	struct stat st;

	if (!dir || !*inside || !length)
		return false;
	if (dir[length - 1] == '/')
		dir[length - 1] = '\0';
	return !mark_stat_before(marker, dir, &st);
}

static const char *mark_inside(const struct marker *marker, const char *path, const char *inside,
			       enum names_action action, bool has_content)
{
	const char *what = NULL;
	bool is_new = is_new_dir(marker, path, inside);
	enum git_verdict verdict = judge(inside, action, is_new, &what);

	if (verdict == GIT_REFUSE)
		return what;
	/* git init removes it at once: one that has stayed is none of git's. */
	if (verdict == GIT_VET_LINK)
		return "symbolic link in the git directory";
	if (has_content && ends_with(inside, "rebase-merge/git-rebase-todo"))
		return what_rebase;
	/* "x/y" is git-merge-x/y, from the top of the work tree. */
	if (has_content &&
	    (ends_with(inside, "sequencer/opts") || ends_with(inside, "rebase-merge/strategy")))
		return what_strategy;
	if (!has_content)
		return NULL;
	if (path_in_objects(inside))
		return vet_object(marker, path, path_in_objects(inside));
	switch (verdict) {
	case GIT_VET_POINTER:
		return vet_pointer(marker, path);
	case GIT_VET_CONFIG:
	case GIT_VET_SUBMODULE_CONFIG:
		return vet_config(marker, path, verdict == GIT_VET_SUBMODULE_CONFIG, is_new);
	case GIT_VET_INDEX:
		return vet_index(marker, path);
	case GIT_VET_REFS:
		return vet_refs(marker, path);
	case GIT_COMMONDIR:
		return vet_commondir(marker, path);
	default:
		return NULL;
	}
}

/* The directory that the first `length` bytes of `path` name: is it a git directory, was it? */
static bool learn(struct marker *marker, const char *path, size_t length)
{
	if (marker->git_dir && strlen(marker->git_dir) == length &&
	    memcmp(marker->git_dir, path, length) == 0)
		return true;
	free(marker->git_dir);
	marker->git_dir = strndup(path, length);
	if (!marker->git_dir)
		return false;
	marker->was_git = is_git_dir(marker, mark_stat_before, marker->git_dir);
	marker->is_git = is_git_dir(marker, mark_stat_after, marker->git_dir);
	return true;
}

/* Git directories by another name than ".git": "x/HEAD", "x/hooks/pre-commit". */
static const char *mark_bare(struct marker *marker, const char *whole, const char *path,
			     enum names_action action, bool has_content)
{
	const char *place = NULL, *what;

	while ((place = git_next_marker(marker->root, whole, place))) {
		size_t length = place > path ? (size_t)(place - path) - 1 : 0;

		if (!learn(marker, path, length))
			return what_new;
		if (marker->is_git && !marker->was_git && action != NAMES_REMOVE)
			return what_new;
		if (!marker->was_git)
			continue;
		what = mark_inside(marker, path, place, action, has_content);
		if (what)
			return what;
	}
	return NULL;
}

const char *mark_git(struct marker *marker, const char *whole, const char *path,
		     enum names_action action, bool has_content)
{
	const char *inside = names_git_inside(marker->root, whole);

	if (inside)
		return mark_inside(marker, path, inside, action, has_content);
	return mark_bare(marker, whole, path, action, has_content);
}
