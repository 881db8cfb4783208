/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandbox/holder-detached.h"

/* Add a watcher; it owns `fd` on success. */
int watcher_add(struct holder *holder, struct detached_step *step, int fd, struct atoll_error *err);
/* The fixed part of a report, without what depends on the watcher. */
void watcher_fill_report(const struct detached_step *step, struct step_report *ret);
/* At the end of a round of the loop: send the reports that are due. */
void watchers_send_reports(struct holder *holder);
/* Read the watcher's calls, or its end. `can_send`: its socket accepts data again. */
void watcher_serve(struct holder *holder, struct detached_step *step, struct step_watcher *watcher,
		   bool can_send);
