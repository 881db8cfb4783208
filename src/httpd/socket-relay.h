/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"

/*
 * Copies bytes between two sockets, in both directions
 *
 * Each direction has a buffer. A socket is read when the buffer is empty, and the other one is
 * written until it is empty again. When one socket has ended, the other one is shut for writing.
 * The relay ends when both directions have ended, or on an error.
 */

struct relay;
typedef struct ssl_st SSL;

struct relay_request {
	struct loop *loop;
	struct loop_lane *lane; /* outlives the relay; NULL: none */
	int outer_fd, inner_fd; /* nonblocking; the relay closes them */
	SSL *ssl; /* of the outer socket, after the handshake; NULL: none; the relay frees it */
	/* Bytes that are sent first, in each direction; copied. */
	const char *to_outer, *to_inner;
	size_t to_outer_size, to_inner_size;
	/* Called when the relay has ended by itself; it is freed after that. */
	void (*over)(struct relay *relay, void *own);
	void *own;
};

/* Starts from the event loop. NULL: no memory, or epoll has failed; then the descriptors stay the
 * caller's. */
struct relay *relay_new(const struct relay_request *request);
/* Ends the relay. NULL is fine. */
void relay_free(struct relay *relay);
