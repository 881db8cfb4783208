/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

struct atoll_error;
struct atoll_result;

/*
 * What is said after a run
 */

/* For people, in a few lines: which limit ended it, and what was refused. Paths beneath `here`, the
 * directory where the person stands, are shown from there. Nothing if there is nothing to say. */
void summary_text(const struct atoll_result *result, const char *here, FILE *out);

/* For programs, one line: the result, or the failure if nothing ran. `digest` is the contract's,
 * or NULL. */
void summary_json(const struct atoll_result *result, const char *digest, FILE *out);
/* The same after `atoll run --apply`. */
struct apply_outcome;
void summary_json_applied(const struct atoll_result *result, const char *digest,
			  const struct apply_outcome *applied, FILE *out);
void summary_json_failure(const struct atoll_error *failure, FILE *out);
