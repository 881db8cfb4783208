/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct tenant;

/* A sandbox of a tenant's is removed: its log stays, and is still the tenant's. */
void stored_note_gone(struct daemon *daemon, const char *sandbox, const struct tenant *tenant);
/* Add up what tenants keep, on a thread; and when something has changed, or it is time. */
void stored_measure(struct daemon *daemon);
void stored_tick(struct daemon *daemon, bool is_due);
/* So much more is kept; and may it? -EDQUOT. */
void stored_add(struct tenant *tenant, uint64_t bytes);
int stored_check(const struct tenant *tenant, uint64_t bytes, struct atoll_error *err);
