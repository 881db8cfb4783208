/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/audit-base.h"

#include <atoll/audit.h>
#include <stdbool.h>
#include <stdint.h>

struct audit_trust;

/* A line of the store's tree of logs. */
struct audit_entry {
	char run[ATOLL_ID_SIZE];
	uint64_t size;
	unsigned char root[HASH_SIZE];
	bool is_removed;
	uint64_t line; /* from 1 */
};

/* The store's tree of logs, checked. */
struct audit_runs {
	struct audit_entry *items; /* by run, then by size; only those after a removal */
	size_t n;
	struct atoll_verified found; /* the result of the check */
	uint64_t n_lost;	     /* lines that were lost in a power failure */
	char *note;		     /* the signed head, or NULL */
	uint64_t time_ns;	     /* when the tree was read */
};

/* Reads and checks the tree. 0 whatever the check found; a negative errno if a file cannot be read.
 */
int audit_runs_read(int state_fd, const struct audit_trust *trust, struct audit_runs *ret,
		    struct atoll_error *err);
/* The entry of the largest size, or the removal, of a run; NULL if the tree has none. */
const struct audit_entry *audit_runs_find(const struct audit_runs *runs, const char *run);
/* All entries of a log that was closed under this id. The present log has to match each of them. */
size_t audit_runs_known(const struct audit_runs *runs, const char *run,
			const struct audit_entry **ret);
void audit_runs_done(struct audit_runs *runs);
