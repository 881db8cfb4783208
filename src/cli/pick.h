/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/layer.h>
#include <stdio.h>

/*
 * Choosing at the terminal what of a run comes onto the host
 *
 * For `run --apply=ask` and `apply --pick`: the changes are listed, then [y]es (all but the marked
 * ones), [d]iff, [p]ick file by file, or [N]o. Names and texts come from the sandbox, and nothing
 * of them is obeyed by the terminal. Whoever does not answer, or is not there, says no.
 */

enum pick_answer {
	PICK_NO,
	PICK_YES,
	PICK_DIFF,
	PICK_EACH,
	PICK_QUIT, /* while picking: the rest is not wanted */
};

/* What a typed line means; the default is no. */
enum pick_answer pick_meaning(const char *line);

/* One line about a change: what, name, and why it is marked or conflicts. Ends with a newline. */
void pick_line(FILE *out, const struct atoll_change *change);

struct pick_options {
	bool picks;	/* begin with the files, do not ask about all */
	bool with_text; /* show the diff at once, not only when it is asked for */
	bool merges;	/* as in atoll_apply_options */
	bool is_forced;
	/* As in atoll_apply_options; may be NULL. */
	void (*told)(const struct atoll_change *change, enum atoll_apply_fate fate, const char *why,
		     void *data);
	void *data;
};

/* Ask about a record, and apply what was chosen. 1 if something was, 0 if nothing was wanted or
 * there is nothing, -ENOTTY without a text if there is nobody to ask, or a negative errno. */
int pick_and_apply(const char *id, const struct pick_options *options,
		   struct atoll_apply_report *ret, struct atoll_error *err);
