/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * The text of a job file, as a tree
 *
 * The Windows programs have no YAML library. This reader accepts the part of YAML that job files
 * are written in: maps and lists by indentation, [lists] and {maps} in brackets (so all of JSON),
 * words on one line, words in quotes, comments. Everything else of YAML is an error with its line:
 * anchors, tags, directives, documents, "|" and ">" texts, words over several lines, tabs as
 * indentation, a key twice. What this reader accepts means the same to the reader of the Linux
 * programs; test-job-tree.c compares both.
 */

enum job_node_kind {
	JOB_TEXT,
	JOB_LIST,
	JOB_MAP,
};

struct job_node {
	enum job_node_kind kind;
	bool is_quoted; /* of JOB_TEXT */
	unsigned line;
	const char *key;    /* in a map */
	const char *text;   /* of JOB_TEXT; an absent value is "" without quotes */
	size_t first, next; /* nodes of the tree by number; 0: none */
};

#define JOB_TEXT_MAX  (1 << 20)
#define JOB_DEPTH_MAX 32
#define JOB_NODES_MAX 8192

struct job_tree {
	struct job_node *nodes; /* the first is the top */
	size_t n_nodes, room;
	char *text;
	size_t used;
};

/* Read a whole text. `name` is what errors call it. Returns 0, -EINVAL, -E2BIG or -ENOMEM. */
int job_tree_read(const char *name, const char *text, size_t size, struct job_tree *ret,
		  struct atoll_error *err);
void job_tree_done(struct job_tree *tree);

/* The value under a key of a map, or NULL. */
const struct job_node *job_tree_get(const struct job_tree *tree, const struct job_node *map,
				    const char *key);

/* The items of a list or map: the first, and the one behind another; NULL at the end. */
const struct job_node *job_tree_first(const struct job_tree *tree, const struct job_node *node);
const struct job_node *job_tree_next(const struct job_tree *tree, const struct job_node *node);
