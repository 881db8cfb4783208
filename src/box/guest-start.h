/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>

struct guest;

/* Starts the program in the guest's box, as its user, with `channel_fd` (which stays the caller's)
 * as its standard input. What becomes of that is told later, by guest_drop() if it failed. */
int guest_start(struct guest *guest, int channel_fd, struct atoll_error *err);
void guest_leave_step(struct guest *guest);
void guest_kill(struct guest *guest);
