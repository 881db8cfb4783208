/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/vt.h"

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
 *
 * Where the command has a terminal of its own, that one's master takes the place of pipes. What
 * goes to a terminal of the caller's passes a filter (vt.h); what goes elsewhere stays exact.
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
	bool is_big;	  /* a plain file: takes any amount at once */
	bool is_shown;	  /* on a terminal: filtered */
	bool is_terminal; /* the command's side is */
	size_t used, sent;
	struct vt vt;
	char *data; /* its room of the relay's */
};

#define RELAY_ROOM 65536

struct eventlog_output;

struct relay {
	struct stream streams[RELAY_COUNT];
	uint64_t output_bytes;
	uint64_t output_limit;
	bool is_over;			/* there was more than the limit */
	bool has_terminal;		/* the command has: its output and input are one */
	bool is_held;			/* nothing is taken yet */
	bool is_input_held;		/* the caller's input is not ours to read now */
	bool ends_with_line;		/* the last byte of input was a line's end */
	struct eventlog_output *output; /* gets what the command says; may be NULL */
	bool has_others; /* processes that live on may hold the other ends: at the end only what
			  * is there is passed on, and no end is waited for */
	char rooms[RELAY_COUNT][RELAY_ROOM]; /* last: most runs never touch all of it */
};

struct atoll_error;

/* Make the pipes; `ret_child` gets the command's ends, which the caller closes after the start.
 * Where `is_terminal` is true there is none, and -1: the master comes with relay_attach(). */
int relay_open(struct relay *relay, const int caller[3], const bool is_terminal[3],
	       uint64_t output_limit, int ret_child[3], struct atoll_error *err);
int relay_attach(struct relay *relay, int master_fd, struct atoll_error *err);
void relay_close(struct relay *relay);

/* Fill in what to wait for: always 2 * RELAY_COUNT entries, some of them unused. */
void relay_want(const struct relay *relay, struct pollfd *fds);
/* Move what can be moved. False if the output limit has been reached. */
bool relay_move(struct relay *relay, const struct pollfd *fds);
/* Nothing has come for a while: room that nothing waits in is empty memory until then. */
void relay_idle(struct relay *relay);
/* The command has ended: pass on what is left in the pipes. False if it was left undone because
 * `stop_fd` became readable; call it again to go on. */
bool relay_drain(struct relay *relay, int64_t until_ns, int stop_fd);
/* Undo on the caller's terminal what output has switched on there. Returns true if the cursor may
 * not be at the beginning of a fresh line. */
bool relay_reset(struct relay *relay);
/* Does the caller's terminal send reports that the command has asked for? */
bool relay_reports(const struct relay *relay);
