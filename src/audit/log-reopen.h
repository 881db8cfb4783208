/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;
struct audit_log;

/* Writes log/ID.edge if the log has grown by 16 KiB since. Ignores a failure: without the file the
 * next audit_reopen() reads the whole log. */
void audit_save_place(struct audit_log *log);
/* Commits a line for each hand-over from the key with the id `key` to the present key. */
int audit_add_hand_overs(struct audit_log *log, const char *key, struct atoll_error *err);
