/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <atoll/layer.h>
#include <stdbool.h>
#include <stddef.h>

struct daemon;
struct make;
struct tenant;

/* It runs then, or nothing is left of it. */
int make_sandbox(struct make *make, struct atoll_error *err);
/* On a thread, nobody being told: `owner` may be NULL. False: out of memory. */
bool start_holder_behind(struct daemon *daemon, const struct tenant *owner, const char *sandbox);
/* All of them, or none. */
int make_forks(const char *from, const char *checkpoint, size_t count, char (*ids)[ATOLL_ID_SIZE],
	       struct atoll_error *err);
