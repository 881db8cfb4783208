/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/process.h"

#include <stdbool.h>

struct box;

/* EINVAL with a text: no such directory, no such program; ENOENT: no such user. */
void process_start(struct box *box, const struct process_request *request, process_started *done,
		   void *data);
/* Of a box whose holder lived on: what runs in it is found again, and what ended lately. Calls back
 * once all are listed. Fine if nothing holds it. */
void process_adopt(struct box *box, void (*done)(void *data), void *data);
/* Not all of those of an earlier daemon have been found again yet. */
bool process_is_adopting(const struct box *box);
/* Of this box nobody waits any more: they are called with an error. */
void process_drop_starts(struct box *box);
