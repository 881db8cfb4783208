/* SPDX-License-Identifier: Apache-2.0 */
#include "box/held.h"

#include "box/box-types.h"

bool held_set(struct held *held, struct tenant *tenant, size_t bytes)
{
	if (!held->tenant)
		held->tenant = tenant;
	if (!held->tenant)
		return true;
	if (bytes > held->bytes && held->tenant->held + (bytes - held->bytes) > TENANT_HELD_MAX)
		return false;
	held->tenant->held += bytes - held->bytes;
	held->bytes = bytes;
	return true;
}

void held_drop(struct held *held)
{
	if (held->tenant)
		held->tenant->held -= held->bytes;
	*held = (struct held){0};
}
