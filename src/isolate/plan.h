/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/atoll.h>
#include <stddef.h>

struct buf;
struct spec;

/*
 * What a contract becomes on this host
 *
 * One line per clause: which mechanism keeps it, how strongly, and where the clause comes from. A
 * back end writes the lines from the same data that it builds the sandbox from, so that the plan
 * cannot promise what is not done.
 */
enum plan_strength {
	PLAN_ENFORCED,
	PLAN_WEAKER,  /* by a weaker mechanism than there could be; its note says how weak */
	PLAN_MISSING, /* not at all: the run will be refused */
	PLAN_NOTE,    /* nothing to enforce; worth knowing */
};

struct plan_line {
	char *clause;	 /* "filesystem.write", "limits.memory", "processes.namespaces" */
	char *subject;	 /* a path, a value; may be NULL */
	char *mechanism; /* "bind mount, read-only" */
	char *note;	 /* how far it reaches, or the fix; may be NULL */
	char *origin;
	enum plan_strength strength;
};

struct plan {
	struct plan_line *lines;
	size_t n_lines;
	bool is_short_of_memory; /* a line is lost; plan_render() then fails */
	/* Only by what each clause is kept: no notes, each mechanism once, and of a line nothing
	 * but clause, mechanism and strength. For the record of a run, which has no time to look at
	 * every place. */
	bool is_brief;
};

void plan_done(struct plan *plan);

/* All texts are copied; `subject`, `note` and `origin` may be NULL. */
void plan_add(struct plan *plan, enum plan_strength strength, const char *clause,
	      const char *subject, const char *mechanism, const char *note, const char *origin);

/* The first line that is missing, or NULL. */
const struct plan_line *plan_first_missing(const struct plan *plan);

/* For people or for programs. `spec` is finished. */
int plan_render(const struct plan *plan, const struct spec *spec, enum atoll_format format,
		struct buf *out, struct atoll_error *err);
