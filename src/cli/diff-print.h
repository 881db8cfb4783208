/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/layer.h>
#include <stdio.h>

struct pager;

/*
 * Prints a list of changes
 *
 * `wanted` selects items of the list; NULL: all. Names and texts come from the sandbox: they are
 * escaped on a terminal, and unchanged in a file or pipe.
 */
struct diff_view {
	struct atoll_changes *changes;
	const bool *wanted;
};

/* With texts, marked files first. 0 or a negative errno. */
int diff_print_text(const struct diff_view *view, struct pager *pager, struct atoll_error *err);
int diff_print_stat(const struct diff_view *view, struct pager *pager, struct atoll_error *err);
void diff_print_names(const struct diff_view *view, FILE *out);
