/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Names that the host trusts
 *
 * What the host would later execute or take its orders from: git's own files, settings of editors,
 * agents, package managers and CI, shell start-up files, our own state. Protected in every writable
 * root, at any depth, whether they exist or not, by name alone, so that no scan is needed and no
 * stand-in is made.
 *
 * Pure functions over text, without allocation: the guard asks them in the sandbox's first process,
 * for every path that is about to change. In this order:
 *   names_refuse()      trusted names other than git's
 *   names_git_inside()  beneath a ".git": then git_guard() decides
 *   git_next_marker()   beneath a git directory of another name: git_guard() again (see git.h)
 *
 * Names are compared the way the most forgiving file system would: case folded (ASCII, and the few
 * other characters that fold to ASCII: long s, the Kelvin sign, sharp s, ligatures), trailing dots
 * and blanks ignored, everything from a colon on ignored (NTFS streams), invisible code points
 * skipped, and 8.3 short names taken for what they may stand for ("git~1" for ".git").
 */

/*
 * What somebody wants to do to a name. A rename is two questions, NAMES_REMOVE of the source and,
 * by the type of the source, NAMES_RENAME_TO, NAMES_RENAME_DIR_TO or NAMES_SYMLINK of the target;
 * an exchange is these both ways. A hard link is NAMES_WRITE of the source (whoever has a second
 * name for a file can write it) and NAMES_RENAME_TO, or NAMES_SYMLINK, of the target.
 */
enum names_action {
	NAMES_WRITE,	 /* open what exists for writing, truncate, change times or attributes */
	NAMES_CREATE,	 /* a new and empty regular file, fifo or socket */
	NAMES_MKDIR,	 /* a new and empty directory */
	NAMES_SYMLINK,	 /* a new symbolic link, or one that arrives by rename or hard link */
	NAMES_RENAME_TO, /* a file arrives by rename or hard link, its content unseen */
	NAMES_RENAME_DIR_TO, /* a directory arrives by rename, its content unseen */
	NAMES_REMOVE,	     /* unlink, rmdir, or the source of a rename */
	NAMES_CHMOD,	     /* mode, owner or access list of what exists */
};

/*
 * Is the action on `path` (plain, absolute, at or beneath `root`) refused because of a trusted
 * name? Returns what is protected in words for people ("editor settings"), static, or NULL if the
 * name is harmless. The last component of the trusted name must lie beneath `root`: whoever grants
 * ~/.config/fish means it, whoever grants ~/.config does not mean .config/fish.
 *
 * Inside a component ".git" the answer is git_guard()'s and this function says NULL.
 *
 * Of a name "a/b" the first half may be made and filled, but a directory or a symbolic link must
 * not become `a` ready-made, because b may already be in it. `.jj/repo` is a directory or nothing:
 * a file there is a pointer.
 */
const char *names_refuse(const char *root, const char *path, enum names_action action);

/*
 * The same for a change that a person is shown before it counts: also names whose edits are wanted
 * and which somebody obeys nonetheless, such as instructions for agents.
 */
const char *names_mark(const char *root, const char *path, enum names_action action);

/*
 * The same for a FIFO or a socket, which is no edit that anybody wants: also names that are marked
 * only, and names of files that programs of the host read unasked, such as .gitignore. Whoever
 * opens a FIFO waits until somebody else does.
 */
const char *names_refuse_special(const char *root, const char *path);

/* What follows the outermost component ".git" beneath `root`, as a pointer into `path`: "hooks/x",
 * or "" if `path` is that .git itself. NULL if there is no such component. */
const char *names_git_inside(const char *root, const char *path);

/* Does folding make this one component ".git"? */
bool names_is_git(const char *component, size_t size);

/* Is this component the first half of some trusted "a/b" (".github", ".config")? */
bool names_is_container(const char *component);

/* Use what follows that first half in each protected name of the table ("workflows" of
 * ".github/workflows"), but for names with a "*". Stops at the first result but 0, and returns it.
 */
int names_for_each_in(const char *component, int (*use)(const char *rest, void *data), void *data);

/*
 * Folding, for whoever has names of his own to compare. names_fold() makes one component what it is
 * compared as; false, with the buffer unspecified, if it is longer than any file system allows.
 * names_same() then compares with a name in lower case, or with a short name that may stand for it.
 */
#define NAMES_FOLD_SIZE 1024
bool names_fold(const char *component, size_t size, char ret_folded[NAMES_FOLD_SIZE]);
bool names_same(const char *folded, const char *name);

/* The table, for the plan and the documents: groups of names with what they are, made of
 * trusted-names.txt. Names are in lower case; "a/b" means b in a, and a "*" in front or at the
 * end any text. */
struct names_group {
	const char *what;	    /* "editor settings" */
	const char *const *names;   /* NULL-terminated */
	const char *const *sources; /* who obeys each of them, and where that is written */
	bool is_mark;		    /* never refused: only names_mark() knows them */
};
extern const struct names_group names_groups[];
extern const size_t names_group_count;
