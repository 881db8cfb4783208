/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "init/notice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Gathering notices, and sending them
 *
 * Nothing here waits but tell_finish(). Where the supervisor does not keep up there is no room, and
 * the loop leaves the filter's listener alone until there is: whoever asks is answered when it can
 * be recorded. So a supervisor that waits for the first process is never waited for in turn.
 */
struct tell {
	int fd;
	struct notice_packet *packet; /* NULL: nothing is told */
	struct notice *open;	      /* the notice at work; NULL: none */
	size_t used;		      /* of it */
	int fds[NOTICE_FDS_MAX];
	size_t n_fds;
	int64_t since_ns; /* since when something waits; 0: nothing does */
	int64_t began_ns; /* since 1970 */
	bool is_stuck;	  /* the socket was full */
};

void tell_init(struct tell *tell, int fd, struct notice_packet *packet);

static inline bool tell_is_on(const struct tell *tell)
{
	return tell->packet;
}

/* Is there room for all that one call may have to tell? Sends if there is not, and may be told no.
 */
bool tell_has_room(struct tell *tell);

/*
 * One notice: begin, its texts in order, end. There must be room. tell_begin() returns it for the
 * other fields; what is not ended is forgotten by the next tell_begin(). A text that does not fit
 * is cut, with NOTICE_IS_CUT.
 */
struct notice *tell_begin(struct tell *tell, enum notice_type type);
void tell_text(struct tell *tell, const char *text);
void tell_bytes(struct tell *tell, const char *text, size_t size);
/* With this descriptor, which is ours from here on; closed if it cannot go along. */
void tell_fd(struct tell *tell, int fd);
void tell_end(struct tell *tell);

/* Send what waits, if the socket takes it. False if not. */
bool tell_send(struct tell *tell);
/* Send if it has waited for long enough. */
void tell_send_if_due(struct tell *tell, int64_t now_ns);
/* How long to wait for other things at most. */
int tell_wait_ms(const struct tell *tell, int64_t now_ns, int most_ms);

/* Before the end: until all is sent, or the supervisor is gone, which `control_fd` tells. */
void tell_finish(struct tell *tell, int control_fd);
