/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct tenant;

/*
 * Memory of the daemon that a tenant's clients fill
 *
 * Request bodies, standard input that a process does not read, code that waits for its kernel,
 * changes of files that nobody fetches: each has a bound of its own, and a tenant may have many of
 * each. All of them together are counted in tenant->held, at most TENANT_HELD_MAX. Answers that
 * wait to be read are counted apart (httpd/stream.h).
 */
#define TENANT_HELD_MAX (64U << 20)

/* What one of them holds. Embedded; zeroed holds nothing. */
struct held {
	struct tenant *tenant;
	size_t bytes;
};

/* It holds `bytes` from now on. False: that would be too much for its tenant, and nothing has
 * changed. Less than before always succeeds. `tenant` NULL: not counted. */
bool held_set(struct held *held, struct tenant *tenant, size_t bytes);
void held_drop(struct held *held);
