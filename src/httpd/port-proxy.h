/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct box;
struct exchange;

/*
 * To a port in a box
 *
 * The request goes to a server inside, written anew, and its answer comes back, both as they come;
 * a WebSocket becomes a pipe in both directions. Who asks may do so: that was found out before.
 * What is answered inside is a stranger's: it is read strictly, or answered by 502.
 */

/* Takes the exchange over: answers it, sooner or later. For a box that runs. Sets
 * exchange_on_over() and reads the body: nobody may have done so, or who has knows no more of it
 * (api_detach_exchange()). */
void proxy_exchange(struct exchange *exchange, struct box *box, uint16_t port);
