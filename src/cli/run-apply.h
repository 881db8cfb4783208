/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/layer.h>
#include <stdbool.h>
#include <stdio.h>

/*
 * What becomes of a run's changes at its end: `atoll run --apply`
 */
enum apply_when {
	APPLY_NEVER,
	APPLY_ASK,
	APPLY_AUTO,
};

/* "auto", "ask", "never". */
int apply_when_parse(const char *word, enum apply_when *ret, struct atoll_error *err);

/* Before the start: is there somebody to ask? */
int apply_check(enum apply_when when, struct atoll_error *err);

/* How that went. */
struct apply_outcome {
	bool was_tried;
	bool is_left;	 /* `auto`, of a command that did not succeed */
	bool has_failed; /* `problem` says why, and nothing was applied */
	struct atoll_error problem;
	struct atoll_apply_report report;
};

/* After the end; ask, if it is to be asked. */
void apply_after(enum apply_when when, const struct atoll_result *result,
		 struct apply_outcome *ret);
/* In words. A failure is told also if `is_quiet`. */
void apply_print(const struct apply_outcome *outcome, const struct atoll_result *result,
		 bool is_quiet, FILE *out);
