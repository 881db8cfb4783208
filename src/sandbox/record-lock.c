/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/record-lock.h"

#include "base/clock.h"
#include "base/fd.h"
#include "layer/layer.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

int sandbox_lock_record(struct layer_record *record, int patience_ms, struct atoll_error *err)
{
	const int64_t until_ns = clock_monotonic_ns() + patience_ms * INT64_C(1000000);
	int r;

	while ((r = layer_record_lock(record, false, err)) == -EBUSY &&
	       clock_monotonic_ns() < until_ns)
		poll(NULL, 0, 5);
	return r;
}

void sandbox_unlock_record(struct layer_record *record)
{
	if (record->lock_fd >= 0)
		close(take_fd(&record->lock_fd));
}
