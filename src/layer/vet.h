/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct atoll_error;
struct plan;

/*
 * The marks of what is staged
 *
 * The list of changes was marked before it was copied, and a live sandbox may have written since.
 * So the marks are computed once more, from the staged copies, before the commit: nothing but a
 * rename follows. A change that is marked now, and was neither marked so in the list nor named
 * itself, is held back: vet_plan() notes it and returns -EAGAIN, and layer_apply() begins again
 * without it.
 */

/* Changes that are held back, whatever the list says. */
struct holds {
	struct hold {
		char *path;
		const char *mark; /* static words */
	} * items;
	size_t n;
};
void holds_done(struct holds *holds);
int holds_add(struct holds *holds, const char *path, const char *mark);
/* NULL if it is not held. */
const char *holds_find(const struct holds *holds, const char *path);

/* 0, or -EAGAIN with more in plan->holds, or another negative errno. */
int vet_plan(struct plan *plan, struct atoll_error *err);

struct atoll_change;
struct layer_result;
/* What differs between the host's object at `change->path` and the copy that will stand there:
 * `parts` of the change, and more. `before` and `after` have to be those of the two. */
unsigned vet_compare(const struct layer_result *result, int base_fd,
		     const struct atoll_change *change);

/* Would a run in mode `direct` be refused, or vetted, if it wrote this path of the workspace? Such
 * a file gets no second name on the host, by which it could be written all the same. */
bool vet_is_guarded(const char *root, const char *path);
