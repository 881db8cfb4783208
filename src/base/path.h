/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Paths as text: nothing here looks at the file system. */

/* Make an absolute path plain, in place: no empty, "." or ".." component, no trailing slash. ".."
 * above the root stays at the root. */
void path_normalize(char *path);

/* Is `path` the directory `above` or something beneath it? Both are plain absolute paths. */
bool path_is_within(const char *path, const char *above);

/* How many components a plain absolute path has: "/" has none. */
size_t path_depth(const char *path);

/* The last component of a plain path ("/" for the root). Points into `path`. */
const char *path_name(const char *path);

/* "dir/name" in fresh memory, or NULL. */
char *path_join(const char *dir, const char *name);

/*
 * Does a plain absolute path match a pattern? Patterns are absolute, too; `*`, `?` and `[set]` stay
 * within one component, and a component of `**` stands for any number of components, none
 * included. What lies beneath a match matches as well, because hiding a directory hides its
 * content.
 */
bool path_glob(const char *pattern, const char *path);

/* How long the part of a pattern is that is no pattern: the directory before its first special
 * character, without the slash ("/a/b" of "/a/b/c*"). */
size_t path_literal_length(const char *pattern);

/* Does the text hold a character that makes it a pattern? */
bool path_is_pattern(const char *text);

/* Does the text of a link have ".." behind a name, or anywhere in an absolute path? Then what it
 * leads to depends on what that name is: a directory, or a link to another place. */
bool path_has_late_dots(const char *text);
