/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "init/init.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct detached_step;
struct holder;

/*
 * A connection to the holder, or a step
 *
 * A connection has a place in holder->clients. If its request starts an attached step, the place
 * belongs to both until the step is over and the connection closed. A detached step has a place
 * without a connection: its watchers have the connections (holder-detached.h).
 */
struct holder_client {
	bool is_used;
	struct detached_step *detached; /* NULL: a request, or an attached step */
	int fd;				/* -1: the client is gone, or the step is detached */
	uint32_t step_id;		/* of the step in pid 1's messages; 0: no step yet */
	int result_fd, life_fd;
	int drains[2];
	int64_t kill_ns; /* when the holder kills the step; INT64_MAX: never */
	uint64_t cpu_ms; /* that the sandbox had used before the step */
	bool has_end;	 /* pid 1 has sent `end`; the holder has not handled it yet */
	bool is_over;	 /* the end is handled and sent */
	bool is_ending;	 /* the end is being handled: an end of the cell meanwhile is not the step's
			  */
	bool is_removing; /* the client has sent HOLDER_END with HOLDER_REMOVE */
	bool is_cut;	  /* a rollback has ended the step */
	struct init_message end;
	bool is_logged; /* the event log has the step's start, and not its end */
	int64_t start_ns;
	char command[512];
};

/* Accept one connection. */
void holder_accept(struct holder *holder);
/* Read a request, an order, a report, or the end of the connection. */
void holder_serve_client(struct holder *holder, struct holder_client *client);
/* Kill attached steps whose client is gone, after their grace. */
void holder_end_orphans(struct holder *holder);
/* Read output that has no reader any more from holder->drains[i]. */
void holder_drain(struct holder *holder, size_t i);
/* A free place; NULL if all are in use. */
struct holder_client *holder_new_client(struct holder *holder);
/* Close the connection and free the place. */
void holder_free_client(struct holder *holder, struct holder_client *client);
