/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Operations on a tree, for test_layers_random.py
 *
 * The same operation has to end the same way on a layer and on a plain directory, so that both can
 * be compared. What differs by nature is told by the one who did it first (on the layer) and done
 * again by the other:
 *   - rename() of a directory that is the host's gives EXDEV on an overlay: then the tree is copied
 *     and removed, as mv does, and `copies` says so;
 *   - writing to a file of the host's that has several names makes it a file of its own on an
 *     overlay: `splits` says whether `a` (1) or `b` (2) became one.
 * Everything that walks does so in the order of names, so that a walk that fails half way leaves
 * the same on both sides.
 */

struct op {
	char verb[16];
	char a[4096], b[4096]; /* beneath the current directory; b may also be a target or a name */
	uint64_t n[3];
	bool copies;
	unsigned splits;
	int result; /* 0 or negative errno */
};

/* Does it. `copies` is set if EXDEV came and `is_first`; else it is what decides. */
int op_perform(struct op *op, bool is_first);

/* ---- what operations are made of; 0 or negative errno ---- */

/* The names in a directory, sorted; the caller's to free with names_free(). */
int names_read(const char *path, char ***ret, size_t *ret_n);
void names_free(char **names, size_t n);

/* One object or a tree with modes, mtimes, user xattrs and holes. `is_whole`: also with hard links
 * within it, which an overlay's inode numbers do not always tell, and opening for a moment what is
 * closed. */
int tree_copy(const char *from, const char *to, bool is_whole);
int tree_remove(const char *path);
/* One name of several becomes a file of its own. */
int file_split(const char *path);

/* A generator that is the same everywhere. */
uint64_t random_next(uint64_t *state);
void random_fill(uint64_t seed, char *data, size_t size);

/* Bytes as words without blanks, and back. */
void word_write(const char *bytes);
void word_read(const char *word, char *ret, size_t size);
