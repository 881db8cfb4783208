/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stdint.h>

struct box;
struct guest;
struct guest_call;

/* The box ends, or its processes do: what is pending gets ENOTCONN before this returns, and watches
 * GUEST_LOST. A box that is only frozen keeps its guests. The next request starts a new one. */
void guest_end(struct box *box);
/* The box is frozen: lists of which a part has come get ENOTCONN, and nothing of them is kept. */
void guest_freeze(struct box *box);
/* Hands the call over; it is called back in any case. */
void guest_ask(struct guest_call *call);
/* Ends it: whatever waits fails with this. */
void guest_drop(struct guest *guest, const struct atoll_error *err);
/* A call leaves the guest that has it. */
void guest_remove_call(struct guest_call *call);
/* A question without an answer. */
void guest_send_unwatch(struct guest *guest, uint64_t id);
