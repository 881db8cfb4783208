/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct box;
struct exchange;
struct load;

/*
 * A request for a program in a box
 *
 * The request is written anew and sent to a port inside, and the answer comes back, both in pieces.
 * A WebSocket becomes a relay. The caller has checked the access. The answer comes from a program
 * that may be hostile: it is parsed strictly, or answered by 502.
 */

/* Serves the exchange, now or later; the box has to run. Sets exchange_on_over() and reads the
 * body, so the caller must not have done so (api_detach_exchange()). */
void proxy_exchange(struct exchange *exchange, struct box *box, uint16_t port, struct load *load);
