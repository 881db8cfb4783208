/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/server-state.h"

/* Reading from a connection. */

/* Is the body of a request being read? */
bool connection_reads_body(const struct connection *connection);
/* Can more bytes be used now? Not while the connection waits in a lane. */
bool connection_wants_more(const struct connection *connection);
/* Reads once from the socket and parses. */
void connection_read(struct connection *connection);
/* The same, but a body of a tenant is read in a piece of its lane. */
void connection_read_or_queue(struct connection *connection);
/* Continues the TLS handshake. */
void connection_handshake(struct connection *connection);
/* Parses bytes that were read before. Were some of them used? */
bool connection_feed_unread(struct connection *connection);
/* Replaces connection->unread by a copy of `data`. */
void connection_keep_unread(struct connection *connection, const char *data, size_t size);
