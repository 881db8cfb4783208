/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Messages between the launcher and the runner
 *
 * Both ends of a pipe write frames: four bytes with the size of what follows, least significant
 * first, one byte with the type, and the payload. A frame is at most NT_FRAME_MAX bytes. The runner
 * executes as another account and reads bytes that the sandbox could influence, so a frame that is
 * too long, empty or of an unknown type ends the connection.
 */

#define NT_FRAME_MAX	(1 << 20)
#define NT_FRAME_HEADER 5

enum nt_frame_type {
	NT_FRAME_HELLO = 1, /* version and nonce; the first frame in each direction */
	NT_FRAME_START,	    /* launcher: what to execute */
	NT_FRAME_STARTED,   /* runner: the process runs */
	NT_FRAME_INPUT,	    /* launcher: bytes for standard input; empty payload is its end */
	NT_FRAME_OUTPUT,    /* runner: bytes of standard output */
	NT_FRAME_ERROR,	    /* runner: bytes of standard error */
	NT_FRAME_RESIZE,    /* launcher: the terminal's new size */
	NT_FRAME_TERMINATE, /* launcher: end everything */
	NT_FRAME_EXITED,    /* runner: exit status */
	NT_FRAME_FAILED,    /* runner: what could not be done */
	NT_FRAME_TYPES,	    /* the number after the last type */
};

struct nt_frame {
	enum nt_frame_type type;
	const uint8_t *payload; /* within the reader's input */
	size_t size;
};

/* Read one frame from the start of `data`. Returns how many bytes it takes, 0 if more bytes are
 * needed, or -EPROTO for bytes that no correct peer sends. */
int nt_frame_read(const uint8_t *data, size_t size, struct nt_frame *ret);

/* Write the header of a frame whose payload has `size` bytes. Returns 0, or -E2BIG. */
int nt_frame_header(enum nt_frame_type type, size_t size, uint8_t ret[NT_FRAME_HEADER]);
