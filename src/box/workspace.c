/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/config-grants.h"
#include "box/config.h"
#include "box/daemon-state.h"
#include "layer/layer.h"

#include <stdio.h>

/*
 * Whose directory a box's home is a layer over
 *
 * Mostly the daemon's own, which all boxes of a template have in common, and nobody's changes are
 * put there. One that was made from a contract with a granted workspace has the tenant's; so have
 * what was forked from it, and what came of its snapshots. What counts is the configuration as it
 * is now, not as it was when the box was made.
 */

const struct config_tenant *tenant_grants(const struct tenant *tenant)
{
	return config_find_tenant(tenant->daemon->config, tenant->name);
}

int box_granted_workspace(const struct config_tenant *grants, const char *sandbox,
			  char ret[PATH_MAX], struct atoll_error *err)
{
	struct layer_record *record = NULL;
	int r = layer_record_open(sandbox, &record, err);

	if (r < 0)
		return r;
	if (config_has_workspace(grants, record->info.workspace))
		snprintf(ret, PATH_MAX, "%s", record->info.workspace);
	else
		r = error_set(err, ATOLL_FAULT_POLICY, 0,
			      "this sandbox's workspace is no directory that the daemon's "
			      "configuration grants the tenant ('workspaces'), so there is nothing "
			      "to apply to; export carries the changes away");
	layer_record_close(record);
	return r;
}
