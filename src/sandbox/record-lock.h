/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scope.h"
#include "layer/layer.h"

static inline void scope_close_record(struct layer_record **record)
{
	layer_record_close(*record);
}
#define cleanup_record cleanup_with(scope_close_record)

/* How long a command waits for a record's lock. An apply in another terminal keeps it while a
 * person reads; the holder keeps it for a checkpoint. */
#define SANDBOX_LOCK_MS 10000

/* Lock the record; retry every 5 ms for `patience_ms` while another process has it (-EBUSY). */
int sandbox_lock_record(struct layer_record *record, int patience_ms, struct atoll_error *err);
/* Accepts a record that is not locked. */
void sandbox_unlock_record(struct layer_record *record);
