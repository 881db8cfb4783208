/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/layer.h>
#include <stdio.h>

/* The result of an apply: collects the fate of each change, and prints it */

struct apply_entry {
	char *path, *from, *why;
	enum atoll_change_kind kind;
	enum atoll_apply_fate fate;
};

struct apply_list {
	struct apply_entry *items;
	size_t n;
	bool has_failed; /* memory ran out: something is missing */
};

/* For atoll_apply_options.told; `data` is a struct apply_list. */
void apply_list_add(const struct atoll_change *change, enum atoll_apply_fate fate, const char *why,
		    void *data);
void apply_list_done(struct apply_list *list);

struct apply_place {
	const char *workspace; /* NULL: not known */
	bool is_dry;
	bool was_merged; /* as far as that was possible */
};

/* For people: the applied changes, the held changes with the command that applies them, the
 * conflicts with the options that resolve them. */
void apply_list_text(const struct apply_list *list, const struct atoll_apply_report *report,
		     const struct apply_place *place, FILE *out, FILE *problems);
/* For programs: one JSON object on one line. */
int apply_list_json(const struct apply_list *list, const struct atoll_apply_report *report,
		    const struct apply_place *place, FILE *out);
