/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "spec/names.h"

/*
 * The inside of a git directory
 *
 * Commits must work, and nothing in there may run on the host. So the guard allows by name what git
 * writes when it commits, checks out, merges, fetches, and makes worktrees and submodules; refuses
 * hooks, `commondir`, alternates and everything that it does not know; and lets a new `config` in
 * only after reading it (git_config_vet).
 *
 * A pointer file ".git" may be made, and HEAD may hold anything, because of one invariant: no git
 * directory exists in a writable root, whatever its name, whose config, hooks and commondir were
 * not checked here. It holds in three places:
 *   beneath ".git"       git_guard() refuses what could make a second git directory in there, but
 *                        for modules and worktrees, git's own places for them, where it looks
 *   beneath other names  git_next_marker() says where the guard must look on disk
 *   where one is made    it comes into being with the last of its markers; see git_before
 * All functions are pure and allocate nothing.
 */

enum git_verdict {
	GIT_ALLOW,
	GIT_VET_CONFIG,		  /* a config by rename: its content decides; copied, never moved */
	GIT_VET_SUBMODULE_CONFIG, /* the same, and core.worktree may be in it */
	GIT_VET_INDEX,		  /* index by rename: the same, by git_index_vet() */
	GIT_COMMONDIR, /* the guard writes "../..\n" itself and drops the caller's bytes */
	GIT_REFUSE,
};

/*
 * `inside` is the path relative to the git directory ("hooks/pre-commit", "modules/a/config",
 * "worktrees/w/HEAD"; "" for the directory or pointer file itself), which need not be called
 * ".git". `is_own` says that this very git directory, or this pointer file, was made by this run:
 * then everything in it may be removed again, and the pointer rewritten. `*ret_what` gets words for
 * people ("git hooks", "git config") on GIT_REFUSE, and is left alone otherwise.
 */
enum git_verdict git_guard(const char *inside, enum names_action action, bool is_own,
			   const char **ret_what);

#define GIT_CONFIG_MAX (64 * 1024)

/*
 * Is this text harmless as a git config? Only keys of a closed list pass, with values that cannot
 * name a program: identity, branch, remote (plain URLs), submodule, a few of core. An entry that
 * stands word for word in `old`, the config that is about to be replaced, passes as well, being the
 * user's own; `old` may be NULL. Returns NULL if all is well, else `ret_key`, filled with what is
 * wrong for people: "core.fsmonitor", or "line 3" where the text is not understood exactly as git
 * would. A text over GIT_CONFIG_MAX is refused, an `old` one over it is not read.
 *
 * `worktree_up` is how many levels core.worktree may lead up from the directory of the config: for
 * GIT_VET_SUBMODULE_CONFIG as many as the writable root is above it, so that the work tree stays in
 * the root; otherwise 0, and there may be no new core.worktree at all.
 */
const char *git_config_vet(const char *text, size_t size, const char *old, size_t old_size,
			   unsigned worktree_up, char ret_key[128]);

/*
 * Is this harmless as a git index? `git checkout` on the host writes what it lists, and trusts its
 * paths: none may be absolute, empty, go up, or lead into a git directory. Every way in which git
 * may read it (in one go, or by its table of offsets) must come to the same entries. Versions 2, 3
 * and 4; no split index. `hash_size` is 20, or 32 in a repository of SHA-256. Returns NULL if all
 * is well, else words for people, static. `data` must not change meanwhile.
 */
const char *git_index_vet(const unsigned char *data, size_t size, unsigned hash_size);

/* The value of core.hooksPath in a config, or NULL; static, until the next call. */
const char *git_config_hooks_path(const char *text, size_t size);

/* Does this config make its repository one of SHA-256? */
bool git_config_is_sha256(const char *text, size_t size);

/* Is this one of the names by which a directory becomes a git directory or by which one does harm:
 * HEAD, objects, refs, commondir, config, config.worktree, hooks, info, modules, worktrees? */
bool git_is_marker(const char *name);

/*
 * Where a git directory of another name may begin: the next component of `path` behind `after`
 * (NULL to begin with: beneath `root`) that is a marker. Returns a pointer into `path`, which is
 * what git_guard() takes as `inside` if the directory before it turns out to be a git directory;
 * the outermost one counts. NULL if there are no more. Not only the last component matters: the
 * danger in "x/hooks/pre-commit" is at "hooks".
 *
 * A directory is a git directory if, counting what the action at hand would add, it holds both
 * `objects` and `refs`, or both `HEAD` and `commondir`. Of any type, even a link that dangles: git
 * only asks access(X_OK). Without a HEAD of its own a directory is still what somebody's commondir
 * may lead to, and its config and hooks count then.
 */
const char *git_next_marker(const char *root, const char *path, const char *after);

/*
 * What must not lie in a directory at the moment it becomes a git directory, since all of it came
 * in unseen; NULL-terminated, relative to the directory, lower case. If one of them is there, the
 * action is refused, with two exceptions: in `hooks` there may be samples (names in .sample), and a
 * `config` may be there if it passes git_config_vet() without an old one and is replaced by a copy,
 * because somebody may still have it open for writing, or under a second name. What arrives is
 * asked about as well, git_guard() of its name: a ready-made `objects` may hold alternates.
 */
extern const char *const git_before[];
