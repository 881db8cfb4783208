/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The command's input and output
 *
 * The command never holds the caller's descriptors: it gets pipes, and the supervisor copies. So it
 * can neither truncate nor reopen a file that the caller writes to, nor type into a terminal, and
 * output can be counted. The caller's descriptors are not switched to non-blocking, which others
 * would notice: the copy writes small pieces when poll() says that there is room.
 */
enum {
	RELAY_IN,
	RELAY_OUT,
	RELAY_ERR,
	RELAY_COUNT,
};

struct stream {
	int from;	/* -1 once it has ended */
	int to;		/* -1 once nobody reads any more */
	bool closes_to; /* our pipe, not the caller's descriptor */
	bool closes_from;
	bool is_big; /* a plain file: takes any amount at once */
	size_t used, sent;
	char data[65536];
};

struct relay {
	struct stream streams[RELAY_COUNT];
	uint64_t output_bytes;
	uint64_t output_limit;
	bool is_over; /* there was more than the limit */
};

struct atoll_error;

/* Make the pipes; `ret_child` gets the command's ends, which the caller closes after the start. */
int relay_open(struct relay *relay, const int caller[3], uint64_t output_limit, int ret_child[3],
	       struct atoll_error *err);
void relay_close(struct relay *relay);

/* Fill in what to wait for: always 2 * RELAY_COUNT entries, some of them unused. */
void relay_want(const struct relay *relay, struct pollfd *fds);
/* Move what can be moved. False if the output limit has been reached. */
bool relay_move(struct relay *relay, const struct pollfd *fds);
/* The command has ended: pass on what is left in the pipes. */
bool relay_drain(struct relay *relay, int64_t until_ns);
