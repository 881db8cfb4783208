/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/layer.h>
#include <stdio.h>

/*
 * A person chooses at the terminal which changes to apply
 *
 * For `run --apply=ask` and `apply --pick`. Lists the changes, then asks: [y]es (all unmarked
 * changes), [d]iff, [p]ick file by file, or [N]o. Names and texts come from the sandbox and are
 * escaped. No answer means no.
 */

enum pick_answer {
	PICK_NO,
	PICK_YES,
	PICK_DIFF,
	PICK_EACH,
	PICK_QUIT, /* while picking: no to all others */
};

/* The meaning of a typed line; the default is no. */
enum pick_answer pick_meaning(const char *line);

/* Prints one line about a change: kind, name, and its mark or conflict. */
void pick_line(FILE *out, const struct atoll_change *change);

struct pick_options {
	bool picks;	/* ask about each file, not about all at once */
	bool with_text; /* show the diff before the question */
	bool merges;	/* as in atoll_apply_options */
	bool is_forced;
	/* As in atoll_apply_options; may be NULL. */
	void (*told)(const struct atoll_change *change, enum atoll_apply_fate fate, const char *why,
		     void *data);
	void *data;
};

/* Asks about the changes of a record, and applies those that were chosen. 1 if some were
 * applied, 0 if none, -ENOTTY without a message if there is no terminal, or another negative
 * errno. */
int pick_and_apply(const char *id, const struct pick_options *options,
		   struct atoll_apply_report *ret, struct atoll_error *err);
