/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/layer.h>
#include <stdbool.h>
#include <stdio.h>

/* `atoll run --apply`: applies the changes of a run at its end */
enum apply_when {
	APPLY_NEVER,
	APPLY_ASK,
	APPLY_AUTO,
};

/* "auto", "ask", "never". */
int apply_when_parse(const char *word, enum apply_when *ret, struct atoll_error *err);

/* Before the start: fails if a person must be asked and there is no terminal. */
int apply_check(enum apply_when when, struct atoll_error *err);

/* How that went. */
struct apply_outcome {
	bool was_tried;
	bool is_left;	 /* `auto`, but the command failed */
	bool has_failed; /* `problem` says why, and nothing was applied */
	struct atoll_error problem;
	struct atoll_apply_report report;
};

/* After the end: applies, or asks first, as `when` says. */
void apply_after(enum apply_when when, const struct atoll_result *result,
		 struct apply_outcome *ret);
/* Prints the outcome; a failure also if `is_quiet`. */
void apply_print(const struct apply_outcome *outcome, const struct atoll_result *result,
		 bool is_quiet, FILE *out);
