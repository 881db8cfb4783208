/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "layer/draft.h"
#include "spec/git.h"

/*
 * Marks: the question "would the host execute or trust this?" about one path
 *
 *   marks.c        who is asked, in which order; whole directories
 *   mark-git.c     the inside of git directories, whatever their name
 *   mark-link.c    where a symbolic link leads to
 */

struct spec;

struct marker {
	struct drafts *drafts;
	const char *root;    /* the workspace, plain and absolute */
	struct spec *obeyed; /* `protect` lines: what the host's settings and links lead to now */
	/* Of the directory that was asked about last: many paths lie in the same. */
	char *git_dir;
	bool was_git, is_git;
};

/* What stands at `path` once the changes are made, or stood there before; false if nothing. */
bool mark_stat_after(const struct marker *marker, const char *path, struct stat *ret);
bool mark_stat_before(const struct marker *marker, const char *path, struct stat *ret);

/* Is an absolute path protected by the contract or obeyed by the host, or does it hold such a path?
 */
bool mark_is_near_protected(const struct marker *marker, const char *whole);

/* Is this path of the workspace, once the changes are made, a git directory of any name, or in a
 * part of one? */
bool mark_is_in_git_dir(const struct marker *marker, const char *path);

/* `whole` is the absolute path, `path` its end beneath the workspace. Static words, or NULL. */
const char *mark_git(struct marker *marker, const char *whole, const char *path,
		     enum names_action action, bool has_content);

/* Of the link at `path`. */
const char *mark_link(struct marker *marker, const char *path);
/* Is this its answer that the link leads out of the workspace, or can be made to? */
bool mark_is_outside_link(const char *mark);
