/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct atoll_error;
struct buf;
struct spec;
struct stat;

/* State that obeyed.c and obeyed-git.c share while they look. */
struct finder {
	struct spec *spec;
	struct atoll_error *err;
	unsigned n_configs; /* read so far of one root or submodule: includes may go in circles */
	/* Of submodules: read so far, directories looked at so far, and levels down. */
	unsigned n_modules, n_module_dirs, module_depth;
	/* The settings that are being read hold in every repository: a relative path counts from
	 * the top of each work tree, wherever that is. */
	bool is_everywhere;
	/* The same for settings of a repository in this writable root, where a run can make another
	 * work tree of it. NULL: it cannot. */
	const char *worktree_root;
	/* The caller's environment says so, and no setting of the host's: such a line is no part of
	 * the contract's digest. */
	bool is_of_caller;
};

/* Protect an absolute path by its name, every link on the way, and the place where the path ends,
 * as far as these lie in a writable root and are not one as a whole. Links and their ends count
 * also if nothing is there yet. */
int finder_protect(struct finder *finder, const char *path);

/* The same by its name alone. */
int finder_protect_text(struct finder *finder, const char *path);

/* Protect a relative path in every directory of a writable root; NULL means every one of them.
 * `origin` is who says so, `who` in words for people. */
int finder_protect_anywhere(struct finder *finder, const char *root, const char *path,
			    const char *origin, const char *who);

/* The same without the path's own name, which the caller knows to be protected: only if a link is
 * on the way. */
int finder_protect_link(struct finder *finder, const char *path);

/* The same with its own name, if that is a link. */
int finder_protect_links(struct finder *finder, const char *path);

/* As finder_protect_link() for what links in a directory lead to, without going deeper. */
int finder_protect_links_in(struct finder *finder, const char *dir);

/* Use each entry of a directory that `wants` says yes to (NULL: all); `st` is NULL for what cannot
 * be looked at. Links are not followed. Stops at the first result but 0, and returns it. However
 * many there are: a run could fill a directory so that others are not reached. */
typedef int finder_fn(struct finder *finder, const char *path, const struct stat *st, void *data);
typedef bool finder_filter(const char *path, const void *data);
int finder_for_each(struct finder *finder, const char *dir, finder_filter *wants, finder_fn *use,
		    void *data);

/* A finder_fn: finder_protect_link() of an entry that is a link. */
int finder_protect_if_link(struct finder *finder, const char *path, const struct stat *st,
			   void *data);

/* The whole of a small regular file; false if there is none, or if it is larger than `out` takes.
 */
bool finder_read(const char *path, struct buf *out);

/* A path in the host's settings: absolute, in a home, or relative to `base`. False if it is none.
 */
bool finder_path(const struct finder *finder, const char *text, const char *base,
		 char ret[PATH_MAX]);
