/* SPDX-License-Identifier: Apache-2.0 */
#include "box/event.h"

#include "base/scope.h"
#include "box/box-types.h"
#include "box/daemon-state.h"
#include "box/process.h"

#include <stddef.h>

/* Of all tenants, and of all daemons, of which a process has one, except tests: a listener says
 * whose. */
static struct box_listener *listeners;
/* Where box_report() goes on: a listener that takes itself off while it is called moves it. */
static struct box_listener **next_told;

const char *box_event_name(enum box_event event)
{
	static const char *const names[] = {
		[BOX_CREATED] = "created",	    [BOX_WAS_PAUSED] = "paused",
		[BOX_RESUMED] = "resumed",	    [BOX_ENDED] = "ended",
		[PROCESS_STARTED] = "step-started", [PROCESS_ENDED] = "step-ended",
	};

	return names[event];
}

static struct box_listener **list_of(struct tenant *tenant)
{
	return tenant ? &tenant->listeners : &listeners;
}

/* Listeners of all are called in the order in which they came: there are a few of them. */
void box_listen(struct box_listener *listener)
{
	struct box_listener **at = list_of(listener->tenant);

	while (!listener->tenant && *at)
		at = &(*at)->next;
	listener->next = *at;
	if (listener->next)
		listener->next->link = &listener->next;
	listener->link = at;
	*at = listener;
}

void box_unlisten(struct box_listener *listener)
{
	if (!listener->link)
		return;
	*listener->link = listener->next;
	if (listener->next)
		listener->next->link = listener->link;
	if (next_told == &listener->next)
		next_told = listener->link;
	listener->link = NULL;
}

static void report_list(struct box_listener **list, struct box *box, enum box_event event,
			struct process *process)
{
	/* What a listener does may make the next thing happen: each round has its own place. */
	struct box_listener **outer = next_told, *listener;

	next_told = list;
	while ((listener = *next_told)) {
		next_told = &listener->next;
		if (listener->daemon == box->daemon && (listener->wants_processes || !process))
			listener->told(listener, event, box, process);
	}
	next_told = outer;
}

void box_report(struct box *box, enum box_event event, struct process *process)
{
	report_list(&listeners, box, event, process);
	if (box->tenant)
		report_list(&box->tenant->listeners, box, event, process);
}
