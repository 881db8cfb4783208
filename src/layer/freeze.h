/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;
struct drafts;
struct layer_changes;

/*
 * The changes of a sandbox, copied before they are read
 *
 * An export reads each file after the list of changes was marked, and steps of the sandbox may run
 * meanwhile. So what was added or changed is copied first, into records/ID/frozen-RANDOM, and the
 * marks, the patch and the tar are made from the copies. A run that has ended is not copied: nobody
 * writes its layer any more.
 */

/* Copy what the drafts say is there after the run; the stack of `changes` reads the copies from
 * then on. -EAGAIN (ATOLL_FAULT_POLICY) if something was replaced meanwhile: read the list again.
 */
int freeze_drafts(struct layer_changes *changes, struct drafts *drafts, struct atoll_error *err);

/* Remove the copies; by atoll_changes_close(). */
void freeze_end(struct layer_changes *changes);
