/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box-types.h"
#include "box/box.h"

const char *box_cause_name(enum box_cause cause)
{
	static const char *const names[] = {
		[BOX_CAUSE_NONE] = "none",	   [BOX_CAUSE_KILLED] = "killed",
		[BOX_CAUSE_TIME_OUT] = "time-out", [BOX_CAUSE_MEMORY] = "memory",
		[BOX_CAUSE_DISK] = "disk",	   [BOX_CAUSE_POLICY] = "policy",
		[BOX_CAUSE_BUDGET] = "budget",	   [BOX_CAUSE_EVICTED] = "evicted",
		[BOX_CAUSE_HOST] = "host",	   [BOX_CAUSE_INTERNAL] = "internal",
	};

	return names[cause];
}
