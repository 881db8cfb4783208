/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"

/*
 * Bytes between two sockets, in both directions
 *
 * Each direction has a buffer: it is read when that is empty, and written until it is. One that has
 * ended is shut on its other side; when both have, or one side is gone, the relay is.
 */

struct relay;
typedef struct ssl_st SSL;

struct relay_request {
	struct loop *loop;
	struct loop_lane *lane; /* whose turns it takes; outlives it; NULL: none's */
	int outer_fd, inner_fd; /* nonblocking; the relay's, and closed with it */
	SSL *ssl; /* of the outer one, with its handshake done; NULL: none; likewise */
	/* What is sent first, in each direction; copied. */
	const char *to_outer, *to_inner;
	size_t to_outer_size, to_inner_size;
	/* Called when it has ended by itself, and is freed after that. */
	void (*over)(struct relay *relay, void *own);
	void *own;
};

/* Starts from the loop, not at once. NULL: out of memory, or the loop's failure; then the
 * descriptors are still the caller's. */
struct relay *relay_new(const struct relay_request *request);
/* Cuts it. Fine with NULL. */
void relay_free(struct relay *relay);
