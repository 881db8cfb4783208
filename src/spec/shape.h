/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;
struct tree;

/*
 * The shape of a job file: which keys, which types, which words. One table (in shape.c), the twin
 * of schema.json, looked at before anything is taken in, so that the code that takes values in need
 * not doubt them.
 */

/* Does the document have the shape of a job? */
int shape_check(const char *name, const struct tree *tree, struct atoll_error *err);

/* Does it ask for something that has a place in the file, and nothing behind it yet? */
int shape_check_available(const char *name, const struct tree *tree, struct atoll_error *err);

/* The shape of what egress reads about the network. */
int shape_check_network(const char *name, const struct tree *tree, struct atoll_error *err);
