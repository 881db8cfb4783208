/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct connection;

/* Parses bytes of a connection: one head, or a piece of a body. Calls the handler for a head.
 * Returns the number of bytes that were used; the caller keeps the others. */
size_t request_feed(struct connection *connection, const char *data, size_t size);
/* Can more bytes be used now? */
bool request_wants(const struct connection *connection);
