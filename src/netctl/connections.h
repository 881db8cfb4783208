/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/atoll.h>

/* Put what came over a socket into form: every text ended, the verdict one of ours. */
void connections_tidy(struct atoll_connection *connection);

/* Enter a connection into the result: into the entry that is like it, or a new one. */
void connections_add(struct atoll_result *result, const struct atoll_connection *connection);
