/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * When a process that waits gives memory back that was only used to get there
 *
 * Once, as soon as it seems that nothing happens any more; later on only if nothing does for long,
 * because what is wanted again costs a page fault each.
 */

#define REST_NS	      INT64_C(500000000)
#define REST_LATER_NS INT64_C(10000000000)

struct rest {
	int64_t due_ns; /* INT64_MAX: not before something happens */
	bool has_rested;
};

/* To be asked after each wait, with whether it ended because there is something to do. If it says
 * so, the caller rests now, and is not told again before it has been at work. */
static inline bool rest_is_due(struct rest *rest, int64_t now_ns, bool is_at_work)
{
	if (is_at_work) {
		rest->due_ns = now_ns + (rest->has_rested ? REST_LATER_NS : REST_NS);
		return false;
	}
	if (now_ns < rest->due_ns)
		return false;
	*rest = (struct rest){.due_ns = INT64_MAX, .has_rested = true};
	return true;
}
