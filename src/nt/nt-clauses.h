/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/nt-request.h"

/*
 * What holds, clause by clause
 *
 * Every clause of a request with its mechanism and strength, also where the planner refuses: a plan
 * shows all of it.
 */

enum nt_strength {
	NT_ENFORCED,
	NT_WEAKER,  /* accepted by name */
	NT_MISSING, /* refused */
	NT_NOTE,
};

struct nt_clause {
	const char *clause; /* "filesystem.write" */
	char subject[512];
	enum nt_strength strength;
	const char *mechanism;
	const char *note; /* or NULL */
};

#define NT_CLAUSES_MAX (NT_ROOTS_MAX + NT_PROTECTED_MAX + 64)

/* Fill in up to NT_CLAUSES_MAX clauses. Returns their number. */
size_t nt_request_clauses(const struct nt_request *request, struct nt_clause *ret);

const char *nt_strength_word(enum nt_strength strength);

struct buf;

/* The plan for a person, and as JSON with the keys of the Linux programs. */
void nt_plan_text(const struct nt_request *request, const struct nt_clause *clauses, size_t n,
		  struct buf *out);
void nt_plan_json(const struct nt_request *request, const struct nt_clause *clauses, size_t n,
		  struct buf *out);
