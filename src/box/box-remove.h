/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>

struct box_last_look;
struct daemon;

/* On a thread, some at a time; `done` may be NULL. */
void remove_sandbox(struct daemon *daemon, const char *sandbox, void (*done)(void *data),
		    void *data);
/* The same for one that was a box: what it has used is looked at first, on the same thread. `look`
 * has to be there until `done`. */
void remove_measured(struct daemon *daemon, const char *sandbox, struct box_last_look *look,
		     void (*done)(void *data), void *data);
/* All in the store that no row names. At the start, before anything is made. */
int remove_strangers(struct daemon *daemon, struct atoll_error *err);
/* Of the store: what a kill has left half made or half removed, if it is old enough. */
void remove_tidy(struct daemon *daemon);
