/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "eventlog/eventlog-inner.h"
#include "sandbox/holder-inner.h"
#include "spec/spec.h"

#include <signal.h>

/*
 * Who watches a sandbox
 *
 * Rules and monitor see all steps, as the record does. There is nobody to ask: a caller sees its
 * own step, and what is found may be another's. So whatever is more than a flag ends all that runs;
 * the sandbox itself stays, with its changes.
 */

int hold_watch_open(struct holder *holder, struct atoll_error *err)
{
	if (holder->watch)
		return 0;
	return watching_open(holder->spec, NULL, holder->recorder, NULL, &holder->watch, err);
}

void hold_watch_check(struct holder *holder)
{
	struct watch_said said;

	if (!watching_settle(holder->watch, &said) || said.verdict <= RULE_FLAG)
		return;
	for (size_t i = 0; i < holder->n_places; i++) {
		const struct hold_client *client = &holder->clients[i];

		if (client->is_used && client->step && !client->is_over)
			hold_order(holder, INIT_SIGNAL_ALL, client->step, SIGKILL);
	}
}

void hold_watch_close(struct holder *holder)
{
	struct watch_said said;

	if (!holder->watch)
		return;
	eventlog_wait_for_hashes(holder->recorder);
	watching_settle(holder->watch, &said);
	watching_finish(holder->watch);
	watching_settle(holder->watch, &said);
	eventlog_watch(holder->recorder, &(struct eventlog_hooks){0});
	watching_close(holder->watch);
	holder->watch = NULL;
}
