/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "base/loop.h"
#include "box/guest.h"
#include "box/held.h"
#include "guest/guest-wire.h"

#include <atoll/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How a guest is asked
 *
 *   guest.c        the requests; each becomes a call
 *   guest-link.c   one guest: its start, packets out and in, its end
 *   guest-reply.c  what a packet says; nothing of it is believed
 *   guest-watch.c  watches
 *   guest-start.c  its start, as a step of the sandbox
 *
 * A guest is started by the first request for its box and user, and ends when nothing was asked for
 * a while: an idle box has none. It ends by itself when its socket closes.
 */

struct box;
struct box_pair;

/* Together, of one guest: requests that wait for an answer. */
#define GUEST_CALLS_MAX 4096
/* What has been received of lists that are not complete: of a box, where one at its largest fits;
 * and of the whole daemon. Where that is not enough, the box that holds most gives way: those who
 * fill it lose what they hold, and do not keep others from their files. */
#define GUEST_BOX_BYTES_MAX (64U << 20)
#define GUEST_BYTES_MAX	    (128U << 20)

/* A packet, kept: entries point into it. */
struct guest_part {
	struct guest_part *next;
	size_t n; /* entries */
	size_t at, size;
	char data[];
};

struct guest_call {
	struct guest_call *next;
	struct guest *guest; /* NULL: it failed before it was asked */
	struct box *box;
	uint64_t id;
	enum guest_question kind;
	struct buf packet; /* the question */
	bool is_sent;
	bool is_mute; /* nobody waits any more */
	int pipe[2];  /* of STREAM: what is read out here, and what goes inside; -1 */

	guest_done *done;
	guest_opened *opened;
	guest_listed *listed;
	void *data;
	struct guest_watch *watch;

	/* For asking again, as root on behalf of a user. */
	char *user;
	uint32_t number, flags;
	const char **words; /* copies, NULL at the end */
	bool is_second;
	struct atoll_error first;

	struct guest_part *parts, **last_part;
	size_t n_entries, n_bytes;
	struct guest_call *next_holder, **holder_link; /* of those with parts; NULL: it has none */

	struct atoll_error error; /* to be told later */
	struct loop_timer timer;
};

struct guest {
	struct guest *next; /* of the same box */
	struct box *box;
	char *user; /* "": the box's default */
	struct loop_watch socket;
	struct loop_timer timer;
	uint64_t next_id;
	struct atoll_step *step; /* until it runs */
	struct loop_watch step_watch;
	/* The holder takes no more connections just now, or is new. */
	struct loop_timer start_timer;
	bool has_raised;
	int64_t start_until_ns;
	int channel_fd; /* for then; 0: none */
	uint32_t step_number;
	struct guest_call *calls, **last_call;
	struct guest_call *unsent;
	size_t n_calls;
	struct guest_watch *watches;
	int64_t heard_ns, asked_ns; /* when it last said something; since when we wait for a sign */
	bool has_answered, is_busy, is_gone;
	struct loop_turn turn; /* what it says is read in turns of its tenant's lane */
};

/* What a packet holds behind its head, in one piece of memory; false: it makes no sense. */
struct guest_reply {
	const char *path; /* of the answer, or the name of an event */
	struct guest_entry *entries;
	size_t n;
	struct box_pair *pairs; /* memory of all metadata */
};

struct guest_watch {
	struct guest *guest;	 /* NULL: it is gone */
	struct guest_call *call; /* that arms it; NULL: that is over */
	uint64_t id;
	guest_done *done;
	guest_watched *told;
	void *data;
	struct guest_watch *next; /* of the guest */
	bool is_busy, is_ended;	  /* being called back; to be freed then */
};

struct guest_list {
	struct guest_part *parts;
	struct guest_reply reply; /* of the first of them, once it was asked for */
	struct held held;
	bool has_begun, has_failed;
};
