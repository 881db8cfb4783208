/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-rules.h"

#include "base/error.h"
#include "sandbox/holder-cell.h"
#include "sandbox/holder.h"
#include "spec/spec.h"

#include <signal.h>

/*
 * Event rules and the monitor of a sandbox
 *
 * They see the events of all steps, as the event log does. No person can be asked: a client sees
 * only its own step, and the event may belong to another one. So every verdict above "flag" kills
 * all steps. The sandbox and its changes stay.
 */

int holder_rules_open(struct holder *holder, struct atoll_error *err)
{
	if (holder->watch)
		return 0;
	return watching_open(holder->spec, NULL, holder->eventlog, NULL, &holder->watch, err);
}

void holder_rules_check(struct holder *holder)
{
	struct watch_verdict said;

	if (!watching_settle(holder->watch, &said) || said.verdict <= RULE_FLAG)
		return;
	for (size_t i = 0; i < holder->n_places; i++) {
		const struct holder_client *client = &holder->clients[i];

		if (client_has_step(client))
			holder_send_order(holder, INIT_SIGNAL_ALL, client->step_id, SIGKILL);
	}
}

void holder_rules_close(struct holder *holder)
{
	struct watch_verdict said;

	if (!holder->watch)
		return;
	eventlog_wait_for_hashes(holder->eventlog);
	watching_settle(holder->watch, &said);
	watching_finish(holder->watch);
	watching_settle(holder->watch, &said);
	eventlog_watch(holder->eventlog, &(struct eventlog_hooks){0});
	watching_close(holder->watch);
	holder->watch = NULL;
}
