/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Bytes from one socket to another by pages (splice), over one pipe that all connections share
 */

/* Before egress locks itself in. Without a pipe everything is copied. */
void relay_pipe_open(void);
bool relay_pipe_exists(void);

struct piped {
	size_t got;    /* read; 0: the end */
	uint8_t *left; /* what the other side did not take, for the caller to free(); or NULL */
	size_t n_left;
	bool is_failed; /* the other side takes nothing more, or bytes were lost */
};

/* Move at most `most` bytes. 0, or the negative errno of reading. */
int relay_pipe_move(int from, int to, size_t most, struct piped *ret);
