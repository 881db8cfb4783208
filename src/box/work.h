/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"

#include <atoll/error.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * What blocks, on threads
 *
 * An item is embedded in what it belongs to, so that handing it over cannot fail. `run` is called
 * on some thread and must not touch what the loop's thread may change meanwhile: it works on what
 * is in the item alone. `done` is called on the loop's thread afterwards, exactly once; the item
 * may be freed or handed over again there. Items of one rank are begun in order, and end in any.
 *
 *	struct listing {
 *		struct work_item item;
 *		...
 *	};
 *	work_submit(daemon_work(daemon), &listing->item, WORK_NOW);
 */

enum work_rank {
	WORK_NOW,   /* somebody waits for it */
	WORK_LATER, /* removing, refilling, measuring: on few of the threads, at low priority */
	WORK_WRITE, /* writing files for clients, which may take as long as a command inside likes:
		     * on threads of its own, two for each owner */
	WORK_COMPARE, /* comparing files line by line, which takes memory of this process: on few
		       * threads, one for each owner */
	WORK_RANKS,
};

struct work_item {
	void (*run)(struct work_item *item);
	void (*done)(struct work_item *item);
	/* Who asked for it, a struct tenant; NULL: nobody. Whoever has many of them at work leaves
	 * some threads to others. */
	const void *owner;
	struct work_item *next;
};

struct work;
struct daemon;

/* `n_threads` 0: as many as suits the machine. */
int work_open(struct loop *loop, unsigned n_threads, struct work **ret, struct atoll_error *err);
/* Waits for what is running; what has not begun is not run any more, but its `done` is called. */
void work_close(struct work *work);
/* On the loop's thread. */
void work_submit(struct work *work, struct work_item *item, enum work_rank rank);
/* Items that wait for a thread. */
size_t work_waiting(const struct work *work, enum work_rank rank);
/* Is it being closed? For a `done` that would otherwise hand in another. */
bool work_is_closing(const struct work *work);
