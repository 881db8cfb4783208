/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct exchange;
struct server;

/* Connections that leave the server, for WebSockets and the like. */

/* Returns the socket of the exchange, nonblocking; the caller owns it, and writes the head of the
 * answer itself. `ret_unread` gets the bytes that were read already (free it). With TLS the
 * descriptor is one end of a socket pair; the server relays between the other end and the client.
 * Call it before the answer was begun and after the body was read. `over` follows. -1 on failure:
 * then nothing has changed. */
int exchange_detach_socket(struct exchange *exchange, char **ret_unread, size_t *ret_size);

/* ---- for the server's files ---- */

/* Ends the relays of all TLS connections that have left the server. */
void tunnel_free_all(struct server *server);
