/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/atoll.h>

/* Make a connection from egress safe to use: every text ends with a NUL, the verdict is valid. */
void connections_tidy(struct atoll_connection *connection);

/* Add a connection to the result: to the entry of the same name, port and verdict, or as a new one.
 */
void connections_add(struct atoll_result *result, const struct atoll_connection *connection);
