/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct eventlog;
struct layer_changes;
struct parsed_notice;

/* All changes of a layer; or the one at index `i`. */
void eventlog_changes(struct eventlog *eventlog, uint32_t step,
		      const struct layer_changes *changes);
void eventlog_change(struct eventlog *eventlog, uint32_t step, const struct layer_changes *changes,
		     size_t i);
/* Files that the step changed directly, collected by eventlog_note_change(). At the end of a step;
 * step 0: of all steps. */
void eventlog_direct_changes(struct eventlog *eventlog, uint32_t step);

/* ---- for eventlog.c and eventlog-event.c ---- */

void eventlog_note_change(struct eventlog *eventlog, const struct parsed_notice *parsed);
void eventlog_forget_changed(struct eventlog *eventlog);
