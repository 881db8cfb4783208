/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "spec/names.h"

#include <limits.h>

/*
 * The inside of a git directory
 *
 * Commits must work, and nothing in there may run on the host. So the guard allows by name what git
 * writes when it commits, checks out, merges, fetches, and makes worktrees and submodules; refuses
 * hooks, `commondir`, alternates and everything that it does not know; and lets a new `config` in
 * only after reading it (git_config_vet).
 *
 * HEAD may hold anything, and a pointer file ".git" may lead to every ".git" of the same writable
 * root (git_pointer_vet), because of one invariant: no git directory exists in a writable root,
 * whatever its name, whose config, hooks and commondir were not checked here. It holds in three
 * places: beneath ".git"       git_guard() refuses what could make a second git directory in there,
 * but for modules and worktrees, git's own places for them, where it looks beneath other names
 * git_next_marker() says where the guard must look on disk where one is made    it comes into being
 * with the last of its markers; see git_before All functions are pure and allocate nothing.
 */

enum git_verdict {
	GIT_ALLOW,
	GIT_VET_CONFIG,		  /* a config by rename: its content decides; copied, never moved */
	GIT_VET_SUBMODULE_CONFIG, /* the same, and core.worktree may be in it */
	GIT_VET_INDEX,		  /* index by rename: the same, by git_index_vet() */
	GIT_VET_REFS,		  /* packed-refs by rename: the same, by git_refs_vet() */
	GIT_VET_POINTER,	  /* a pointer's text is read before it counts: git_pointer_vet() */
	/* A link as git init makes it to test the file system: its text must be GIT_PROBE_TEXT, and
	 * it is made by symlink(), not by rename or hard link. In a layer it is marked: git removes
	 * it at once. */
	GIT_VET_LINK,
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

/* What git init's link leads to: a name beside the link, which nobody can make at the top of a git
 * directory. */
#define GIT_PROBE_TEXT "testing"

#define GIT_CONFIG_MAX (64 * 1024)
#define GIT_FORMAT_MAX (1024 * 1024) /* of a config that is only asked for its format */

/* How a config is judged. All may be 0 or NULL. */
struct git_vet {
	const char *old; /* the config that is about to be replaced */
	size_t old_size; /* over GIT_CONFIG_MAX it is not read */
	/* For GIT_VET_SUBMODULE_CONFIG the absolute directory of the config, and the writable root
	 * that it lies in: core.worktree may be in it if git_is_way_to_worktree() says so. NULL:
	 * there may be no new core.worktree at all. */
	const char *dir, *root;
	bool is_new; /* the run has made this repository: it may have remotes of its own */
	/* May the run itself contact this host, a name or an address as text? NULL: nobody. */
	bool (*may_reach)(const void *data, const char *host, size_t size, unsigned port);
	const void *data;
	const char *store; /* atoll's own, absolute */
};

/*
 * Is this text harmless as a git config? Only keys of a closed list pass, with values that cannot
 * name a program: identity, branch, a few of core (git-config-rules.c). All other entries of the
 * old text, being the user's own, must stay as they are, in their order. Remotes and what else
 * makes git talk pass where git-config.c says so. Returns NULL if all is well, else `ret_key`,
 * filled with what is wrong for people: "core.fsmonitor", or "line 3" where the text is not
 * understood exactly as git would. A text over GIT_CONFIG_MAX is refused.
 */
const char *git_config_vet(const char *text, size_t size, const struct git_vet *how,
			   char ret_key[128]);

/* Is a key that git_config_vet() names one of those that say whom git talks to? */
bool git_config_key_talks(const char *key);

/* A URL with a plain scheme, "user@host:path", a path, or the name of a remote; NULL is none. */
bool git_is_url(const char *value);

/* Is this URL a path that does not lead into atoll's store, or of a host that the run may contact?
 */
bool git_may_talk(const char *url, const struct git_vet *how);

/* Does a path, absolute or relative, name a place in atoll's store, or a private directory of a run
 * without mounts? By the names of the store's own directories, wherever they seem to be: a relative
 * path means another place once the directory that it counts from has been moved. */
bool git_leads_to_store(const char *path, const char *store);

/*
 * Where does a pointer lead: a file ".git" ("gitdir: PATH", `key` is "gitdir: ") or the file
 * worktrees/NAME/gitdir (a path alone, `key` is "")? `from` is the absolute directory that a
 * relative path counts from, `root` the writable root that the place must be in. Returns NULL and
 * the place, plain and absolute, or static words for people. Links are the caller's to look at.
 *
 * The git directory must be a directory `.git`, or in one where git_is_repository_place(): one of
 * another name in its own work tree is written by a checkout, hooks included, which git runs at
 * once.
 */
const char *git_pointer_vet(const char *text, size_t size, const char *key, const char *from,
			    const char *root, char ret_path[PATH_MAX]);

/*
 * Is this harmless as a git index? `git checkout` on the host writes what it lists, and trusts its
 * paths: none may be absolute, empty, go up, or lead into a git directory. Every way in which git
 * may read it (in one go, or by its table of offsets) must come to the same entries. Versions 2, 3
 * and 4; no split index. `hash_size` is 20, or 32 in a repository of SHA-256. Returns NULL if all
 * is well, else words for people, static. `data` must not change meanwhile.
 */
const char *git_index_vet(const unsigned char *data, size_t size, unsigned hash_size);

/* Are no references of refs/replace in these packed ones, but for lines that the old ones have?
 * They make git take one object for another. NULL if so, else words for people, static. */
const char *git_refs_vet(const char *text, size_t size, const char *old, size_t old_size);

/* How long hashes are in a repository with this config, as git takes it: 20, or 32 for SHA-256. 0
 * if that is not certain: two formats, SHA-256 without version 1, or SHA-256 somewhere behind a
 * line that is not understood. */
unsigned git_config_hash_size(const char *text, size_t size);

/* Do the indexes of a repository mean the same under a new config, and do its extensions still
 * count? Without core.repositoryFormatVersion git ignores them all. */
bool git_config_keeps_format(const char *text, size_t size, const char *old, size_t old_size);

/* Does core.worktree of a submodule, whose config lies in `dir`, lead to a place of the writable
 * root that is neither trusted nor in a git directory? The submodule's own git directory must lie
 * beneath a directory `.git`: git writes nothing beneath that name, so a checkout cannot write
 * hooks. Links on the way are the caller's to look at. */
bool git_is_way_to_worktree(const char *value, const char *dir, const char *root);

/* Is there a component `.git`, spelled so, in `path` beneath `root`? */
bool git_is_beneath_git(const char *root, const char *path);

/* Is this a place of a git directory where git keeps one: itself (""), modules/NAME, worktrees/NAME
 * or worktrees/NAME/modules/NAME? Elsewhere (refs, logs) names are free, and the host's git itself
 * may add the last name by which a directory there becomes a git directory. */
bool git_is_repository_place(const char *inside);

/* The names by which a directory becomes a git directory or by which one does harm, in lower case;
 * NULL-terminated. What lies beneath such a name is judged by git_guard() from the outermost git
 * directory on, so it has to be looked through when that directory becomes one. */
extern const char *const git_markers[];
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
