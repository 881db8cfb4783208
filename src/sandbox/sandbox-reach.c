/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/sandbox-reach.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "layer/layer.h"
#include "sandbox/checkpoints.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

/* How long to wait for a holder that is starting or ending. */
#define PATIENCE_NS (20 * INT64_C(1000000000))

int sandbox_lock_or_connect(struct layer_record *record, int *ret_held, int *ret_socket,
			    struct atoll_error *err)
{
	const int64_t until_ns = clock_monotonic_ns() + PATIENCE_NS;

	*ret_held = *ret_socket = -1;
	do {
		int r = layer_record_hold(record);

		if (r >= 0) {
			*ret_held = r;
			return 0;
		}
		if (r == -ENOENT)
			return error_set(err, ATOLL_FAULT_REQUEST, ENOENT, "sandbox '%s' is gone",
					 record->info.id);
		if (r != -EBUSY)
			return error_set(err, ATOLL_FAULT_HOST, -r, "lock sandbox '%s'",
					 record->info.id);
		r = holder_connect(record, err);
		if (r >= 0)
			*ret_socket = r;
		if (r != -ENOENT)
			return r < 0 ? r : 0;
		/* A holder is starting or ending, or another command has the lock. */
		poll(NULL, 0, 2);
	} while (clock_monotonic_ns() < until_ns);
	return error_set(err, ATOLL_FAULT_POLICY, EBUSY,
			 "sandbox '%s' is in use by another command", record->info.id);
}

int sandbox_ask(int socket_fd, enum holder_request_type type, const char *name, bool is_forced,
		struct holder_reply *ret, struct atoll_error *err)
{
	struct holder_request request = {
		.version = HOLDER_VERSION, .type = type, .is_forced = is_forced};
	int r = name ? checkpoints_check_name(name, err) : 0;

	if (r < 0)
		return r;
	snprintf(request.name, sizeof request.name, "%s", name ? name : "");
	return holder_ask(socket_fd, &request, NULL, 0, ret, err);
}

int sandbox_lock_or_ask(struct layer_record *record, enum holder_request_type type,
			const char *name, int *ret_held, struct holder_reply *ret,
			struct atoll_error *err)
{
	int r;

	do {
		cleanup_fd int socket_fd = -1;

		r = sandbox_lock_or_connect(record, ret_held, &socket_fd, err);
		if (r == 0 && *ret_held < 0)
			r = sandbox_ask(socket_fd, type, name, false, ret, err);
	} while (r == -ECONNRESET);
	return r;
}
