/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What all processes of this pid namespace but the first use together; without a namespace those
 * that we may signal, because Landlock keeps signals to the sandbox. */
struct watch_sum {
	uint64_t memory; /* resident bytes that are no file's: what a process has written */
	uint64_t cpu_ms; /* with those that have ended */
};

/* Look at /proc once. Where no cgroup can be had this, repeated, is the bound on the whole tree. */
int watch_sum_up(bool is_bare, struct watch_sum *ret);
