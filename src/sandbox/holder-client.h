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

enum client_state {
	CLIENT_FREE,
	CLIENT_REQUEST, /* connected; no step */
	CLIENT_RUNNING, /* pid 1 was ordered to start the step */
	CLIENT_ENDED,	/* pid 1 has reported `end`; the holder has not handled it yet */
	CLIENT_ENDING,	/* being handled: an end of the cell meanwhile does not replace `end` */
	CLIENT_OVER,	/* the end of an attached step is sent; the connection is open */
};

struct holder_client {
	enum client_state state;
	struct detached_step *detached; /* NULL: a request, or an attached step */
	int fd;				/* -1: the client is gone, or the step is detached */
	uint32_t step_id;		/* of the step in pid 1's messages; 0: no step */
	int result_fd, life_fd;
	int drains[2];
	int64_t kill_ns;  /* when the holder kills the step; INT64_MAX: never */
	uint64_t cpu_ms;  /* that the sandbox had used before the step */
	bool is_removing; /* the client has sent HOLDER_END with HOLDER_REMOVE */
	bool is_cut;	  /* a rollback has ended the step */
	struct init_message end;
	bool is_logged; /* the event log has the step's start, and not its end */
	int64_t start_ns;
	char command[512];
};

/* Asserts that the change is one of the life that holder-steps.c describes. */
void client_set_state(struct holder_client *client, enum client_state state);

/* Is there a step whose end is not sent yet? */
static inline bool client_has_step(const struct holder_client *client)
{
	return client->state >= CLIENT_RUNNING && client->state <= CLIENT_ENDING;
}

/* Send a message of pid 1 to the client of an attached step; nothing happens if it is gone. */
void client_send_message(const struct holder_client *client, const struct init_message *message,
			 int fd);

/* Accept one connection. */
void holder_accept(struct holder *holder);
/* Read a request, an order, a report, or the end of the connection. */
void holder_serve_client(struct holder *holder, struct holder_client *client);
/* Kill attached steps whose client is gone, after their grace. */
void holder_end_orphans(struct holder *holder);
/* Read output that has no reader any more from holder->drains[i]. */
void holder_drain(struct holder *holder, size_t i);
/* Close the connection and free the place. */
void holder_free_client(struct holder *holder, struct holder_client *client);
