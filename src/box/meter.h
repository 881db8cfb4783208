/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct box_last_look;
struct daemon;
struct daemon_box;

void meter_start(struct daemon_box *box);
void meter_stop(struct daemon_box *box);
/* On a thread, before the holder ends. */
void look_last(const char *sandbox, struct box_last_look *ret);
/* Counts that, and the next holder's counters from 0 on. */
void meter_end(struct daemon_box *box, const struct box_last_look *look);
/* Steps are counted as they start. */
void meter_listen(struct daemon *daemon);
