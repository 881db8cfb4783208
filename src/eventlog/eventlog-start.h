/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct atoll_error;
struct eventlog;
struct plan;
struct spec;

/* The lines of the plan about the event log. */
void eventlog_describe(const struct spec *spec, struct plan *plan);

struct eventlog_start {
	uint32_t step;
	char *const *argv;
	const char *cwd;
	char *const *env;	 /* the log has the names of the variables only */
	const char *digest;	 /* of the contract; NULL: computed */
	const struct plan *plan; /* mechanisms; may be NULL */
	const char *input;	 /* digest of the workspace, where a receipt is wanted; else NULL */
	const char *commit;	 /* the commit of the workspace, likewise */
	const char *image;	 /* digest of the image, likewise */
};

/* Returns 0 once the line is in the file. */
int eventlog_start(struct eventlog *eventlog, const struct eventlog_start *start,
		   struct atoll_error *err);
