/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "e2b/e2b-protocol.h"

api_handler e2b_logs, e2b_logs_v1;
/* Starts to log the events of boxes; a second call does nothing. */
void e2b_logs_listen(struct e2b *e2b, struct daemon *daemon);
/* Stops, and frees all logs. */
void e2b_logs_done(struct e2b *e2b);
