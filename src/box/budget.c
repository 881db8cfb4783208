/* SPDX-License-Identifier: Apache-2.0 */
#include "box/budget.h"

#include "box/box-types.h"
#include "box/box.h"
#include "box/config.h"
#include "box/daemon-state.h"
#include "box/db.h"
#include "box/row.h"

#include <stdio.h>

/*
 * A tenant's budget
 *
 * What all its boxes have used, ever, against what its configuration allows: cpu-seconds,
 * GiB-seconds of memory, bytes, steps. Once one of them is used up its boxes are paused, or ended,
 * and there are no new ones until somebody raises it.
 */

bool tenant_is_spent(const struct tenant *tenant, char *ret_why, size_t size)
{
	const struct daemon_tenant *mine = inner_tenant(tenant);
	const struct config_budget *budget = &mine->budget;
	const struct box_usage *usage = &mine->usage;
	const struct {
		const char *what;
		double used;
		uint64_t most;
	} sums[] = {
		{"cpu-seconds", usage->cpu_s, budget->cpu_s},
		{"GiB-seconds of memory", usage->gib_s, budget->gib_s},
		{"bytes of network", (double)usage->bytes_in + (double)usage->bytes_out,
		 budget->bytes},
		{"steps", (double)usage->n_steps, budget->steps},
	};

	for (size_t i = 0; i < 4; i++) {
		if (sums[i].most == UINT64_MAX || sums[i].used < (double)sums[i].most)
			continue;
		snprintf(ret_why, size, "the budget is used up: %.0f of %llu %s", sums[i].used,
			 (unsigned long long)sums[i].most, sums[i].what);
		return true;
	}
	return false;
}

bool tenant_has_no_step_left(const struct tenant *tenant, char *ret_why, size_t size)
{
	const struct daemon_tenant *mine = inner_tenant(tenant);
	const uint64_t used = mine->usage.n_steps, most = mine->budget.steps;

	if (most == UINT64_MAX || (used < most && tenant->n_starting < most - used))
		return false;
	snprintf(ret_why, size, "the budget is used up: %llu steps of %llu, and %llu are starting",
		 (unsigned long long)used, (unsigned long long)most,
		 (unsigned long long)tenant->n_starting);
	return true;
}

static void stop_work(struct daemon_tenant *tenant)
{
	struct daemon_box *mine = tenant->oldest, *next;

	for (; mine; mine = next) {
		next = mine->newer;
		if (mine->box.state != BOX_RUNNING)
			continue;
		if (tenant->budget.then == CONFIG_BUDGET_END)
			box_kill(&mine->box, BOX_CAUSE_BUDGET, NULL, NULL);
		else
			box_pause(&mine->box, true, NULL, NULL);
	}
}

static void write_usage(struct daemon_tenant *tenant)
{
	const struct box_usage *usage = &tenant->usage;

	tenant->is_dirty = false;
	db_write(tenant->tenant.daemon->db, DB_SOON, NULL, NULL,
		 "INSERT OR REPLACE INTO usage(tenant, cpu_s, gib_s, bytes_in, bytes_out, steps)"
		 " VALUES(?,?,?,?,?,?)",
		 "sddiii", tenant->tenant.id, usage->cpu_s, usage->gib_s, (int64_t)usage->bytes_in,
		 (int64_t)usage->bytes_out, (int64_t)usage->n_steps);
}

/* Every second; to the database twice a minute. */
void budget_tick(struct daemon *daemon, bool writes)
{
	char why[192];
	bool is_spent;

	for (struct daemon_tenant *tenant = daemon->tenants; tenant; tenant = tenant->next) {
		if (!tenant->is_dirty)
			continue;
		is_spent = tenant_is_spent(&tenant->tenant, why, sizeof why);
		if (is_spent)
			stop_work(tenant);
		/* Write a used-up budget at once: a killed daemon must not forget it. */
		if (!writes && !is_spent)
			continue;
		write_usage(tenant);
		for (struct daemon_box *mine = tenant->oldest; mine; mine = mine->newer) {
			if (mine->written_cpu_s != mine->usage.cpu_s ||
			    mine->written_steps != mine->usage.n_steps) {
				mine->written_cpu_s = mine->usage.cpu_s;
				mine->written_steps = mine->usage.n_steps;
				row_update(mine);
			}
		}
	}
}
