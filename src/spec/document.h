/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct atoll_error;

/*
 * A YAML document as a tree
 *
 * The strict part of YAML that a person and any other reader agree on: no anchors, aliases, tags or
 * directives, one document, no key twice, every character visible to whoever reviews the file.
 */

enum tree_kind {
	TREE_TEXT,
	TREE_LIST,
	TREE_MAP,
};

/* What YAML 1.2 takes an unquoted word for. */
enum tree_type {
	TREE_STRING,
	TREE_NULL,
	TREE_BOOL,
	TREE_INTEGER,
	TREE_NUMBER,   /* with a fraction, an exponent or another base */
	TREE_DISPUTED, /* yes, no, on, off: truth values for readers of YAML 1.1, words for others
			*/
};

struct tree {
	enum tree_kind kind;
	enum tree_type type; /* of TREE_TEXT; what stands in quotes is a string */
	unsigned line;
	char *key; /* the name in the map above, or NULL */
	unsigned key_line;
	char *text; /* of TREE_TEXT */
	struct tree *items;
	size_t n_items;
};

/* `name` is what errors call the file, already fit for people. */
int tree_read(const char *name, const char *text, size_t size, struct tree **ret_tree,
	      struct atoll_error *err);
void tree_free(struct tree *tree);

/* The value under a key of a map, or NULL; NULL for what is no map, too. */
const struct tree *tree_get(const struct tree *map, const char *key);
