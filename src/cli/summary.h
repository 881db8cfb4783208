/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

struct atoll_error;
struct atoll_result;

/* The summary after a run */

/* For people, in a few lines: the limit that stopped the run, and what was refused. Paths below
 * `here`, the current directory, are relative to it. Prints nothing if there is nothing to
 * report. */
void summary_text(const struct atoll_result *result, const char *here, FILE *out);

/* For programs, one line of JSON: the result, or the error if nothing ran. `digest` is that of
 * the contract, or NULL. */
void summary_json(const struct atoll_result *result, const char *digest, FILE *out);
/* The same after `atoll run --apply`. */
struct apply_outcome;
void summary_json_applied(const struct atoll_result *result, const char *digest,
			  const struct apply_outcome *applied, FILE *out);
void summary_json_failure(const struct atoll_error *failure, FILE *out);
