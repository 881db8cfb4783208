/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/server-state.h"

/* One connection: its phases, its deadline, its end. */

/* Closes `fd` on failure. 0 or -ENOMEM. */
int connection_new(struct server *server, struct listener *listener, int fd,
		   const struct sockaddr_in6 *peer);
void connection_free(struct connection *connection);
/* Ends the connection that has been idle for longest, to make room for another one. False: all of
 * them have an exchange. */
bool connection_evict(struct server *server);
/* The connection will be settled at the end of the event loop's round. */
void connection_touch(struct connection *connection);
void connection_settle(struct connection *connection);

/* ---- transitions ---- */

/* The next phase; asserts that it is a later one. */
void connection_move(struct connection *connection, enum connection_phase phase);
/* No further request: the connection ends after the present answer. Nothing in a later phase. */
void connection_close_after(struct connection *connection);
/* The connection will be freed when it is settled, and its exchange reports is_broken. */
void connection_break(struct connection *connection);
/* The same on behalf of the handler: waiting bytes are sent, the exchange is not reported broken.
 */
void connection_cut(struct connection *connection);

static inline bool connection_is_over(const struct connection *connection)
{
	return connection->phase >= CONNECTION_BROKEN;
}
