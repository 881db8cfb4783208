/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/report-tree.h"

#include "auditcmd/processes.h"
#include "auditcmd/report-model.h"
#include "auditcmd/report.h"

/* Processes as arrays, which are short; report/script.js has the order of the values. Parents
 * come before their children, so a prefix of the list is a tree, too. */

static json_t *make_act(const struct report *report, const struct process_act *act)
{
	return json_pack("[s, i, o, s, s, b]", act->kind ? act->kind : "", (int)act->tone,
			 report_time(report, act->time_ns), act->text, act->allow ? act->allow : "",
			 act->is_denial);
}

json_t *report_tree(const struct report *report)
{
	const struct processes *all = report->processes;
	json_t *items = json_array();
	uint64_t n_acts = 0, n_left = all->n_left_out;

	for (uint32_t i = 0; i < all->n; i++) {
		const struct process *process = &all->items[i];
		json_t *acts;

		if (i >= REPORT_PROCESSES_MAX) {
			n_left += all->n - i;
			break;
		}
		acts = json_array();
		for (uint32_t j = process->first_act; j != PROCESS_NONE; j = all->acts[j].next)
			if (n_acts++ < REPORT_ACTS_MAX)
				json_array_append_new(acts, make_act(report, &all->acts[j]));
		json_array_append_new(
			items,
			json_pack("[i, I, I, s, o, i, i, o]",
				  process->up == PROCESS_NONE ? -1 : (int)process->up,
				  (json_int_t)process->pid,
				  (json_int_t)(process->is_indirect ? process->parent_pid : 0),
				  process->text, report_time(report, process->time_ns),
				  (int)process->n_below, (int)process->step, acts));
	}
	return json_pack("{s:o, s:I, s:I, s:I}", "items", items, "total", (json_int_t)all->n,
			 "left_out", (json_int_t)n_left, "acts_left_out",
			 (json_int_t)(n_acts > REPORT_ACTS_MAX ? n_acts - REPORT_ACTS_MAX : 0));
}
