/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/audit-base.h"

#include <stdbool.h>
#include <stdint.h>

struct audit_key;

/* A leaf of the store's tree of logs. */
struct audit_run_entry {
	const char *run;
	const char *kind; /* "closed", or "removed" */
	uint64_t size;	  /* lines of the log */
	const unsigned char *root;
};
/* Appends a leaf to the tree. `is_synced`: waits for the disk. */
int audit_runs_enter(int state_fd, const struct audit_key *key, const struct audit_run_entry *entry,
		     bool is_synced, struct atoll_error *err);
