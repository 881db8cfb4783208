/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

struct effects;

/* The statements of a receipt. All functions return NULL if there is no memory. */

/* The subjects: a list of resource descriptors. */
json_t *statement_subjects(const struct effects *effects);

struct statement_hardware {
	const char *root;  /* "none", "swtpm", "tpm", "sev-snp", "tdx" */
	json_t *tpm, *tsm; /* or NULL */
};

json_t *statement_provenance(const struct effects *effects,
			     const struct statement_hardware *hardware);
json_t *statement_receipt(const struct effects *effects, const struct statement_hardware *hardware);

/* A copy of an event without the members that all lines have. Bytes that are not UTF-8 become \xNN,
 * so that other programs can read the texts. */
json_t *statement_plain(const json_t *value);
