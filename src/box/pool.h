/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/layer.h>
#include <stdbool.h>
#include <stddef.h>

struct daemon;
struct kind;

/* One that is parked: true, and it is the caller's. Counts the demand. */
bool pool_get(struct daemon *daemon, struct kind *kind, char ret[ATOLL_ID_SIZE]);
void pool_tick(struct daemon *daemon);
/* Its parked ones are removed. */
void pool_forget(struct daemon *daemon, const struct kind *kind);
size_t pool_parked(const struct daemon *daemon);
/* At the end: all that are parked are removed, at once. */
void pools_free(struct daemon *daemon);
