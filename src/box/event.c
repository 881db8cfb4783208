/* SPDX-License-Identifier: Apache-2.0 */
#include "box/event.h"

#include "base/scope.h"

#include <stddef.h>

/* One list for all houses, of which a process has one, except tests: a listener says whose. */
static struct box_listener *listeners;
/* Where box_tell() goes on: a listener that takes itself off while it is called moves it. */
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

void box_listen(struct box_listener *listener)
{
	struct box_listener **at = &listeners;

	while (*at)
		at = &(*at)->next;
	listener->next = NULL;
	*at = listener;
}

void box_unlisten(struct box_listener *listener)
{
	for (struct box_listener **at = &listeners; *at; at = &(*at)->next) {
		if (*at != listener)
			continue;
		*at = listener->next;
		if (next_told == &listener->next)
			next_told = at;
		return;
	}
}

void box_tell(struct box *box, enum box_event event, struct process *process)
{
	/* What a listener does may make the next thing happen: each round has its own place. */
	struct box_listener **outer = next_told, *listener;

	next_told = &listeners;
	while ((listener = *next_told)) {
		next_told = &listener->next;
		if (listener->house == box->house && (listener->wants_processes || !process))
			listener->told(listener, event, box, process);
	}
	next_told = outer;
}
