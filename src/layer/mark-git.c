/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "layer/marks.h"
#include "layer/tree.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

static const char what_config[] = "git config";
static const char what_index[] = "git index";
static const char what_pointer[] = "git pointer file";
static const char what_new[] = "a new git directory";

/* A small file as it will be, or as the host has it. False if it is none, or not small. */
static bool read_small(int fd, struct buf *out)
{
	cleanup_fd int owned = fd;

	return owned >= 0 && tree_read_file(owned, GIT_CONFIG_MAX, out) == 0;
}

/* How many levels a submodule's git directory lies beneath the workspace. */
static unsigned levels_of(const char *path)
{
	unsigned levels = 0;

	for (; *path; path++)
		levels += *path == '/';
	return levels;
}

static const char *vet_config(const struct marker *marker, const char *path, bool is_submodule)
{
	const struct layer_stack *stack = marker->drafts->stack;
	cleanup_buf struct buf text = BUF_INIT(GIT_CONFIG_MAX), old = BUF_INIT(GIT_CONFIG_MAX);
	bool has_old = read_small(layer_stack_open_before(stack, path), &old);
	char key[128];

	if (!read_small(layer_stack_open_after(stack, path), &text))
		return what_config;
	return git_config_vet(text.data ? text.data : "", text.used,
			      has_old ? old.data ? old.data : "" : NULL, old.used,
			      is_submodule ? levels_of(path) : 0, key)
		       ? what_config
		       : NULL;
}

/* Of the git directory whose index this is; a worktree's has its config two levels up. */
static unsigned hash_size_of(const struct marker *marker, const char *path)
{
	static const char *const places[] = {"config", "../../config"};
	size_t length = (size_t)(path_name(path) - path);

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		cleanup_buf struct buf text = BUF_INIT(GIT_CONFIG_MAX);
		cleanup_free char *config = NULL;

		if (asprintf(&config, "/%.*s%s", (int)length, path, places[i]) < 0)
			return 20;
		path_normalize(config);
		if (read_small(layer_stack_open_after(marker->drafts->stack, config + 1), &text))
			return git_config_is_sha256(text.data ? text.data : "", text.used) ? 32
											   : 20;
	}
	return 20;
}

#define INDEX_MAX (512 << 20)

/* The record is read while nobody writes; should somebody, then a page of a file that was cut off
 * must not end us: it is read, not mapped. */
static const char *vet_index(const struct marker *marker, const char *path)
{
	cleanup_fd int fd = layer_stack_open_after(marker->drafts->stack, path);
	cleanup_buf struct buf data = BUF_INIT(INDEX_MAX);

	if (fd < 0 || tree_read_file(fd, INDEX_MAX, &data) < 0 || data.used == 0)
		return what_index;
	return git_index_vet((const unsigned char *)data.data, data.used,
			     hash_size_of(marker, path))
		       ? what_index
		       : NULL;
}

/* In mode `direct` the guard writes it itself. */
static const char *vet_commondir(const struct marker *marker, const char *path)
{
	cleanup_buf struct buf text = BUF_INIT(GIT_CONFIG_MAX);

	if (read_small(layer_stack_open_after(marker->drafts->stack, path), &text) && text.data &&
	    streq(text.data, "../..\n"))
		return NULL;
	return "git commondir";
}

/* Files are made in two ways, and what one of them allows is all right: samples of hooks are made
 * in place, a config arrives by rename. */
static enum git_verdict judge(const char *inside, enum names_action action, const char **ret_what)
{
	enum git_verdict verdict = git_guard(inside, action, false, ret_what);
	enum git_verdict other;
	const char *what;

	if (verdict != GIT_REFUSE || action != NAMES_RENAME_TO)
		return verdict;
	other = git_guard(inside, NAMES_CREATE, false, &what);
	return other == GIT_REFUSE ? verdict : other;
}

static const char *mark_inside(const struct marker *marker, const char *path, const char *inside,
			       enum names_action action, bool has_content)
{
	const char *what = NULL;
	enum git_verdict verdict = judge(inside, action, &what);

	if (verdict == GIT_REFUSE)
		return what;
	/* It says where hooks and config are looked for. */
	if (!*inside && action == NAMES_RENAME_TO)
		return what_pointer;
	if (!has_content)
		return NULL;
	switch (verdict) {
	case GIT_VET_CONFIG:
	case GIT_VET_SUBMODULE_CONFIG:
		return vet_config(marker, path, verdict == GIT_VET_SUBMODULE_CONFIG);
	case GIT_VET_INDEX:
		return vet_index(marker, path);
	case GIT_COMMONDIR:
		return vet_commondir(marker, path);
	default:
		return NULL;
	}
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
