/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box-types.h"

#include <stdbool.h>

/*
 * What happens to boxes, for those who want to know
 *
 * life.c and process.c tell as it happens, on the loop's thread; listeners are called at once and
 * in the order in which they came. A listener may take itself (and only itself) off the list while
 * it is called. The box is still there when BOX_ENDED is told, and cannot be found any more.
 * Processes of a box that ends or is paused without its memory are still there while that is told,
 * and freed after it.
 */

struct box;
struct daemon;
struct process;
struct tenant;

enum box_event {
	BOX_CREATED,
	BOX_WAS_PAUSED,
	BOX_RESUMED,
	BOX_ENDED,	 /* box->cause */
	PROCESS_STARTED, /* also one that was found when the daemon started again */
	PROCESS_ENDED,	 /* process->end; its output can still be read */
};

const char *box_event_name(enum box_event event);

/* Whoever holds a process of this box lets go of it now. */
static inline bool box_event_frees(enum box_event event, const struct box *box)
{
	return event == BOX_ENDED || (event == BOX_WAS_PAUSED && !box->keeps_memory);
}

/* Of one tenant's boxes, or of all: listeners of one tenant cost nothing when something happens to
 * another one's boxes. */
struct box_listener {
	struct daemon *daemon;
	struct tenant *tenant; /* NULL: all */
	/* `process` is NULL for what is about the box. */
	void (*told)(struct box_listener *listener, enum box_event event, struct box *box,
		     struct process *process);
	bool wants_processes;
	struct box_listener *next, **link;
};

/* Embedded; `daemon` and `told` are set. */
void box_listen(struct box_listener *listener);
void box_unlisten(struct box_listener *listener);
/* For life.c and process.c. */
void box_report(struct box *box, enum box_event event, struct process *process);
